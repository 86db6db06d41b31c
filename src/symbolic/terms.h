#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "ir/pattern.h"

namespace quern {

/// The leaves of a tree of ADDs (or another op), left to right; empty if there are over `kMaxTerms`, as a small graph can be
/// a huge tree.
inline constexpr size_t kMaxTerms = 4096;
std::vector<UOp> terms_of(UOp x, Op op = Op::Add);
/// The sum of the terms, left to right; there is at least one.
UOp sum_of(const std::vector<UOp>& terms);
/// A constant of the type of `like`, or empty if it does not fit.
UOp constant_like(UOp like, Int128 value);

/// True if all values of `x`, an int, are values of the dtype.
bool fits(UOp x, Scalar dtype);
/// True if this ADD, SUB or MUL gives the exact result for all values in the bounds of its sources: never wraps.
bool is_exact(UOp x);

// Guards.
Guard exact(std::string_view name);                          ///< the node never wraps
Guard in_range(std::string_view name);                       ///< the CAST keeps every value of its source
Guard folds(Op op, std::string_view a, std::string_view b);  ///< op over two constants is a constant

}  // namespace quern
