#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "ir/eval.h"
#include "ir/graph.h"

namespace quern {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

ConstBits f(double v) { return {std::bit_cast<uint64_t>(v)}; }

Int128 int_op(Op op, Scalar s, Int128 a, Int128 b) {
  const ConstBits args[] = {const_of_int(s, a), const_of_int(s, b)};
  const bool compares = op == Op::Cmplt || op == Op::Cmpne;
  return int_of_const(compares ? Scalar::Bool : s, eval_alu(op, s, args));
}
double float_op(Op op, Scalar s, double a, double b) {
  const ConstBits args[] = {f(a), f(b)};
  return float_of_const(eval_alu(op, s, args));
}
double float_op(Op op, Scalar s, double a) {
  const ConstBits args[] = {f(a)};
  return float_of_const(eval_alu(op, s, args));
}
/// Equal to the bit, any NaN for a NaN.
void expect_same(double got, double want) {
  if (std::isnan(want))
    EXPECT_TRUE(std::isnan(got)) << got;
  else
    EXPECT_EQ(std::bit_cast<uint64_t>(got), std::bit_cast<uint64_t>(want)) << got << " not " << want;
}

TEST(IntegerValues, wrap_truncate_and_never_trap) {
  struct Case {
    Op op;
    Scalar type;
    Int128 a, b, value;
  };
  constexpr Int128 k31 = Int128{1} << 31, k63 = Int128{1} << 63, k64 = Int128{1} << 64;
  for (const auto& [op, type, a, b, value] : std::vector<Case>{
           {Op::Add, Scalar::Int32, k31 - 1, 1, -k31},
           {Op::Add, Scalar::UInt8, 200, 100, 44},
           {Op::Sub, Scalar::UInt32, 0, 1, k31 * 2 - 1},
           {Op::Mul, Scalar::Int32, 65536, 65536, 0},
           {Op::Mul, Scalar::UInt64, k64 - 1, k64 - 1, 1},
           {Op::Mul, Scalar::Int64, -k63, -1, -k63},
           {Op::Idiv, Scalar::Int32, -5, 2, -2},
           {Op::Idiv, Scalar::Int32, -1, 4, 0},
           {Op::Idiv, Scalar::Int32, 7, 0, 0},
           {Op::Idiv, Scalar::Int32, -k31, -1, -k31},
           {Op::Idiv, Scalar::Int64, -k63, -1, -k63},
           {Op::Idiv, Scalar::UInt64, k64 - 1, 2, k63 - 1},
           {Op::Mod, Scalar::Int32, -5, 3, -2},
           {Op::Mod, Scalar::Int32, 5, -3, 2},
           {Op::Mod, Scalar::Int32, 5, 0, 0},
           {Op::Mod, Scalar::Int32, -k31, -1, 0},
           {Op::Idiv, Scalar::Index, -5, 2, -3},
           {Op::Mod, Scalar::Index, -5, 3, 1},
           {Op::Mod, Scalar::Index, 5, -3, -1},
           {Op::Shl, Scalar::Int32, 1, 31, -k31},
           {Op::Shl, Scalar::Int32, 1, 32, 0},
           {Op::Shl, Scalar::Int32, 1, -1, 0},
           {Op::Shl, Scalar::UInt64, k64 - 1, 63, k63},
           {Op::Shr, Scalar::Int32, -8, 1, -4},
           {Op::Shr, Scalar::Int32, -8, 32, -1},
           {Op::Shr, Scalar::Int32, 8, 99, 0},
           {Op::Shr, Scalar::UInt32, k31, 31, 1},
           {Op::Shr, Scalar::UInt64, k64 - 1, 64, 0},
           {Op::And, Scalar::Int32, -1, 12, 12},
           {Op::Or, Scalar::UInt8, 0xF0, 0x0F, 0xFF},
           {Op::Xor, Scalar::Int64, -1, 1, -2},
           {Op::Max, Scalar::Int8, -3, -4, -3},
           {Op::Max, Scalar::UInt64, k64 - 1, 1, k64 - 1},
           {Op::Cmplt, Scalar::UInt32, 1, k31 * 2 - 1, 1},
           {Op::Cmplt, Scalar::Int32, -1, 0, 1},
           {Op::Cmpne, Scalar::Int16, 3, 3, 0},
           {Op::Add, Scalar::Bool, 1, 1, 1},
           {Op::Mul, Scalar::Bool, 1, 0, 0},
           {Op::Max, Scalar::Bool, 0, 1, 1},
           {Op::Xor, Scalar::Bool, 1, 1, 0},
       })
    EXPECT_EQ(static_cast<int64_t>(int_op(op, type, a, b)), static_cast<int64_t>(value))
        << to_string(op) << " " << to_string(type) << " " << to_string(a) << " " << to_string(b);
}

TEST(FloatValues, follow_ieee_and_keep_nan_and_signs_of_zero) {
  struct Case {
    Op op;
    Scalar type;
    double a, b, value;
  };
  for (const auto& [op, type, a, b, value] : std::vector<Case>{
           {Op::Add, Scalar::Float, 16777216, 1, 16777216},
           {Op::Add, Scalar::Double, 16777216, 1, 16777217},
           {Op::Add, Scalar::Half, 2048, 1, 2048},
           {Op::Add, Scalar::Half, 2048, 3, 2052},
           {Op::Add, Scalar::Half, 65504, 15, 65504},
           {Op::Add, Scalar::Half, 65504, 16, kInf},
           {Op::Add, Scalar::BFloat16, 256, 1, 256},
           {Op::Add, Scalar::BFloat16, 256, 3, 260},
           {Op::Mul, Scalar::Float, std::ldexp(0.1875, 0), std::ldexp(1, -124), std::ldexp(0.1875, -124)},
           {Op::Mul, Scalar::Half, std::ldexp(1, -14), 0.5, std::ldexp(1, -15)},
           {Op::Mul, Scalar::Half, std::ldexp(1, -24), 0.5, 0},
           {Op::Mul, Scalar::Half, std::ldexp(1, -24), 0.75, std::ldexp(1, -24)},
           {Op::Mul, Scalar::Half, std::ldexp(-1, -24), 0.25, -0.0},
           {Op::Mul, Scalar::Float, kInf, 0, kNan},
           {Op::Mul, Scalar::Float, -1, 0, -0.0},
           {Op::Fdiv, Scalar::Float, 1, 3, static_cast<double>(1.0F / 3.0F)},
           {Op::Fdiv, Scalar::Float, 1, -0.0, -kInf},
           {Op::Max, Scalar::Float, 1, kNan, kNan},
           {Op::Max, Scalar::Float, kNan, 1, kNan},
           {Op::Max, Scalar::Float, -0.0, 0.0, 0.0},
           {Op::Max, Scalar::Float, 0.0, -0.0, 0.0},
           {Op::Max, Scalar::Float, -kInf, -5, -5},
       }) {
    SCOPED_TRACE(std::string(to_string(op)) + " " + std::string(to_string(type)));
    expect_same(float_op(op, type, a, b), value);
  }
  const ConstBits with_nan[] = {f(kNan), f(1)}, nans[] = {f(kNan), f(kNan)};
  EXPECT_EQ(eval_alu(Op::Cmplt, Scalar::Float, with_nan).bits, 0u);
  EXPECT_EQ(eval_alu(Op::Cmpne, Scalar::Float, nans).bits, 1u);
}

TEST(FloatValues, of_functions_are_within_one_ulp_or_exact_where_they_can_be) {
  for (Scalar s : {Scalar::Half, Scalar::BFloat16, Scalar::Float, Scalar::Double}) {
    SCOPED_TRACE(to_string(s));
    expect_same(float_op(Op::Exp2, s, 3), 8);
    expect_same(float_op(Op::Exp2, s, -kInf), 0);
    expect_same(float_op(Op::Exp2, s, kNan), kNan);
    expect_same(float_op(Op::Log2, s, 8), 3);
    expect_same(float_op(Op::Log2, s, 0), -kInf);
    expect_same(float_op(Op::Log2, s, -1), kNan);
    expect_same(float_op(Op::Sin, s, -0.0), -0.0);
    expect_same(float_op(Op::Sin, s, kInf), kNan);
    expect_same(float_op(Op::Sqrt, s, 16), 4);
    expect_same(float_op(Op::Sqrt, s, -1), kNan);
    expect_same(float_op(Op::Recip, s, 0), kInf);
    expect_same(float_op(Op::Neg, s, 0), -0.0);
  }
  expect_same(float_op(Op::Exp2, Scalar::Half, 16), kInf);
  expect_same(float_op(Op::Exp2, Scalar::Float, -149), std::ldexp(1, -149));
  expect_same(float_op(Op::Sin, Scalar::Double, 1e22), -0.8522008497671888);
}

TEST(Rounding, is_to_nearest_even_for_every_half_and_between_any_two) {
  for (Scalar s : {Scalar::Half, Scalar::BFloat16}) {
    const uint64_t infinity = s == Scalar::Half ? 0x7C00 : 0x7F80;
    for (uint64_t bits = 0; bits < infinity; ++bits) {
      const double low = float_of_const(from_memory_bits(s, bits)),
                   high = float_of_const(from_memory_bits(s, bits + 1));
      ASSERT_EQ(memory_bits(s, f(low)), bits);
      ASSERT_EQ(memory_bits(s, f(-low)), bits | 0x8000);
      expect_same(round_to(s, low), low);
      if (std::isinf(high)) continue;
      const double middle = (low + high) / 2;
      expect_same(round_to(s, middle), bits % 2 == 0 ? low : high);
      expect_same(round_to(s, std::nextafter(middle, 0)), low);
      expect_same(round_to(s, -std::nextafter(middle, kInf)), -high);
    }
  }
  expect_same(round_to(Scalar::Half, 65519.999), 65504);
  expect_same(round_to(Scalar::Half, 65520), kInf);
  expect_same(round_to(Scalar::Float, 0.1), static_cast<double>(0.1F));
}

TEST(Casts, of_floats_to_integers_go_through_64_bits_and_wrap) {
  struct Case {
    double value;
    Scalar to;
    Int128 result;
  };
  constexpr Int128 k31 = Int128{1} << 31, k63 = Int128{1} << 63;
  for (const auto& [value, to, result] : std::vector<Case>{
           {-2, Scalar::UInt8, 254},
           {-1.5, Scalar::UInt8, 255},
           {-0.5, Scalar::UInt8, 0},
           {300, Scalar::UInt8, 44},
           {2147483648.0, Scalar::Int32, -k31},
           {-3e9, Scalar::Int32, 1294967296},
           {kNan, Scalar::Int64, -k63},
           {1e30, Scalar::Int64, -k63},
           {-kInf, Scalar::Int32, 0},
           {kNan, Scalar::Int32, 0},
           {-1, Scalar::UInt64, 2 * k63 - 1},
           {9223372036854775808.0, Scalar::UInt64, k63},
           {1.5e19, Scalar::UInt64, Int128{15000000000000000000ULL}},
           {2.9, Scalar::Index, 2},
           {0.5, Scalar::Bool, 1},
           {-0.0, Scalar::Bool, 0},
           {kNan, Scalar::Bool, 1},
       })
    EXPECT_EQ(to_string(int_of_const(to, eval_cast(Scalar::Double, to, f(value)))), to_string(result))
        << value << " to " << to_string(to);
}

TEST(Casts, of_integers_round_once) {
  auto to_float = [](Scalar from, Int128 v, Scalar to) {
    return float_of_const(eval_cast(from, to, const_of_int(from, v)));
  };
  expect_same(to_float(Scalar::UInt64, Int128{1} << 63, Scalar::Float), 9223372036854775808.0);
  expect_same(to_float(Scalar::Int32, 16777217, Scalar::Float), 16777216);
  // In the middle of two bfloat16 values but for its lowest bit, which double would lose.
  expect_same(to_float(Scalar::Int64, (Int128{1} << 62) + (Int128{1} << 54) + 1, Scalar::BFloat16),
              std::ldexp(1, 62) + std::ldexp(1, 55));
  expect_same(to_float(Scalar::Int32, 100000, Scalar::Half), kInf);
  expect_same(to_float(Scalar::Bool, 1, Scalar::Half), 1);
  EXPECT_EQ(int_of_const(Scalar::Int8, eval_cast(Scalar::Int32, Scalar::Int8, const_of_int(Scalar::Int32, 200))), -56);
}

TEST(Bits, go_to_memory_and_back) {
  std::mt19937_64 random(1);
  for (int i = kNumScalars - 1; i-- > 1;) {
    const auto s = static_cast<Scalar>(i);
    const int bits = bytes_of(s) * 8;
    for (int round = 0; round < 2000; ++round) {
      uint64_t raw = bits == 64 ? random() : random() & ((uint64_t{1} << bits) - 1);
      if (s == Scalar::Bool) raw &= 1;
      const ConstBits value = from_memory_bits(s, raw);
      const bool is_nan = DType(s).is_float() && std::isnan(float_of_const(value));
      if (!is_nan) {
        ASSERT_EQ(memory_bits(s, value), raw) << to_string(s);
      }
    }
  }
  EXPECT_EQ(eval_bitcast(Scalar::Float, Scalar::Int32, f(1)).bits, 0x3F800000u);
  EXPECT_EQ(float_of_const(eval_bitcast(Scalar::UInt16, Scalar::BFloat16, {0x3FC0})), 1.5);
  EXPECT_EQ(static_cast<int64_t>(eval_bitcast(Scalar::Half, Scalar::Int16, f(-0.0)).bits), -32768);
}

TEST(Threefry, matches_the_published_vectors) {
  // Random123's known answers for threefry2x32 with 20 rounds: counter, key, result, low word first.
  auto pack = [](uint64_t low, uint64_t high) { return ConstBits{high << 32 | low}; };
  struct Case {
    ConstBits counter, key, result;
  };
  for (const auto& [counter, key, result] :
       {Case{pack(0, 0), pack(0, 0), pack(0x6b200159, 0x99ba4efe)},
        Case{pack(~0U, ~0U), pack(~0U, ~0U), pack(0x1cb996fc, 0xbb002be7)},
        Case{pack(0x243f6a88, 0x85a308d3), pack(0x13198a2e, 0x03707344), pack(0xc4923a9c, 0x483df7a0)}}) {
    const ConstBits args[] = {counter, key};
    EXPECT_EQ(eval_alu(Op::Threefry, Scalar::UInt64, args).bits, result.bits);
  }
}

TEST(Ternary, ops_choose_and_accumulate) {
  const ConstBits yes[] = {{1}, {5}, {6}}, no[] = {{0}, {5}, {6}};
  EXPECT_EQ(eval_alu(Op::Where, Scalar::Int32, yes).bits, 5u);
  EXPECT_EQ(eval_alu(Op::Where, Scalar::Int32, no).bits, 6u);
  const ConstBits ints[] = {const_of_int(Scalar::UInt64, -1), const_of_int(Scalar::UInt64, -1), {1}};
  EXPECT_EQ(eval_alu(Op::Mulacc, Scalar::UInt64, ints).bits, 2u);
  const ConstBits floats[] = {f(3), f(4), f(0.5)};
  EXPECT_EQ(float_of_const(eval_alu(Op::Mulacc, Scalar::Float, floats)), 12.5);
}

}  // namespace
}  // namespace quern
