#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/opencl/api.h"

namespace quern::opencl {

/// A device of an installed driver.
struct Found {
  cl_platform_id platform;
  cl_device_id device;
  std::string place;          ///< "0:1": the numbers of its platform and, there, of itself
  std::string platform_name;  ///< "Portable Computing Language"
  std::string device_name;
  std::string version;   ///< "OpenCL 3.0 PoCL ..."
  std::string unusable;  ///< why it cannot be used; empty if it can
  std::string text() const;
};

/// All devices of all platforms, in the loader's order.
std::vector<Found> find_devices();

/// True if `wanted`, "platform:device", means this one. Each part is a number or a part of the name in any case; an empty one, or
/// a device that is not given, means any.
bool is_wanted(const Found& found, std::string_view wanted);

/// The first usable device that is wanted. Else `why` says what is missing.
std::optional<Found> choose(const std::vector<Found>& all, std::string_view wanted, std::string& why);

}  // namespace quern::opencl
