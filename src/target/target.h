#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/ops.h"
#include "ir/uop.h"

namespace quern {

/// An instruction D(M,N) = A(M,K) * B(K,N) + C(M,N) run by a group of threads. Dimension numbers: 0 = N, 1 = M, 2 = K.
struct TensorCore {
  using Dims = std::vector<AxisSize>;                ///< axis = dimension
  using Pattern = std::vector<std::pair<int, int>>;  ///< (0: of the warp's axes, 1: of the expanded axes; which)
  std::array<int32_t, 3> dims;
  Scalar dtype_in;
  Scalar dtype_out;
  Dims threads;
  Dims reduce_axes;
  std::array<Axes, 3> upcast_axes;  ///< of A, B, C: axes among the upcast ones, from the first upcast axis
  struct Swizzle {
    Pattern warp;
    Pattern expanded;
    bool operator==(const Swizzle&) const = default;
  };
  std::optional<Swizzle> swizzle_a, swizzle_b;
  std::vector<int32_t> expanded_shape;
  bool tf32 = false;              ///< its float inputs are rounded to 10 bits of mantissa
  std::string opts_order = "UL";  ///< U: upcast input first, L: local threads first
  /// Per dimension 0 and 1: what threads leave over, to upcast.
  Dims early_upcast_axes() const;
  std::string name() const;  ///< "WMMA_8_16_16_half_float"
  bool operator==(const TensorCore&) const = default;
};

/// An instruction on vectors: each lane of a sum gets the products of `steps` neighbours of two vectors of narrower elements added.
struct DotProduct {
  Scalar in, out;
  int steps;
  bool operator==(const DotProduct&) const = default;
};

enum class Dialect : uint8_t { C, Dsp, Llvm, OpenCl, Cuda, Ptx, Metal, Hip };

/// What a target can do: plain data. Nothing above render knows a dialect; nothing asks a device what it can do.
struct Target {
  std::string name;    ///< "cuda:sm_80"
  std::string device;  ///< the reference's name of its device: "CUDA", "CLANG", ...
  Dialect dialect = Dialect::C;
  bool has_local = true;
  bool has_shared = true;
  bool has_images = false;
  bool has_float4 = true;  ///< wide loads and stores
  bool amx = false;
  // Of CPUs that Quern lays out itself, rather than as the reference does:
  int vector_bytes = 0;      ///< of a vector register; 0: code is made of scalars, and what its compiler makes of them
  int vector_registers = 0;  ///< how many there are
  std::vector<DotProduct> dots;
  bool has_threads = false;  ///< an axis may be shared out among cores
  std::optional<std::array<int64_t, 3>> global_max = std::array<int64_t, 3>{0x8FFFFFFF, 0x8FFFFFFF, 0x8FFFFFFF};
  std::optional<std::array<int64_t, 3>> local_max = std::array<int64_t, 3>{0x8FFFFFFF, 0x8FFFFFFF, 0x8FFFFFFF};
  int64_t shared_max = 32768;
  std::vector<TensorCore> tensor_cores;
  OpSet native_ops;              ///< ALU ops the dialect has (others are legalized away)
  std::vector<Scalar> emulated;  ///< types stored but not computed in (bfloat16): arithmetic in float
  std::string
      compiler_flags;  ///< without these its compiler does not keep what values mean (contraction, rounding of quotients)
  bool operator==(const Target&) const = default;
};

/// The target called `name`; throws quern::Error listing the known ones.
const Target& find_target(std::string_view name);
/// The CPU target with the vectors of the machine this runs on.
const Target& own_cpu_target();
/// The same target with tensor cores that multiply floats as tf32 too, where it has them; else the target itself.
const Target& with_tf32(const Target& target);
/// Names of all targets, in the order `quern targets` prints.
std::vector<std::string> target_names();

}  // namespace quern
