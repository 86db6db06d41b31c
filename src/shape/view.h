#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/view.h"
#include "shape/sint.h"

namespace quern {

// Movement ops on one view: pure functions. Wrong arguments throw InvalidKernel with the values, e.g.
// "[reshape] cannot view (2, 3) as (4, 2): 6 elements, not 8".

/// "(2, 3)", symbolic sizes in infix.
std::string print(const Shape& shape);
std::string print(const Mask& mask);

std::vector<SInt> strides_for_shape(const Shape& shape);  ///< row-major, 0 on axes of size 1
View make_view(Shape shape);                              ///< contiguous
/// In normal form: axes of size 1 have stride 0; a mask that covers everything is dropped, one that leaves nothing is (0, 0) on
/// every axis; an axis of which it leaves one index has stride 0, the index being in the offset.
View make_view(Shape shape, std::vector<SInt> strides, SInt offset = 0, std::optional<Mask> mask = std::nullopt);
int64_t view_size(const View& v);  ///< elements, symbolic sizes at their maximum

View permute(const View& v, std::span<const int> axes);
View expand(const View& v, const Shape& shape);
View pad(const View& v, const Mask& amounts);                    ///< (before, after) an axis
View shrink(const View& v, const Mask& ranges);                  ///< [begin, end) an axis
View stride(const View& v, std::span<const int64_t> steps);      ///< every step-th element; negative steps flip
std::optional<View> reshape(const View& v, const Shape& shape);  ///< nothing if it takes a second view
std::optional<View> invert(const View& v, const Shape& out_shape);
/// `outer` of `inner` as one view (indices go through `outer` first): the reference's inner + outer. Nothing if it takes two.
std::optional<View> compose(const View& inner, const View& outer);
/// Fewest axes that index the same elements.
View minify(const View& v);

/// Index into what is below and the condition that it is inside the mask, both index/bool nodes, for the given axis indices.
struct Indexed {
  UOp index;
  UOp valid;
};
Indexed index_view(Graph& graph, const View& v, std::span<const UOp> axis_indices, UOp valid);

}  // namespace quern
