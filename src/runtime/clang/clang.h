#pragma once
#include <memory>
#include <optional>
#include <string>

#include "runtime/device.h"

namespace quern {

/// The C compiler device CLANG would use: the setting CC, else the first of clang and cc on the PATH; nothing if there is none.
std::optional<std::string> find_c_compiler(const Settings& settings);

/// CLANG: compiles C source by the system's compiler to a shared object in a temporary folder, loads it and removes the folder.
/// Throws DeviceError where no compiler is found.
std::shared_ptr<Device> make_clang_device(const Settings& settings);

}  // namespace quern
