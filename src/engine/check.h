#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "optimize/kernel.h"
#include "runtime/device.h"

namespace quern {

/// Buffers for a program (in order of Program::globals), the inputs filled by a seed with values that mean something for the
/// kernel: ints that gather stay inside what they index, floats are small multiples of 1/8 (so that most sums are exact in any
/// order), positive where a logarithm, a root or a quotient is taken; random bits for ciphers.
Buffers make_inputs(UOp ast, const Program& program, uint64_t seed);
/// Values of variables between their bounds, by a seed.
VarValues make_vars(const Program& program, uint64_t seed);

/// How far two runs of a kernel may differ, from its dtypes, the length of its reductions and what its tensor core rounds to.
struct Tolerance {
  double relative = 0;      ///< of the larger value
  double of_scale = 0;      ///< of the largest value of the output
  double int_fraction = 0;  ///< share of int outputs that may differ, where they are made from rounded floats
};
Tolerance tolerance_of(UOp ast, const TensorCore* core = nullptr);

struct Difference {
  bool equal = true;
  std::string text;  ///< where and by how much, if not equal
  double worst = 0;  ///< largest difference over the allowed one
};
/// NaN equals NaN.
Difference compare_outputs(const Program& program, std::span<Buffer* const> want, std::span<Buffer* const> got,
                           const Tolerance& tolerance);
/// Operations of a run, bytes moved counted as a quarter each; at most, where sizes are symbolic.
double estimated_ops(const Program& program);
Buffers copy_of(const Buffers& buffers);

struct CheckLimits {
  int64_t max_bytes = int64_t{2} << 30;     ///< of all buffers of one run
  double max_ops = 2e10;                    ///< more than that is skipped
  double max_interpreted_ops = 2e5;         ///< the plain kernel is interpreted up to here, else compiled too
  double max_device_interpreted_ops = 1e8;  ///< when the device itself is the interpreter
};

struct CheckResult {
  enum class Kind { Match, Mismatch, Skipped, Failed } kind = Kind::Match;
  std::string note;  ///< the difference, why it was skipped, or the error
  double worst = 0;
  double seconds = 0;        ///< of the optimized program's run
  bool interpreted = false;  ///< the plain kernel ran in the interpreter
};

/// Compares kernels of one AST with the plain one (no opts) on `device`, on the same random inputs, every element of every output.
/// Plain kernels that are small run in the interpreter; each runs once however many are compared with it.
class KernelCheck {
 public:
  KernelCheck(Device& device, uint64_t seed, const CheckLimits& limits = {})
      : device_(device), seed_(seed), limits_(limits) {}
  /// All kernels of one KernelCheck are of the same AST and target.
  CheckResult operator()(const Kernel& kernel);

 private:
  struct Plain {
    bool interpreted;
    Buffers inputs, outputs;
    VarValues vars;
  };
  const Plain& plain_of(const Kernel& kernel, const Program& fast);

  Device& device_;
  uint64_t seed_;
  CheckLimits limits_;
  std::optional<Plain> plain_;
};
/// One kernel on its own.
CheckResult check_kernel(const Kernel& kernel, Device& device, uint64_t seed, const CheckLimits& limits = {});
/// `length` random legal opts, by a seed: "UPCAST(0,4) LOCAL(0,8)".
std::string random_walk(UOp ast, const Target& target, int length, uint64_t seed);

}  // namespace quern
