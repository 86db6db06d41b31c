#pragma once
#include <memory>

#include "runtime/device.h"

namespace quern {

/// Says which GPU CUDA is, or what is missing: the driver, a GPU, NVRTC.
DeviceInfo describe_cuda(const Settings& settings);

/// CUDA: CUDA C++ through NVRTC, and PTX, on the first GPU. Runs targets up to its compute capability. May be used by several threads.
/// Throws DeviceError where something is missing.
std::shared_ptr<Device> make_cuda_device(const Settings& settings);

/// 80 of "cuda:sm_80"; 0 for targets of other kinds.
int compute_capability(const Target& target);
/// The newest target called "<prefix>:sm_<n>" that a GPU of this capability runs; null where it is too old for all.
const Target* cuda_target(std::string_view prefix, int capability);

}  // namespace quern
