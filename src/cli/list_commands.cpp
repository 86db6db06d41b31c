#include <algorithm>

#include <fmt/format.h>

#include "base/settings.h"
#include "cli/commands.h"
#include "cli/target_table.h"
#include "runtime/device.h"
#include "target/target.h"

namespace quern::cli {

namespace {

std::vector<std::shared_ptr<Device>> devices_here(const Settings& settings) {
  std::vector<std::shared_ptr<Device>> here;
  for (const DeviceInfo& d : devices(settings))
    if (d.available) here.push_back(open_device(d.name, settings));
  return here;
}

std::string names_of_those_for(const Target& target, const std::vector<std::shared_ptr<Device>>& here) {
  std::string text;
  for (const std::shared_ptr<Device>& d : here)
    if (d->accepts(target)) text += (text.empty() ? "" : ", ") + d->name();
  return text.empty() ? "-" : text;
}

void list_targets(const Context& context) {
  const std::vector<std::shared_ptr<Device>> here = devices_here(context.settings);
  fmt::print("{:<12} {:<8} {:<7} {:<7} {:<7} {:<7} {:>9}  {:<15} {}\n", "target", "device", "threads", "shared",
             "images", "float4", "shared B", "runs here on", "tensor cores");
  for (const std::string& name : target_names()) {
    const Target& t = find_target(name);
    std::string cores;
    for (const TensorCore& tc : t.tensor_cores)
      cores += fmt::format("{}{}x{}x{} {}->{}", cores.empty() ? "" : ", ", tc.dims[0], tc.dims[1], tc.dims[2],
                           to_string(tc.dtype_in), to_string(tc.dtype_out));
    auto yes = [](bool b) { return b ? "yes" : "-"; };
    fmt::print("{:<12} {:<8} {:<7} {:<7} {:<7} {:<7} {:>9}  {:<15} {}\n", t.name, t.device, yes(t.has_local),
               yes(t.has_shared), yes(t.has_images), yes(t.has_float4),
               t.has_shared ? std::to_string(t.shared_max) : "-", names_of_those_for(t, here),
               cores.empty() ? "-" : cores);
  }
}

void list_devices(const Context& context) {
  for (const DeviceInfo& d : devices(context.settings))
    fmt::print("{:<8} {:<12} {}\n", d.name, d.available ? "available" : "absent", d.note);
}

void list_settings() {
  auto default_of = [](const SettingInfo& s) { return s.default_value.empty() ? "(empty)" : s.default_value; };
  size_t name_width = 0, default_width = 0;
  for (const SettingInfo& s : all_settings()) {
    name_width = std::max(name_width, s.name.size());
    default_width = std::max(default_width, default_of(s).size());
  }
  for (const SettingInfo& s : all_settings())
    fmt::print("{:<{}} {:<5} default {:<{}}  {}\n", s.name, name_width, to_string(s.type), default_of(s), default_width,
               s.help);
}

}  // namespace

void add_lists(CLI::App& app, Context& context) {
  CLI::App* targets = app.add_subcommand("targets", "List the targets and what they can do");
  auto markdown = std::make_shared<bool>(false);
  targets->add_flag("--markdown", *markdown, "Print docs/targets.md: what is true on any machine");
  targets->callback([&context, markdown] {
    if (*markdown) return fmt::print("{}", targets_page());
    list_targets(context);
  });
  app.add_subcommand("devices", "List the devices of this machine")->callback([&context] { list_devices(context); });
  app.add_subcommand("settings", "List the settings read from the environment")->callback(list_settings);
}

}  // namespace quern::cli
