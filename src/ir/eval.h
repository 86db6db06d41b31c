#pragma once
#include <span>

#include "ir/uop.h"

namespace quern {

/// Scalar evaluation: the one place that says what every op's value is (docs/semantics.md). The interpreter, constant folding
/// and the rule fuzzer all use it.
///
/// A value travels as ConstBits (see uop.h): for floats the bits of a double that already is a value of the dtype.

/// `value` rounded to the dtype (to nearest even; half and bfloat16 included), as a double.
double round_to(Scalar dtype, double value);

/// The value of an ALU op (unary, binary, ternary) of one lane. `dtype` is the type of the sources for comparisons (and of the
/// last source for WHERE), the result's otherwise. EXP2, LOG2 and SIN are correctly rounded to within 1 ulp.
/// SHL/SHR take the shift distance as the second value. THREEFRY is the 2x32 cipher of 20 rounds on ulong.
ConstBits eval_alu(Op op, Scalar dtype, std::span<const ConstBits> args);
/// A conversion by value; float to int through the truncated 64-bit value, wrapped (NaN and values past 64 bits give 0x8000...).
ConstBits eval_cast(Scalar from, Scalar to, ConstBits value);
/// A conversion by bits between types of the same size.
ConstBits eval_bitcast(Scalar from, Scalar to, ConstBits value);

ConstBits const_of_int(Scalar dtype, Int128 value);    ///< wraps; rounds for floats
ConstBits const_of_float(Scalar dtype, double value);  ///< float dtypes only; rounds
Int128 int_of_const(Scalar dtype, ConstBits value);
double float_of_const(ConstBits value);
/// The raw little-endian bits of a value in memory, and back (bool is a byte).
uint64_t memory_bits(Scalar dtype, ConstBits value);
ConstBits from_memory_bits(Scalar dtype, uint64_t bits);

}  // namespace quern
