#pragma once
#include <memory>

#include "runtime/cache.h"
#include "runtime/device.h"

namespace quern {

/// The device, but it takes programs from the cache where it can and puts there what it compiles. Where there is no cache, or the
/// device has no binaries, it is the device itself.
std::shared_ptr<Device> with_cache(std::shared_ptr<Device> device, std::shared_ptr<BinaryCache> cache);

}  // namespace quern
