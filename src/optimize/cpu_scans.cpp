#include <algorithm>
#include <optional>
#include <vector>

#include "optimize/kernel_parts.h"
#include "symbolic/simplify.h"

// Heuristics for cumulative sums and the like (lower/scans.h): the loop that carries the accumulator and the reduce stay as they are;
// what else there is becomes lanes, rows and threads.

namespace quern {

namespace {

constexpr int kRows = 8;  ///< scans side by side, each of which waits for its last step

/// True if nothing is read at the first place on `carrier` but for the last step of `reduced`.
bool starts_in_padding(Graph& graph, const ShapeTracker& tracker, int carrier, int reduced) {
  std::vector<UOp> places;
  for (int axis = 0; axis < static_cast<int>(tracker.shape().size()); ++axis) {
    const SInt& size = tracker.shape()[static_cast<size_t>(axis)];
    if (axis == carrier)
      places.push_back(graph.const_index(0));
    else
      places.push_back(graph.range(0, axis == reduced ? size - SInt(1) : size, axis));
  }
  return simplify(index_tracker(graph, tracker, places).valid).is_const_int(0);
}

}  // namespace

/// The axis of the output along which a kernel's only reduce need not start anew.
std::optional<int> Kernel::axis_of_scan() const {
  const int reduced = first_reduce();
  if (fixed_->reduces.size() != 1 || reduced != num_axes() - 1) return std::nullopt;
  const int64_t steps = size_of(axes_.back());
  if (steps < 2) return std::nullopt;
  for (int axis = 0; axis < reduced; ++axis) {
    const int64_t turns = size_of(axes_[static_cast<size_t>(axis)]);
    if (turns < 2 || turns > steps) continue;
    bool moves = false, slides = true, pads = false;
    for (size_t b = 0; b < fixed_->buffers.size() && slides; ++b) {
      if (!fixed_->buffers[b].is(Op::Load)) continue;
      const TrackedView& view = buffer_view(b);
      const TrackedView::Strides& strides = view.strides(fixed_->graph(), true);
      const std::optional<SInt>&along = strides[static_cast<size_t>(axis)], &inside = strides.back();
      slides = along && inside && *along == *inside;
      if (!slides || *inside == 0) continue;
      moves = true;
      pads = pads || starts_in_padding(fixed_->graph(), view.tracker(), axis, reduced);
    }
    if (slides && moves && pads) return axis;
  }
  return std::nullopt;
}

/// Lanes along an axis that is contiguous in all buffers, else rows; the carrying loop innermost. The axis of that loop then.
int Kernel::tile_scan(int carrier) {
  const auto size = [&](int axis) { return size_of(axes_[static_cast<size_t>(axis)]); };
  int tiled = -1;
  int64_t amount = 1;
  const auto try_amounts = [&](int axis, std::initializer_list<int64_t> amounts) {
    if (size(axis) == 0) return;  // symbolic
    if (const int64_t n = largest_divisor(size(axis), amounts); n > 1) tiled = axis, amount = n;
  };
  const int64_t lanes = target().vector_bytes / 4;
  for (int axis = first_reduce(); axis-- > 0 && amount == 1;) {
    bool contiguous = axis != carrier;
    for (size_t b = 0; b < fixed_->buffers.size() && contiguous; ++b) {
      if (!fixed_->buffers[b].is({Op::Load, Op::Store})) continue;
      const std::optional<SInt>& s = buffer_view(b).strides(fixed_->graph(), true)[static_cast<size_t>(axis)];
      contiguous = s && (*s == 1 || (*s == 0 && !fixed_->buffers[b].is(Op::Store)));
    }
    if (contiguous) try_amounts(axis, {4 * lanes, 2 * lanes, lanes, lanes / 2, lanes / 4});
  }
  for (int axis = first_reduce(); axis-- > 0 && amount == 1;)
    if (axis != carrier) try_amounts(axis, {kRows, kRows / 2, kRows / 4});
  if (amount > 1) {
    const bool goes = size(tiled) == amount;
    if (apply_if_legal(OptOp::UPCAST, tiled, amount) && goes && tiled < carrier) --carrier;
  }
  const int innermost = first_reduce() - 1;
  if (carrier != innermost && apply_if_legal(OptOp::SWAP, carrier, innermost)) carrier = innermost;
  return carrier;
}

}  // namespace quern
