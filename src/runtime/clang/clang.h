#pragma once
#include <memory>

#include "runtime/clang/compiler.h"
#include "runtime/device.h"

namespace quern {

/// CLANG: compiles C source by the system's compiler to a shared object in a temporary folder, loads it and removes the folder.
/// Throws DeviceError where no compiler is found and none is remembered.
std::shared_ptr<Device> make_clang_device(const Settings& settings);

}  // namespace quern
