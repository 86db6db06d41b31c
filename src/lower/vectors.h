#pragma once
#include <span>

#include "ir/graph.h"

namespace quern {

/// VECTORIZE of `each`, or the vector itself where they are all its lanes in order.
UOp whole_vector(std::span<const UOp> each);

/// A zero of any type, spelled out lane by lane.
UOp zero_of(Graph& graph, DType dtype);

}  // namespace quern
