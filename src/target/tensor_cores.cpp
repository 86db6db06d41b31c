#include "target/tensor_cores.h"

#include <algorithm>

#include <fmt/format.h>

namespace quern {

TensorCore::Dims TensorCore::early_upcast_axes() const {
  Dims left;
  for (int32_t dim = 0; dim < 2; ++dim) {
    int32_t by_threads = 1;
    for (const AxisSize& t : threads)
      if (t.axis == dim) by_threads *= t.size;
    const int32_t size = dims[static_cast<size_t>(dim)];
    if (size > by_threads) left.push_back({dim, size / by_threads});
  }
  return left;
}

std::string TensorCore::name() const {
  return fmt::format("WMMA_{}_{}_{}_{}_{}", dims[0], dims[1], dims[2], c_name(dtype_in), c_name(dtype_out));
}

namespace {

struct Types {
  Scalar in;
  Scalar out;
};

/// One instruction for several pairs of element types.
std::vector<TensorCore> for_types(TensorCore core, std::initializer_list<Types> types) {
  std::vector<TensorCore> cores;
  for (const Types& t : types) {
    core.dtype_in = t.in;
    core.dtype_out = t.out;
    cores.push_back(core);
  }
  return cores;
}

}  // namespace

std::vector<TensorCore> intel_tensor_cores() {
  return for_types({.dims = {8, 8, 16},
                    .threads = {{0, 8}},
                    .reduce_axes = {{0, 16}},
                    .upcast_axes = {{{{0, 16}}, {{0, 16}}, {{1, 8}}}},
                    .swizzle_a = TensorCore::Swizzle{{{1, 0}}, {{1, 2}, {1, 1}, {0, 0}}},
                    .swizzle_b = std::nullopt,
                    .expanded_shape = {8, 2, 8}},
                   {{Scalar::Half, Scalar::Float}, {Scalar::BFloat16, Scalar::Float}});
}

std::vector<TensorCore> metal_tensor_cores() {
  return for_types(
      {.dims = {8, 8, 8},
       .threads = {{0, 2}, {1, 4}, {0, 2}, {1, 2}},
       .reduce_axes = {{0, 8}},
       .upcast_axes = {{{{1, 2}}, {{1, 2}}, {{1, 2}}}},
       .swizzle_a = TensorCore::Swizzle{{{1, 1}, {0, 1}, {1, 0}, {0, 3}}, {{0, 0}, {0, 2}, {1, 3}, {1, 2}}},
       .swizzle_b = TensorCore::Swizzle{{{0, 0}, {1, 1}, {1, 2}, {0, 2}, {1, 0}}, {{0, 1}, {0, 3}, {1, 3}}},
       .expanded_shape = {2, 2, 2, 2}},
      {{Scalar::Float, Scalar::Float}, {Scalar::Half, Scalar::Float}, {Scalar::Half, Scalar::Half}});
}

// mma.m16n8k16 with float sums: PTX ISA, "Matrix fragments for mma.m16n8k16".
std::vector<TensorCore> cuda_tensor_cores() {
  return for_types({.dims = {8, 16, 16},
                    .threads = {{0, 2}, {0, 2}, {1, 2}, {1, 2}, {1, 2}},
                    .reduce_axes = {{0, 8}, {1, 2}},
                    .upcast_axes = {{{{0, 8}}, {{2, 2}, {3, 2}}, {{3, 2}, {2, 2}}}},
                    .swizzle_a = TensorCore::Swizzle{{{1, 1}, {1, 0}, {0, 2}, {0, 3}, {0, 4}},
                                                     {{1, 3}, {1, 5}, {1, 2}, {0, 0}, {0, 1}, {1, 4}}},
                    .swizzle_b = TensorCore::Swizzle{{{1, 1}, {1, 0}, {1, 4}, {0, 0}, {0, 1}},
                                                     {{0, 4}, {0, 2}, {1, 5}, {0, 3}, {1, 3}, {1, 2}}},
                    .expanded_shape = {2, 2, 2, 2, 2, 2}},
                   {{Scalar::Half, Scalar::Float}, {Scalar::BFloat16, Scalar::Float}});
}

std::vector<TensorCore> ptx_tensor_cores() {
  std::vector<TensorCore> cores = cuda_tensor_cores();
  std::erase_if(cores, [](const TensorCore& core) { return core.dtype_in != Scalar::Half; });
  return cores;
}

// mma.m16n8k8 with tf32: PTX ISA, "Matrix fragments for mma.m16n8k8". Its k and k + 4 are neighbours here, loaded together.
TensorCore tf32_tensor_core() {
  return {.dims = {8, 16, 8},
          .dtype_in = Scalar::Float,
          .dtype_out = Scalar::Float,
          .threads = {{0, 2}, {0, 2}, {1, 2}, {1, 2}, {1, 2}},
          .reduce_axes = {{0, 4}, {1, 2}},
          .upcast_axes = {{{{0, 4}}, {{1, 2}}, {{3, 2}, {2, 2}}}},
          .swizzle_a =
              TensorCore::Swizzle{{{1, 0}, {1, 2}, {0, 2}, {0, 3}, {0, 4}}, {{1, 1}, {1, 4}, {0, 0}, {0, 1}, {1, 3}}},
          .swizzle_b =
              TensorCore::Swizzle{{{1, 0}, {1, 2}, {1, 3}, {0, 0}, {0, 1}}, {{0, 2}, {0, 3}, {1, 1}, {0, 4}, {1, 4}}},
          .expanded_shape = {2, 2, 2, 2, 2},
          .tf32 = true};
}

// RDNA3 WMMA: lanes 16..31 of a wave repeat the inputs of lanes 0..15, so threads are taken before upcasts.
std::vector<TensorCore> amd_tensor_cores() {
  return for_types({.dims = {16, 16, 16},
                    .threads = {{0, 8}, {0, 2}, {1, 2}},
                    .reduce_axes = {{0, 16}},
                    .upcast_axes = {{{{0, 16}}, {{0, 16}}, {{1, 8}}}},
                    .swizzle_a = TensorCore::Swizzle{{{1, 2}, {0, 2}, {1, 1}, {0, 1}}, {{1, 0}, {0, 0}}},
                    .swizzle_b = std::nullopt,
                    .expanded_shape = {16, 2, 4},
                    .opts_order = "LU"},
                   {{Scalar::Half, Scalar::Float}, {Scalar::Half, Scalar::Half}});
}

// An outer product of two 64-byte registers.
std::vector<TensorCore> amx_tensor_cores() {
  return for_types({.dims = {16, 16, 1}, .upcast_axes = {{{{1, 16}}, {{0, 16}}, {{1, 16}, {0, 16}}}}},
                   {{Scalar::Float, Scalar::Float}});
}

}  // namespace quern
