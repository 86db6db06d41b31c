#pragma once
#include "base/int128.h"

namespace quern {

struct Node;

/// Inclusive bounds of an integer value.
struct ValueBounds {
  Int128 min;
  Int128 max;
};

/// Sound bounds of a node from those of its sources: where a machine int may wrap they are its dtype's; index values past
/// +-kUnbounded are clamped there. [0, 0] for floats and void.
ValueBounds bounds_of(const Node& node);

}  // namespace quern
