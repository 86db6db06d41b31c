#pragma once
#include <memory>

#include "runtime/device.h"

namespace quern {

/// Says which devices the installed OpenCL drivers have, and which one OPENCL is.
DeviceInfo describe_opencl(const Settings& settings);

/// OPENCL: OpenCL C through the driver that the ICD loader finds first, or the setting QUERN_OPENCL_DEVICE names. May be used by
/// several threads. Throws DeviceError where there is none.
std::shared_ptr<Device> make_opencl_device(const Settings& settings);

}  // namespace quern
