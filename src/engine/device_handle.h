#pragma once
#include "quern/device.h"

#include "runtime/device.h"

namespace quern {

/// What a public DeviceHandle holds.
struct DeviceHandle::Impl {
  std::shared_ptr<Device> device;
  std::string name;
};

}  // namespace quern
