#pragma once
#include "shape/view.h"

namespace quern::view_parts {

/// Reshape to a shape known to have as many elements. Nothing if it takes a second view.
std::optional<View> reshape_same_size(const View& v, const Shape& shape);

}  // namespace quern::view_parts
