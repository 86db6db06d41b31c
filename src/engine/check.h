#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/inputs.h"
#include "engine/plain.h"
#include "optimize/kernel.h"
#include "runtime/device.h"

namespace quern {

struct CheckLimits {
  int64_t max_bytes = int64_t{2} << 30;     ///< of all buffers of one run
  double max_ops = 2e10;                    ///< more than that is skipped
  double max_plain_ops = 2e9;               ///< of larger kernels a sample of the outputs is compared (PlainOutputs)
  double max_interpreted_ops = 2e5;         ///< the plain kernel is interpreted up to here, else compiled too
  double max_device_interpreted_ops = 1e8;  ///< when the device itself is the interpreter
};

struct CheckResult {
  enum class Kind { Match, Mismatch, Skipped, Failed } kind = Kind::Match;
  std::string note;  ///< the difference, why it was skipped, or the error
  double worst = 0;
  double seconds = 0;        ///< of the optimized program's run
  bool interpreted = false;  ///< the plain kernel ran in the interpreter
  bool sampled = false;      ///< a sample of the outputs was compared
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
    std::vector<int> globals;  ///< the inputs' numbers
    Buffers inputs;
    VarValues vars;
    PlainOutputs outputs;
  };
  const Plain& plain_of(const Kernel& kernel, const Program& fast);

  Device& device_;
  uint64_t seed_;
  CheckLimits limits_;
  std::optional<Plain> plain_;
};
/// One kernel on its own.
CheckResult check_kernel(const Kernel& kernel, Device& device, uint64_t seed, const CheckLimits& limits = {});

}  // namespace quern
