// Public bug reports of tensor compilers that are about integer arithmetic, as expressions.
#include <gtest/gtest.h>

#include "expressions.h"
#include "symbolic/simplify.h"

namespace quern {
namespace {

UOp int32(Graph& g, int64_t value) { return g.const_int(Scalar::Int32, value); }

/// The value for the variable at `x`, before and after simplification; they have to agree.
Int128 value_at(UOp expr, UOp variable, int64_t x) {
  testing::Environment env{{variable.id(), {x, 0}}};
  UOp simple = graph_rewrite(expr, symbolic_flat());
  Int128 before = testing::evaluate(expr, env)->at(expr.id()).number;
  Int128 after = testing::evaluate(simple, env)->at(simple.id()).number;
  EXPECT_TRUE(before == after) << testing::show(expr) << " became " << testing::show(simple);
  return after;
}

// https://github.com/tinygrad/tinygrad/pull/8885
TEST(PublicCases, division_by_a_power_of_two_truncates) {
  Graph g;
  for (auto [a, b, expected] : {std::tuple{-5, 2, -2}, {-1, 4, 0}, {5, 2, 2}}) {
    EXPECT_EQ(simplify(int32(g, a).idiv(int32(g, b))), int32(g, expected));
    UOp x = g.variable("x", -100, 100, Scalar::Int32);
    EXPECT_TRUE(value_at(x.idiv(int32(g, b)), x, a) == expected);
  }
}

// https://github.com/tinygrad/tinygrad/pull/9674
TEST(PublicCases, divisions_of_negative_data_are_not_folded_by_floor) {
  Graph g;
  UOp i = g.range(0, 10, 0);
  UOp x = i.cast(Scalar::Int32) + int32(g, -7);
  constexpr int kExpected[] = {-2, -2, -1, -1, -1, 0, 0, 0, 0, 0};
  UOp divided = graph_rewrite(x.idiv(int32(g, 3)), symbolic_flat());
  for (int k = 0; k < 10; ++k) {
    std::pair<UOp, UOp> at{i, g.const_index(k)};
    EXPECT_EQ(simplify(substitute(divided, std::span(&at, 1))), int32(g, kExpected[k])) << k;
  }
  UOp a = g.variable("a", 0, 1, Scalar::Int32);
  EXPECT_EQ(simplify((a + -3).idiv(int32(g, 8))), int32(g, 0));
}

// https://github.com/tinygrad/tinygrad/pull/10832
TEST(PublicCases, a_modulo_takes_the_dividends_sign) {
  Graph g;
  UOp a = g.variable("a", 0, 124, Scalar::Int32);
  UOp by_negative = a.mod(int32(g, -4)), of_negative = (a * -1).mod(int32(g, 4)), divided = a.idiv(int32(g, -2));
  EXPECT_TRUE(by_negative.vmin() == 0 && by_negative.vmax() == 3);
  EXPECT_TRUE(of_negative.vmin() == -3 && of_negative.vmax() == 0);
  for (int k : {0, 1, 3, 7, 124}) {
    EXPECT_TRUE(value_at(by_negative, a, k) == k % -4);
    EXPECT_TRUE(value_at(of_negative, a, k) == -k % 4);
    EXPECT_TRUE(value_at(divided, a, k) == -(k / 2));
  }
}

// https://github.com/apache/tvm/issues/2308
TEST(PublicCases, a_linear_form_over_a_divisor) {
  Graph g;
  UOp x = g.variable("x", -10, 10, Scalar::Int32), index = g.variable("k", -10, 10), positive = g.variable("m", 0, 10);
  EXPECT_TRUE(value_at((x * 48 + 241).idiv(int32(g, 16)), x, -10) == -14);
  EXPECT_TRUE(value_at((index * 48 + 241).idiv(g.const_index(16)), index, -10) == -15);
  EXPECT_EQ(simplify((positive * 48 + 241).idiv(g.const_index(16))), positive * 3 + 15);
}

// https://github.com/tile-ai/tilelang/issues/3001
TEST(PublicCases, folded_constants_wrap_to_their_type) {
  Graph g;
  auto c = [&](Scalar t, int64_t v) { return g.const_int(t, v); };
  EXPECT_EQ(simplify(int32(g, 1).alu(Op::Shl, int32(g, 31))), int32(g, INT32_MIN));
  EXPECT_EQ(simplify(int32(g, 65536) * int32(g, 65536)), int32(g, 0));
  EXPECT_EQ(simplify(c(Scalar::UInt32, 0).alu(Op::Sub, c(Scalar::UInt32, 1))), c(Scalar::UInt32, 4294967295));
  EXPECT_EQ(simplify(c(Scalar::UInt8, 200) + c(Scalar::UInt8, 100)), c(Scalar::UInt8, 44));
  EXPECT_EQ(simplify(int32(g, INT32_MIN).idiv(int32(g, -1))), int32(g, INT32_MIN));
  EXPECT_EQ(simplify(int32(g, 7).idiv(int32(g, 0))), int32(g, 0));
}

// https://github.com/tinygrad/tinygrad/pull/17290
TEST(PublicCases, comparisons_are_solved_in_exact_integers) {
  Graph g;
  constexpr int64_t kHalf = int64_t{1} << 53, kWhole = int64_t{1} << 54;
  UOp a = g.variable("a", 0, kWhole + 1);
  EXPECT_EQ(simplify((a * 2).lt(g.const_index(kWhole + 1))), a.lt(g.const_index(kHalf + 1)));
  EXPECT_EQ(simplify((a * -2).lt(g.const_index(-(kWhole - 1)))), (a * -1).lt(g.const_index(-(kHalf - 1))));
}

}  // namespace
}  // namespace quern
