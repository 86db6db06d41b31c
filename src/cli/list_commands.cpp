#include <fmt/format.h>

#include "base/settings.h"
#include "cli/commands.h"
#include "runtime/device.h"
#include "target/target.h"

namespace quern::cli {

namespace {

void list_targets() {
  fmt::print("{:<12} {:<8} {:<7} {:<7} {:<7} {:<7} {:>9}  {}\n", "target", "device", "threads", "shared", "images",
             "float4", "shared B", "tensor cores");
  for (const std::string& name : target_names()) {
    const Target& t = find_target(name);
    std::string cores;
    for (const TensorCore& tc : t.tensor_cores)
      cores += fmt::format("{}{}x{}x{} {}->{}", cores.empty() ? "" : ", ", tc.dims[0], tc.dims[1], tc.dims[2],
                           to_string(tc.dtype_in), to_string(tc.dtype_out));
    auto yes = [](bool b) { return b ? "yes" : "-"; };
    fmt::print("{:<12} {:<8} {:<7} {:<7} {:<7} {:<7} {:>9}  {}\n", t.name, t.device, yes(t.has_local),
               yes(t.has_shared), yes(t.has_images), yes(t.has_float4),
               t.has_shared ? std::to_string(t.shared_max) : "-", cores.empty() ? "-" : cores);
  }
}

void list_devices(const Context& context) {
  for (const DeviceInfo& d : devices(context.settings))
    fmt::print("{:<8} {:<12} {}\n", d.name, d.available ? "available" : "absent", d.note);
}

void list_settings() {
  for (const SettingInfo& s : all_settings())
    fmt::print("{:<16} {:<6} default {:<8} {}\n", s.name, s.type == SettingType::Int ? "int" : "text",
               s.default_value.empty() ? "(empty)" : s.default_value, s.help);
}

}  // namespace

void add_lists(CLI::App& app, Context& context) {
  app.add_subcommand("targets", "List the targets and what they can do")->callback(list_targets);
  app.add_subcommand("devices", "List the devices of this machine")->callback([&context] { list_devices(context); });
  app.add_subcommand("settings", "List the settings read from the environment")->callback(list_settings);
}

}  // namespace quern::cli
