#pragma once
#include <vector>

#include "target/target.h"

namespace quern {

// The matrix instructions of each family of devices, in the order they are tried.
std::vector<TensorCore> intel_tensor_cores();
std::vector<TensorCore> metal_tensor_cores();
std::vector<TensorCore> cuda_tensor_cores();
std::vector<TensorCore> ptx_tensor_cores();  ///< those of CUDA that PTX text can express here: half only
TensorCore tf32_tensor_core();               ///< of CUDA and PTX from sm_80 on, where floats may be rounded
std::vector<TensorCore> amd_tensor_cores();
std::vector<TensorCore> amx_tensor_cores();

}  // namespace quern
