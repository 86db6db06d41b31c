#pragma once
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "shape/shapetracker.h"

namespace quern {

/// A buffer's view and what the optimizer asks of it, each worked out at most once.
class TrackedView {
 public:
  using Strides = std::vector<std::optional<SInt>>;

  explicit TrackedView(ShapeTracker tracker) : tracker_(std::move(tracker)) {}

  const ShapeTracker& tracker() const { return tracker_; }
  const Shape& shape() const { return tracker_.shape(); }
  size_t rank() const { return shape().size(); }
  const SInt& size(int axis) const { return shape()[static_cast<size_t>(axis)]; }
  /// Stride of the topmost view, whatever is below it.
  const SInt& top_stride(int axis) const { return tracker_.views.back().strides[static_cast<size_t>(axis)]; }

  /// Stride of each axis in the buffer, nothing where it has none; with `ignore_mask` also those of masked axes.
  const Strides& strides(Graph& graph, bool ignore_mask = false) const;
  /// Axes along which neighbours are neighbours in the buffer.
  std::vector<int> unit_stride_axes(Graph& graph, bool ignore_mask = false) const;
  bool is_masked(Graph& graph, int axis) const;

 private:
  ShapeTracker tracker_;
  mutable std::optional<Strides> strides_, unmasked_strides_;
  mutable std::optional<std::vector<bool>> masked_;
};

}  // namespace quern
