#pragma once
#include <span>
#include <string>

#include "ir/view.h"

namespace quern {

namespace sint_detail {  // the paths that are not plain ints
SInt symbolic(Op op, const SInt& a, const SInt& b);
bool resolved(Op op, const SInt& a, const SInt& b, bool otherwise);
[[noreturn]] void overflow(char op, int64_t a, int64_t b);
}  // namespace sint_detail

// Arithmetic on symbolic ints: ints stay ints (overflow past 64 bits throws InvalidKernel); with a UOp it builds index nodes,
// unsimplified and without limits, in the reference's order of operands.

inline SInt operator+(const SInt& a, const SInt& b) {
  if (!a.is_int() || !b.is_int()) return sint_detail::symbolic(Op::Add, a, b);
  int64_t sum = 0;
  if (__builtin_add_overflow(a.value(), b.value(), &sum)) sint_detail::overflow('+', a.value(), b.value());
  return sum;
}

inline SInt operator*(const SInt& a, const SInt& b) {
  if (!a.is_int() || !b.is_int()) return sint_detail::symbolic(Op::Mul, a, b);
  int64_t product = 0;
  if (__builtin_mul_overflow(a.value(), b.value(), &product)) sint_detail::overflow('*', a.value(), b.value());
  return product;
}

/// a + -b, where -b is b * -1.
inline SInt operator-(const SInt& a, const SInt& b) {
  if (!a.is_int() || !b.is_int()) return a + b * -1;
  int64_t difference = 0;
  if (__builtin_sub_overflow(a.value(), b.value(), &difference)) sint_detail::overflow('-', a.value(), b.value());
  return difference;
}

inline SInt operator-(const SInt& a) { return a * -1; }
inline SInt& operator+=(SInt& a, const SInt& b) { return a = a + b; }
inline SInt& operator*=(SInt& a, const SInt& b) { return a = a * b; }

SInt floor_div(const SInt& a, const SInt& b);  ///< b is not the int 0
SInt floor_mod(const SInt& a, const SInt& b);  ///< b is not the int 0
SInt smax(const SInt& a, const SInt& b);       ///< simplified
SInt smin(const SInt& a, const SInt& b);       ///< simplified
SInt prod(std::span<const SInt> values);
SInt simplified(const SInt& a);

// Decided by bounds; `otherwise` where a variable leaves it open.
inline bool is_less(const SInt& a, const SInt& b, bool otherwise = true) {
  return a.is_int() && b.is_int() ? a.value() < b.value() : sint_detail::resolved(Op::Cmplt, a, b, otherwise);
}
inline bool is_greater_equal(const SInt& a, const SInt& b, bool otherwise = true) { return !is_less(a, b, !otherwise); }
inline bool is_not_equal(const SInt& a, const SInt& b, bool otherwise = true) {
  return a.is_int() && b.is_int() ? a.value() != b.value() : sint_detail::resolved(Op::Cmpne, a, b, otherwise);
}

/// Bounds as the expression stands, not simplified.
Int128 min_of(const SInt& a);
Int128 max_of(const SInt& a);
bool all_int(std::span<const SInt> values);

}  // namespace quern
