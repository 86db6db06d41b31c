#pragma once
#include <span>
#include <string>

#include "ir/view.h"

namespace quern {

// Arithmetic on symbolic ints: ints stay ints (overflow past 64 bits throws InvalidKernel); with a UOp it builds index nodes,
// unsimplified, in the reference's order of operands.
SInt operator+(const SInt& a, const SInt& b);
SInt operator-(const SInt& a, const SInt& b);
SInt operator*(const SInt& a, const SInt& b);
SInt floor_div(const SInt& a, const SInt& b);
SInt floor_mod(const SInt& a, const SInt& b);
SInt smax(const SInt& a, const SInt& b);   ///< simplified
SInt smin(const SInt& a, const SInt& b);   ///< simplified
SInt prod(std::span<const SInt> values);
SInt simplified(const SInt& a);

// Decided by bounds; `otherwise` where a variable leaves it open.
bool is_less(const SInt& a, const SInt& b, bool otherwise = true);
bool is_greater_equal(const SInt& a, const SInt& b, bool otherwise = true);
bool is_not_equal(const SInt& a, const SInt& b, bool otherwise = true);

Int128 min_of(const SInt& a);
Int128 max_of(const SInt& a);
bool all_int(std::span<const SInt> values);

}  // namespace quern
