#include <algorithm>
#include <optional>
#include <vector>

#include "ir/node_map.h"
#include "optimize/kernel_parts.h"

// Heuristics for kernels that reduce rows and go over the same rows again, for another reduce or for their outputs: softmax, a norm,
// an argmax in one kernel. Each pass has its lanes along the row; a row is read from memory once, as it stays in the cache for the
// passes after the first.

namespace quern {

namespace {

constexpr int64_t kVectors = 4;  ///< of a pass in one step

bool reads(UOp value) {
  return std::ranges::any_of(toposort(value), [](UOp u) { return u.is(Op::Load); });
}

}  // namespace

/// Is something counted along the axis, as indices are? That folds away where the axis has no padding.
bool Kernel::counts_along(int axis) const {
  for (size_t b = 0; b < fixed_->buffers.size(); ++b) {
    if (!fixed_->buffers[b].is(Op::Valid)) continue;
    const std::optional<SInt>& stride = buffer_view(b).strides(fixed_->graph())[static_cast<size_t>(axis)];
    if (!stride || !(*stride == 0)) return true;
  }
  return false;
}

/// How many elements of a row one step of a pass takes; the axis is padded where they do not divide it. 1 if nothing is to be gained.
int64_t Kernel::pad_to_strip(int axis) {
  const int64_t size = size_of(axes_[static_cast<size_t>(axis)]), lanes = target().vector_bytes / 4;
  const int64_t strip = largest_strip(size, lanes, kVectors);
  if (strip >= 2 * lanes || strip == size || counts_along(axis)) return strip;
  const bool must = strip < lanes / 4;
  for (int64_t amount = kVectors * lanes; amount >= lanes; amount /= 2) {
    const int64_t padded = (size + amount - 1) / amount * amount;
    const bool is_cheap = 10 * padded <= 11 * size || (must && amount == lanes);
    if (is_cheap && apply_if_legal(OptOp::PADTO, axis, amount)) return amount;
  }
  return strip;
}

/// Lanes for each pass over a kernel's rows, and then the elements of all passes. Nothing, and nothing applied, if the kernel makes
/// just one pass or its passes are not along memory.
std::optional<int64_t> Kernel::tile_passes() {
  NodeScratch<bool> below;  // a reduce
  size_t count = 0;
  for (UOp reduce : fixed_->reduces) {
    count += reads(reduce.src(0));  // others count, and fold away
    for (UOp u : toposort(reduce.src(0))) below.set(u, true);
  }
  const int first = first_reduce();
  const auto size = [&](int axis) { return size_of(axes_[static_cast<size_t>(axis)]); };
  // Along each axis, what its loads and stores do: those of the reduces, those of the outputs.
  std::vector<bool> moves(axes_.size()), jumps(axes_.size()), is_reduced_along(axes_.size());
  for (size_t b = 0; b < fixed_->buffers.size(); ++b) {
    if (!fixed_->buffers[b].is({Op::Load, Op::Store})) continue;
    const TrackedView::Strides& strides = buffer_view(b).strides(fixed_->graph(), true);
    for (size_t axis = 0; axis < axes_.size(); ++axis) {
      if (strides[axis] && *strides[axis] == 0) continue;
      moves[axis] = true;
      if (!strides[axis] || !(*strides[axis] == 1)) jumps[axis] = true;
      if (below.get(fixed_->buffers[b])) is_reduced_along[axis] = true;
    }
  }
  std::vector<int> passes;  // reduced axes, then that of the outputs
  for (int axis = first; axis < num_axes(); ++axis)
    if (moves[static_cast<size_t>(axis)]) passes.push_back(axis);
  std::optional<int> output;
  for (int axis = first; axis-- > 0 && !output;)
    if (moves[static_cast<size_t>(axis)] && !is_reduced_along[static_cast<size_t>(axis)]) output = axis;
  if (count == 0 || count + (output ? 1 : 0) < 2) return std::nullopt;
  if (output) passes.push_back(*output);
  const int64_t lanes = target().vector_bytes / 4;
  int64_t along = 0;
  for (int axis : passes) {
    if (jumps[static_cast<size_t>(axis)] || size(axis) < lanes) return std::nullopt;
    along += size(axis);
  }
  Int128 elements = along;
  for (int axis = 0; axis < first; ++axis)
    if (axis != output) elements = std::min<Int128>(elements * std::max<int64_t>(1, size(axis)), int64_t{1} << 60);
  // From the last: where all of an axis becomes lanes, those behind it move up.
  for (size_t i = passes.size(); i-- > 0;)
    if (passes[i] >= first) apply_if_legal(OptOp::RFACTOR, passes[i] - first, pad_to_strip(passes[i]));
  if (output) apply_if_legal(OptOp::UPCAST, *output, pad_to_strip(*output));
  return static_cast<int64_t>(elements);
}

}  // namespace quern
