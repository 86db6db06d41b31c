#pragma once
#include <optional>
#include <span>

#include "ir/graph.h"

namespace quern {

/// The constant that an ALU op or a CAST gives whose sources all are CONST or VCONST. Empty if they are not, or if the result
/// has no constant: index values past 64 bits, an index division by zero, a cast between floats and index.
UOp fold_constants(Graph& graph, Op op, DType dtype, std::span<const UOp> src);

/// The same for one lane of ints of the index type.
std::optional<Int128> eval_index(Op op, std::span<const Int128> args);

/// True if the value fits the 64 bits of an index constant.
inline bool fits_const(Int128 value) { return value >= INT64_MIN && value <= INT64_MAX; }

}  // namespace quern
