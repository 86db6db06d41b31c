#include "runtime/host.h"

#include <array>
#include <fstream>
#include <string_view>

namespace quern {

namespace {

/// Lines of /proc/cpuinfo that tell processors apart, on x86 and Arm.
constexpr std::array<std::string_view, 9> kTelling = {"vendor_id", "cpu family",      "model\t",
                                                      "flags",     "CPU implementer", "CPU architecture",
                                                      "CPU part",  "CPU variant",     "Features"};

std::string read_processor() {
  std::ifstream in("/proc/cpuinfo");
  std::string all;
  for (std::string line; std::getline(in, line) && !line.empty();)  // the first processor
    for (std::string_view name : kTelling)
      if (line.starts_with(name)) all += line + "\n";
  return all;
}

}  // namespace

const std::string& host_processor() {
  static const std::string text = read_processor();
  return text;
}

}  // namespace quern
