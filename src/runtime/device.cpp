#include "runtime/device.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "quern/error.h"

#include "base/shown.h"
#include "runtime/cached_device.h"
#include "runtime/clang/clang.h"
#include "runtime/cuda/cuda.h"
#include "runtime/interp/interp.h"
#ifdef QUERN_HAVE_LLVM
#include "runtime/cpu/cpu.h"
#endif
#ifdef QUERN_HAVE_OPENCL
#include "runtime/opencl/opencl.h"
#endif

namespace quern {

namespace {

struct Row {
  std::string_view name;
  DeviceInfo (*describe)(const Settings&);
  std::shared_ptr<Device> (*open)(const Settings&);  ///< null where this build does not have it
};

DeviceInfo describe_cpu(const Settings&) {
#ifdef QUERN_HAVE_LLVM
  return {"CPU", true, "LLVM in this process"};
#else
  return {"CPU", false, "this build is without LLVM 19"};
#endif
}

DeviceInfo describe_clang(const Settings& settings) {
  std::optional<std::string> compiler = CCompiler::available(settings);
  if (compiler) return {"CLANG", true, "C through " + *compiler};
  std::string wanted = settings.text("CC");
  return {
      "CLANG", false,
      wanted.empty() ? "no clang or cc is on the PATH" : "no compiler " + in_quotes(wanted) + " (setting CC) is found"};
}

#ifndef QUERN_HAVE_OPENCL
DeviceInfo describe_opencl(const Settings&) {
  return {"OPENCL", false, "this build is without the OpenCL headers and loader"};
}
#endif

DeviceInfo describe_interp(const Settings&) {
  return {"INTERP", true, "runs any target's program step by step, checking every access"};
}

constexpr std::array kDevices = {
#ifdef QUERN_HAVE_LLVM
    Row{"CPU", describe_cpu, make_cpu_device},
#else
    Row{"CPU", describe_cpu, nullptr},
#endif
    Row{"CLANG", describe_clang, make_clang_device},
#ifdef QUERN_HAVE_OPENCL
    Row{"OPENCL", describe_opencl, make_opencl_device},
#else
    Row{"OPENCL", describe_opencl, nullptr},
#endif
    Row{"CUDA", describe_cuda, make_cuda_device},
    Row{"INTERP", describe_interp, [](const Settings&) { return make_interp_device(); }},
};

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::toupper(x) == std::toupper(y); });
}

}  // namespace

std::unique_ptr<Executable> Device::load(const Program& program, std::string_view) {
  throw CompileError("device " + name() + " starts no kernel from a binary, and so not " + program.name);
}

std::vector<DeviceInfo> devices(const Settings& settings) {
  std::vector<DeviceInfo> found;
  for (const Row& row : kDevices) found.push_back(row.describe(settings));
  return found;
}

const Target& target_for(const Device& device, std::string_view name) {
  const Target& target = name.empty() ? device.default_target() : find_target(name);
  if (!device.accepts(target)) throw DeviceError("device " + device.name() + " cannot run programs for " + target.name);
  return target;
}

std::shared_ptr<Device> open_device(std::string_view name, const Settings& settings) {
  std::string known;
  for (const Row& row : kDevices) {
    if (same_name(row.name, name)) {
      DeviceInfo about = row.describe(settings);
      if (!about.available || row.open == nullptr)
        throw DeviceError("device " + about.name + " is not here: " + about.note);
      return with_cache(row.open(settings), open_cache(settings));
    }
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  throw DeviceError("no device is called " + in_quotes(name) + ": there are " + known);
}

}  // namespace quern
