#pragma once
#include <memory>

#include "runtime/device.h"

namespace quern {

/// INTERP: runs any target's linear program lane by lane (whole work groups in lock step), with local memory, barriers, tensor
/// cores and images. It reads no source text, needs no compiler, and checks every access: an index outside its buffer, a local
/// value read by another thread before a barrier, an image written outside are DeviceErrors that name the op and the thread.
std::shared_ptr<Device> make_interp_device();

}  // namespace quern
