#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/slice.h"
#include "ir/graph.h"
#include "render/program.h"
#include "runtime/device.h"

namespace quern {

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

/// Operations of a run, bytes moved counted as a quarter each; at most, where sizes are symbolic.
double estimated_ops(const Program& program);
Buffers copy_of(const Buffers& buffers);

/// What the plain kernel (no opts) gives for some inputs: the measure for every other kernel of its AST. Where all of it would take
/// too long, parts of each output: the first and the last indices of its longest axes, and some between.
class PlainOutputs {
 public:
  /// Runs the plain kernel on `device`; it takes about `max_ops` operations where parts can be computed by themselves
  /// (slice_axes), else whatever it takes. `inputs`: the buffers in the order of `layout`'s globals; they are left as they are.
  PlainOutputs(UOp ast, const Program& layout, Device& device, const Buffers& inputs, const VarValues& vars,
               double max_ops, uint64_t seed);

  bool is_sampled() const { return !known_.empty(); }
  /// Every known element of every output; inputs must be what they were. NaN equals NaN.
  Difference compare(std::span<Buffer* const> got, const Tolerance& tolerance) const;

 private:
  void run_parts(UOp ast, const std::vector<SliceAxis>& axes, double all_ops, Device& device, const VarValues& vars,
                 double max_ops, uint64_t seed);
  bool is_output(size_t at) const;

  std::vector<int> globals_, outs_;
  const Target* target_;
  Buffers want_;
  std::vector<std::vector<bool>> known_;  ///< of each buffer, its elements; empty: all are
};

}  // namespace quern
