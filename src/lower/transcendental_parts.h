#pragma once
#include <span>

#include "lower/arith.h"

namespace quern {

/// What differs between the functions for float and for double.
struct FloatParts {
  Scalar type;
  Scalar bits;   ///< the unsigned int of the same size
  int mantissa;  ///< bits after the leading one
  int bias;
  uint64_t head_mask;  ///< clears the low half of the mantissa: products of two heads are exact
  double to_integer;   ///< adding it rounds to an integer, which the low bits then hold
};

inline const FloatParts& parts_of(Scalar s) {
  static constexpr FloatParts kFloat{Scalar::Float, Scalar::UInt32, 23, 127, 0xFFFFF000u, 12582912.0};
  static constexpr FloatParts kDouble{Scalar::Double, Scalar::UInt64,      52,
                                      1023,           0xFFFFFFFFF8000000u, 6755399441055744.0};
  return s == Scalar::Double ? kDouble : kFloat;
}

/// c[0] + x * (c[1] + x * ...)
inline UOp polynomial(UOp x, std::span<const double> c) {
  UOp sum = x.const_like_float(c.back());
  for (size_t i = c.size() - 1; i-- > 0;) sum = plus(sum * x, c[i]);
  return sum;
}

/// The upper half of the mantissa; `x` less that is exact too.
inline UOp head(UOp x, const FloatParts& p) { return mask(x.bitcast(p.bits), p.head_mask).bitcast(x.dtype()); }

}  // namespace quern
