#pragma once
#include <memory>

#include "runtime/device.h"

namespace quern {

/// CPU: compiles LLVM IR in the process, for the machine it runs on, whose vectors its own target has. Thread-safe: programs may be compiled and run at the same
/// time. A program's code is freed with its Executable, which keeps the device's compiler alive.
std::shared_ptr<Device> make_cpu_device(const Settings& settings);

}  // namespace quern
