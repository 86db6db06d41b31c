#include "lower/narrow_types.h"

#include "quern/error.h"

#include "lower/arith.h"

namespace quern {

namespace {

UOp bfloat16_of_float(UOp x) {
  UOp bits = x.bitcast(Scalar::UInt32);
  UOp odd = mask(shr(bits, 16), 1);
  UOp rounded = shr(bits + odd + word_like(bits, 0x7FFF), 16);
  UOp quiet = shr(bits, 16) | word_like(bits, 0x40);
  return x.ne(x).where(quiet, rounded).cast(Scalar::UInt16).bitcast(Scalar::BFloat16);
}

UOp narrow_of_float(UOp x, Scalar to) { return to == Scalar::BFloat16 ? bfloat16_of_float(x) : x.cast(to); }

/// A double as the float next to it whose last bit is set, if it is not one: rounding that on to a narrower type is exact.
UOp odd_float_of_double(UOp x) {
  UOp nearest = x.cast(Scalar::Float);
  UOp back = nearest.cast(Scalar::Double), bits = nearest.bitcast(Scalar::UInt32);
  UOp inexact = back.ne(x) & mask(bits, 1).ne(bits.const_like(1));
  UOp too_small = back.lt(x).ne(less(x, 0.0));
  UOp step = too_small.where(bits.const_like(1), word_like(bits, 0xFFFFFFFF));
  return (bits + inexact.where(step, bits.const_like(0))).bitcast(Scalar::Float);
}

/// `x >> bits`, its last bit set if anything was lost.
UOp sticky_shift(UOp x, int bits) {
  UOp lost = mask(x, (uint64_t{1} << bits) - 1).ne(x.const_like(0));
  return shr(x, bits) | lost.where(x.const_like(1), x.const_like(0));
}

bool is_wide_int(Scalar s) { return s == Scalar::Int64 || s == Scalar::UInt64; }

/// -limit <= x < limit, where the type has room for more.
UOp is_small(UOp x, int64_t limit) {
  UOp below = x.lt(x.const_like(limit));
  return x.dtype().is_unsigned() ? below : below & x.lt(x.const_like(-limit)).logical_not();
}

/// An int as a float, exact but for bits so low that they only decide ties of narrower types.
UOp sticky_float_of_int(UOp x) {
  Scalar type = x.dtype().scalar;
  UOp scale;
  if (is_wide_int(type)) {
    UOp small = is_small(x, int64_t{1} << 31), middle = is_small(x, int64_t{1} << 47);
    UOp one = x.graph().const_float(Scalar::Float, 1.0);
    scale = small.where(one, middle.where(one.const_like_float(0x1p16), one.const_like_float(0x1p32)));
    x = small.where(x, middle.where(sticky_shift(x, 16), sticky_shift(x, 32)));
    x = x.cast(type == Scalar::Int64 ? Scalar::Int32 : Scalar::UInt32);
  }
  UOp exact = is_small(x, 1 << 24);
  UOp f = exact.where(x, shl(sticky_shift(x, 8), 8)).cast(Scalar::Float);
  return scale ? f * scale : f;
}

}  // namespace

UOp widen_to_float(UOp x) {
  if (x.dtype().scalar != Scalar::BFloat16) return x.cast(Scalar::Float);
  return shl(x.bitcast(Scalar::UInt16).cast(Scalar::UInt32), 16).bitcast(Scalar::Float);
}

UOp round_to_narrow(UOp x, Scalar to) {
  switch (x.dtype().scalar) {
    case Scalar::Float: return narrow_of_float(x, to);
    case Scalar::Double: return narrow_of_float(odd_float_of_double(x), to);
    case Scalar::Half:
    case Scalar::BFloat16: return narrow_of_float(widen_to_float(x), to);
    case Scalar::Int32:
    case Scalar::UInt32:
    case Scalar::Int64:
    case Scalar::UInt64: return narrow_of_float(sticky_float_of_int(x), to);
    default: return narrow_of_float(x.cast(Scalar::Float), to);
  }
}

}  // namespace quern
