#pragma once
#include <optional>

#include "ir/uop.h"

namespace quern {

/// x = factor * variable + rest, on index-typed nodes; `rest` does not depend on the variable.
struct LinearIndex {
  Int128 factor;
  UOp rest;
};
/// Nothing if `x` is not linear in the variable with a known factor.
std::optional<LinearIndex> linear_in(UOp x, UOp variable);

/// An integer value as an index-typed node: through casts and sums that are known not to wrap. Empty if it may not be one.
UOp as_index(UOp x);

}  // namespace quern
