#pragma once
#include <optional>
#include <span>
#include <vector>

#include "shape/view.h"

namespace quern {

// Functions need a Graph where they build index expressions; symbolic sizes must be of that graph.

ShapeTracker tracker(Shape shape);  ///< contiguous
int64_t size_of(const ShapeTracker& st);
bool is_contiguous(const ShapeTracker& st);
Shape reduced_shape(const Shape& shape, std::span<const int32_t> axes);  ///< 1 on the axes

ShapeTracker permute(const ShapeTracker& st, std::span<const int> axes);
ShapeTracker expand(const ShapeTracker& st, const Shape& shape);
ShapeTracker pad(const ShapeTracker& st, const Mask& amounts);
ShapeTracker shrink(const ShapeTracker& st, const Mask& ranges);
ShapeTracker stride(const ShapeTracker& st, std::span<const int64_t> steps);
ShapeTracker reshape(const ShapeTracker& st, const Shape& shape);
std::optional<ShapeTracker> invert(const ShapeTracker& st, const Shape& out_shape);
/// First `inner`'s views, then `outer`'s on top, merged where possible (the reference's inner + outer).
ShapeTracker compose(const ShapeTracker& inner, const ShapeTracker& outer);
ShapeTracker simplify(const ShapeTracker& st);

/// Unsimplified index and validity for axis indices (RANGEs 0..n-1 of the shape if none are given).
Indexed index_tracker(Graph& graph, const ShapeTracker& st, std::span<const UOp> axis_indices = {});

/// Stride of each axis in the buffer, nothing where it has none (a mask that depends on the axis, two views that do not merge).
std::vector<std::optional<SInt>> real_strides(Graph& graph, const ShapeTracker& st, bool ignore_valid = false);
/// The same by simplifying the index expression, also where a single view tells; a symbolic stride is nothing here.
std::vector<std::optional<SInt>> real_strides_by_index(Graph& graph, const ShapeTracker& st, bool ignore_valid = false);
std::vector<int> unit_stride_axes(Graph& graph, const ShapeTracker& st, bool ignore_valid = false);
/// Axes that the condition of being inside the masks depends on.
std::vector<bool> masked_axes(Graph& graph, const ShapeTracker& st);
bool axis_is_masked(Graph& graph, const ShapeTracker& st, int axis);
/// Elements a buffer needs: one past the largest index that may be read inside the masks (exact for a single view).
int64_t real_size(Graph& graph, const ShapeTracker& st);
/// Variables of the views, in the reference's order (by name, bounds).
std::vector<UOp> variables(const ShapeTracker& st);

}  // namespace quern
