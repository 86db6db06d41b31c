#pragma once
#include "ir/graph.h"

namespace quern {

// Spellings for code that builds machine arithmetic; constants take the type of what stands beside them.

inline UOp sub(UOp a, UOp b) { return a.alu(Op::Sub, b); }
inline UOp plus(UOp a, double b) { return a + a.const_like_float(b); }
inline UOp minus(UOp a, double b) { return sub(a, a.const_like_float(b)); }
inline UOp times(UOp a, double b) { return a * a.const_like_float(b); }
inline UOp less(UOp a, double b) { return a.lt(a.const_like_float(b)); }
inline UOp shl(UOp a, int bits) { return a.alu(Op::Shl, a.const_like(bits)); }
inline UOp shr(UOp a, int bits) { return a.alu(Op::Shr, a.const_like(bits)); }
inline UOp mask(UOp a, uint64_t bits) { return a & a.graph().const_int(a.dtype(), Int128{bits}); }
/// An int constant of the type of `a`, given by its value modulo 2^64.
inline UOp word_like(UOp a, uint64_t value) { return a.graph().const_int(a.dtype(), Int128{value}); }

/// Unsigned and signed ints of the size of a float type.
inline Scalar unsigned_like(Scalar s) {
  return s == Scalar::Double ? Scalar::UInt64 : s == Scalar::Float ? Scalar::UInt32 : Scalar::UInt16;
}

}  // namespace quern
