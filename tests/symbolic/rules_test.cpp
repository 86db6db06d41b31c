// What each theme of rules does, does with the operands the other way round, and must not do.
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "ir/text.h"
#include "symbolic/simplify.h"

namespace quern {
namespace {

/// Variables to write expressions with: a, b, c of index type from 0 to 9; n from -9 to 9; i, j of int32 and u of uint8, whole
/// range; s of int32 from 0 to 9; p, q bool; f float.
struct Vars {
  Graph graph;
  UOp a = graph.variable("a", 0, 9), b = graph.variable("b", 0, 9), c = graph.variable("c", 0, 9),
      n = graph.variable("n", -9, 9);
  UOp big = graph.variable("big", 0, int64_t{1} << 40);
  UOp i = graph.variable("i", INT32_MIN, INT32_MAX, Scalar::Int32),
      j = graph.variable("j", INT32_MIN, INT32_MAX, Scalar::Int32);
  UOp s = graph.variable("s", 0, 9, Scalar::Int32), u = graph.variable("u", 0, 255, Scalar::UInt8);
  UOp p = graph.variable("p", 0, 1, Scalar::Bool), q = graph.variable("q", 0, 1, Scalar::Bool);
  UOp f = graph.variable("f", 0, 0, Scalar::Float);

  UOp yes = graph.const_bool(true), no = graph.const_bool(false);
  UOp operator()(int64_t value) { return graph.const_index(value); }
  UOp as_int(UOp x) { return x.cast(Scalar::Int32); }
  UOp real(double v) { return graph.const_float(Scalar::Float, v); }
};

struct Row {
  const char* claim;
  std::function<UOp(Vars&)> before, after;
};

void expect_rows(const std::vector<Row>& rows, const RuleSet& rules) {
  for (const Row& row : rows) {
    Vars v;
    UOp before = row.before(v), expected = row.after(v), after = graph_rewrite(before, rules);
    EXPECT_EQ(after, expected) << row.claim << "\nbefore   " << print(before) << "\nafter    " << print(after)
                               << "\nexpected " << print(expected);
  }
}

void expect_unchanged(const std::vector<std::pair<const char*, std::function<UOp(Vars&)>>>& rows) {
  for (const auto& [claim, make] : rows) {
    Vars v;
    UOp before = make(v), after = simplify(before);
    EXPECT_EQ(after, before) << claim << "\nbefore " << print(before) << "\nafter  " << print(after);
  }
}

TEST(Identities, hold_both_ways_round) {
  expect_rows(
      {{"x + 0", [](Vars& v) { return v.a + 0; }, [](Vars& v) { return v.a; }},
       {"0 + x", [](Vars& v) { return v(0) + v.a; }, [](Vars& v) { return v.a; }},
       {"1 * x", [](Vars& v) { return v(1) * v.a; }, [](Vars& v) { return v.a; }},
       {"x * 0", [](Vars& v) { return v.i * 0; }, [](Vars& v) { return v.i.const_like(0); }},
       {"x // 1", [](Vars& v) { return v.a.idiv(v(1)); }, [](Vars& v) { return v.a; }},
       {"x // -1", [](Vars& v) { return v.i.idiv(v.i.const_like(-1)); }, [](Vars& v) { return v.i * -1; }},
       {"x // x of what is not 0", [](Vars& v) { return (v.a + 1).idiv(v.a + 1); }, [](Vars& v) { return v(1); }},
       {"(x % y) % y", [](Vars& v) { return v.i.mod(v.j).mod(v.j); }, [](Vars& v) { return v.i.mod(v.j); }},
       {"x % 3 + x // 3 * 3", [](Vars& v) { return v.a.mod(v(3)) + v.a.idiv(v(3)) * 3; }, [](Vars& v) { return v.a; }},
       {"3 * (x // 3) + x % 3", [](Vars& v) { return v(3) * v.n.idiv(v(3)) + v.n.mod(v(3)); },
        [](Vars& v) { return v.n; }},
       {"x < x", [](Vars& v) { return v.f.lt(v.f); }, [](Vars& v) { return v.no; }},
       {"x != x of ints", [](Vars& v) { return v.i.ne(v.i); }, [](Vars& v) { return v.no; }},
       {"max(x, x)", [](Vars& v) { return v.f.max(v.f); }, [](Vars& v) { return v.f; }},
       {"x ^ x", [](Vars& v) { return v.i ^ v.i; }, [](Vars& v) { return v.i.const_like(0); }}},
      symbolic_simple());
}

TEST(Identities, do_not_hold_where_a_value_says_otherwise) {
  expect_unchanged({{"x // x may be 0 // 0", [](Vars& v) { return v.i.idiv(v.i); }},
                    {"x != x of NaN", [](Vars& v) { return v.f.ne(v.f); }},
                    {"x * 0 of an infinity", [](Vars& v) { return v.f * 0; }},
                    {"x % 0 + x // 0 * 0 is 0", [](Vars& v) { return v.j * v.i.idiv(v.j) + v.i.mod(v.j); }}});
}

TEST(Booleans, follow_logic) {
  expect_rows({{"p & true", [](Vars& v) { return v.p & v.yes; }, [](Vars& v) { return v.p; }},
               {"false & p", [](Vars& v) { return v.no & v.p; }, [](Vars& v) { return v.no; }},
               {"p | true", [](Vars& v) { return v.p | v.yes; }, [](Vars& v) { return v.yes; }},
               {"false | p", [](Vars& v) { return v.no | v.p; }, [](Vars& v) { return v.p; }},
               {"not not p", [](Vars& v) { return v.p.logical_not().logical_not(); }, [](Vars& v) { return v.p; }},
               {"p + q is or", [](Vars& v) { return v.p + v.q; }, [](Vars& v) { return v.p | v.q; }},
               {"p * q is and", [](Vars& v) { return v.p * v.q; }, [](Vars& v) { return v.p & v.q; }},
               {"max(p, q) is or", [](Vars& v) { return v.p.max(v.q); }, [](Vars& v) { return v.p | v.q; }},
               {"p ? true : false", [](Vars& v) { return v.p.where(v.yes, v.no); }, [](Vars& v) { return v.p; }},
               {"p | (q & p)", [](Vars& v) { return v.p | (v.q & v.p); }, [](Vars& v) { return v.p; }},
               {"true ? x : y", [](Vars& v) { return v.yes.where(v.f, v.real(2)); }, [](Vars& v) { return v.f; }},
               {"p ? x : x", [](Vars& v) { return v.p.where(v.f, v.f); }, [](Vars& v) { return v.f; }}},
              symbolic());
}

TEST(Floats, change_only_where_NaN_infinities_and_negative_zero_do_not_mind) {
  expect_rows({{"x + -0.0", [](Vars& v) { return v.f + v.real(-0.0); }, [](Vars& v) { return v.f; }},
               {"1 * x", [](Vars& v) { return v.real(1) * v.f; }, [](Vars& v) { return v.f; }},
               {"x + x", [](Vars& v) { return v.f + v.f; }, [](Vars& v) { return v.f * 2; }},
               {"a cast of an int is never -0.0", [](Vars& v) { return v.i.cast(Scalar::Float) + v.real(0); },
                [](Vars& v) { return v.i.cast(Scalar::Float); }}},
              symbolic());
  expect_unchanged({{"-0.0 + 0.0 is 0.0", [](Vars& v) { return v.f + v.real(0); }},
                    {"sums are not reordered", [](Vars& v) { return (v.f + v.real(1)) + v.real(1e30); }},
                    {"terms are not combined", [](Vars& v) { return v.f * v.real(3) + v.f * v.real(4); }},
                    {"no division cancels", [](Vars& v) { return v.f * v.f.alu(Op::Recip); }},
                    {"comparisons are not shifted", [](Vars& v) { return (v.f + v.real(1e30)).lt(v.real(1e30)); }},
                    {"bounds say nothing", [](Vars& v) { return v.f.max(v.f * v.real(0)); }}});
}

TEST(Terms, of_the_same_node_meet) {
  expect_rows(
      {{"x * 2 + x * 3", [](Vars& v) { return v.a * 2 + v.a * 3; }, [](Vars& v) { return v.a * 5; }},
       {"x + x * 3 of ints that wrap", [](Vars& v) { return v.i + v.i * 3; }, [](Vars& v) { return v.i * 4; }},
       {"x * 3 + x", [](Vars& v) { return v.a * 3 + v.a; }, [](Vars& v) { return v.a * 4; }},
       {"(x + y) + x * 4", [](Vars& v) { return (v.a + v.b) + v.a * 4; }, [](Vars& v) { return v.b + v.a * 5; }},
       {"(x + 3) + 4", [](Vars& v) { return (v.a + 3) + 4; }, [](Vars& v) { return v.a + 7; }},
       {"(x + 3) + y", [](Vars& v) { return (v.a + 3) + v.b; }, [](Vars& v) { return (v.a + v.b) + 3; }},
       {"(x * 3) * 4", [](Vars& v) { return (v.a * 3) * 4; }, [](Vars& v) { return v.a * 12; }},
       {"-(x + 3)", [](Vars& v) { return -(v.a + 3); }, [](Vars& v) { return v.a * -1 + -3; }},
       {"b + a", [](Vars& v) { return v.b + v.a; }, [](Vars& v) { return v.a + v.b; }},
       {"constants wrap in their type", [](Vars& v) { return (v.u + 200) + 100; }, [](Vars& v) { return v.u + 44; }}},
      symbolic());
  expect_rows(
      {{"(x + y) * 3", [](Vars& v) { return (v.a + v.b) * 3; }, [](Vars& v) { return v.a * 3 + v.b * 3; }},
       {"-1 * (x + y)", [](Vars& v) { return v(-1) * (v.a + v.b); }, [](Vars& v) { return v.a * -1 + v.b * -1; }}},
      symbolic_flat());
  expect_unchanged({{"products are left alone outside the flat table", [](Vars& v) { return (v.a + v.b) * 3; }},
                    {"a sum past 64 bits has no constant", [](Vars& v) { return (v.a + INT64_MAX) + INT64_MAX; }}});
}

TEST(Comparisons, lose_shifts_scales_and_remainders) {
  expect_rows(
      {{"x + 2 < 5", [](Vars& v) { return (v.a + 2).lt(v(5)); }, [](Vars& v) { return v.a.lt(v(3)); }},
       {"x * 4 < 6", [](Vars& v) { return (v.a * 4).lt(v(6)); }, [](Vars& v) { return v.a.lt(v(2)); }},
       {"x * -4 < -6", [](Vars& v) { return (v.a * -4).lt(v(-6)); }, [](Vars& v) { return (v.a * -1).lt(v(-1)); }},
       {"x // 4 < 2", [](Vars& v) { return v.n.idiv(v(4)).lt(v(2)); }, [](Vars& v) { return v.n.lt(v(8)); }},
       {"i // 4 < 2 by truncation", [](Vars& v) { return v.i.idiv(v.i.const_like(4)).lt(v.i.const_like(2)); },
        [](Vars& v) { return v.i.lt(v.i.const_like(8)); }},
       {"i // 4 < 0 by truncation", [](Vars& v) { return v.i.idiv(v.i.const_like(4)).lt(v.i.const_like(0)); },
        [](Vars& v) { return v.i.lt(v.i.const_like(-3)); }},
       {"10 * a + b < 20", [](Vars& v) { return (v.a * 10 + v.b).lt(v(20)); }, [](Vars& v) { return v.a.lt(v(2)); }},
       {"20 * a + 10 * b + c < 40", [](Vars& v) { return ((v.a * 20 + v.b * 10) + v.c).lt(v(40)); },
        [](Vars& v) { return (v.b + v.a * 2).lt(v(4)); }},
       {"s + 2 < 5 cannot wrap", [](Vars& v) { return (v.s + 2).lt(v.s.const_like(5)); },
        [](Vars& v) { return v.s.lt(v.s.const_like(3)); }},
       {"2 a + 3 b > 0", [](Vars& v) { return (v.a * 2 + v.b * 3).lt(v(1)).logical_not(); },
        [](Vars& v) { return (v.a + v.b).lt(v(1)).logical_not(); }}},
      symbolic());
}

TEST(Comparisons, of_ints_that_may_wrap_stay) {
  expect_unchanged(
      {{"i + 2 < 5 where i + 2 may wrap", [](Vars& v) { return (v.i + 2).lt(v.i.const_like(5)); }},
       {"i * 4 < 6 where i * 4 may wrap", [](Vars& v) { return (v.i * 4).lt(v.i.const_like(6)); }},
       {"b of 0 to 9 is no remainder by 9", [](Vars& v) { return (v.b + v.a * 9).lt(v(18)); }},
       {"2 n + 3 a > 0 where n may be negative", [](Vars& v) { return (v.a * 3 + v.n * 2).lt(v(1)).logical_not(); }}});
}

TEST(IndexDivision, folds_by_floor) {
  expect_rows(
      {{"(12 a + b) // 4", [](Vars& v) { return (v.a * 12 + v.b).idiv(v(4)); },
        [](Vars& v) { return v.a * 3 + v.b.idiv(v(4)); }},
       {"(12 a + 10) // 4", [](Vars& v) { return (v.a * 12 + 10).idiv(v(4)); }, [](Vars& v) { return v.a * 3 + 2; }},
       {"(48 n + 241) // 16", [](Vars& v) { return (v.n * 48 + 241).idiv(v(16)); },
        [](Vars& v) { return v.n * 3 + 15; }},
       {"(n // 3) // 4", [](Vars& v) { return v.n.idiv(v(3)).idiv(v(4)); }, [](Vars& v) { return v.n.idiv(v(12)); }},
       {"(4 a + b) // 8 in two steps", [](Vars& v) { return (v.a * 4 + v.b.mod(v(4))).idiv(v(8)); },
        [](Vars& v) { return v.a.idiv(v(2)); }},
       {"a // 10", [](Vars& v) { return v.a.idiv(v(10)); }, [](Vars& v) { return v(0); }},
       {"(12 a + b) % 4", [](Vars& v) { return (v.a * 12 + v.b).mod(v(4)); }, [](Vars& v) { return v.b.mod(v(4)); }},
       {"(a + 30) % 10", [](Vars& v) { return (v.a + 30).mod(v(10)); }, [](Vars& v) { return v.a; }},
       {"-(13 a + 10 b) % 2", [](Vars& v) { return ((v.a * 13 + v.b * 10) * -1).mod(v(2)); },
        [](Vars& v) { return v.a.mod(v(2)); }},
       {"(n % 12) % 4", [](Vars& v) { return v.n.mod(v(12)).mod(v(4)); }, [](Vars& v) { return v.n.mod(v(4)); }},
       {"n // 2 + (n + 1) // 2", [](Vars& v) { return v.n.idiv(v(2)) + (v.n + 1).idiv(v(2)); },
        [](Vars& v) { return v.n; }},
       {"the first of unrolled divisions is 0",
        [](Vars& v) {
          UOp x = v.b.mod(v(3));
          return (x + 1).idiv(v(3)) + (x + 2).idiv(v(3));
        },
        [](Vars& v) { return v.b.mod(v(3)); }}},
      symbolic());
  expect_unchanged({{"n // 10 of a negative", [](Vars& v) { return v.n.idiv(v(10)); }},
                    {"a % 9", [](Vars& v) { return v.a.mod(v(9)); }},
                    {"(n // 3) // -4", [](Vars& v) { return v.n.idiv(v(3)).idiv(v(-4)); }},
                    {"a // 3 + (a + 1) // 3", [](Vars& v) { return v.a.idiv(v(3)) + (v.a + 1).idiv(v(3)); }}});
}

TEST(DataDivision, truncates_so_only_what_holds_then_is_folded) {
  expect_rows({{"s % 10", [](Vars& v) { return v.s.mod(v.s.const_like(10)); }, [](Vars& v) { return v.s; }},
               {"(i // 3) // 4", [](Vars& v) { return v.i.idiv(v.i.const_like(3)).idiv(v.i.const_like(4)); },
                [](Vars& v) { return v.i.idiv(v.i.const_like(12)); }}},
              symbolic());
  expect_unchanged({{"(4 i) // 4 may have wrapped", [](Vars& v) { return (v.i * 4).idiv(v.i.const_like(4)); }},
                    {"i % 10", [](Vars& v) { return v.i.mod(v.i.const_like(10)); }}});
}

TEST(Casts, of_index_values_move_outward_and_comparisons_inward) {
  expect_rows(
      {{"int(a) + 3", [](Vars& v) { return v.as_int(v.a) + 3; }, [](Vars& v) { return v.as_int(v.a + 3); }},
       {"3 * int(a)", [](Vars& v) { return v.i.const_like(3) * v.as_int(v.a); },
        [](Vars& v) { return v.as_int(v.a * 3); }},
       {"int(a) + int(b)", [](Vars& v) { return v.as_int(v.a) + v.as_int(v.b); },
        [](Vars& v) { return v.as_int(v.a + v.b); }},
       {"max(int(n), 2)", [](Vars& v) { return v.as_int(v.n).max(v.i.const_like(2)); },
        [](Vars& v) { return v.as_int(v.n.max(v(2))); }},
       {"int(a) // 4", [](Vars& v) { return v.as_int(v.a).idiv(v.i.const_like(4)); },
        [](Vars& v) { return v.as_int(v.a.idiv(v(4))); }},
       {"int(a) < 4", [](Vars& v) { return v.as_int(v.a).lt(v.i.const_like(4)); },
        [](Vars& v) { return v.a.lt(v(4)); }},
       {"4 < int(a)", [](Vars& v) { return v.i.const_like(4).lt(v.as_int(v.a)); },
        [](Vars& v) { return v(4).lt(v.a); }},
       {"4 != int(a)", [](Vars& v) { return v.i.const_like(4).ne(v.as_int(v.a)); },
        [](Vars& v) { return v.a.ne(v(4)); }},
       {"int(a) != int(b)", [](Vars& v) { return v.as_int(v.a).ne(v.as_int(v.b)); },
        [](Vars& v) { return v.a.ne(v.b); }},
       {"i < int(a)", [](Vars& v) { return v.i.lt(v.as_int(v.a)); },
        [](Vars& v) { return v.i.cast(Scalar::Index).lt(v.a); }},
       {"int(a) != i", [](Vars& v) { return v.as_int(v.a).ne(v.i); },
        [](Vars& v) { return v.a.ne(v.i.cast(Scalar::Index)); }},
       {"index(int(a))", [](Vars& v) { return v.as_int(v.a).cast(Scalar::Index); }, [](Vars& v) { return v.a; }},
       {"int(index(i))", [](Vars& v) { return v.i.cast(Scalar::Index).cast(Scalar::Int32); },
        [](Vars& v) { return v.i; }},
       {"uchar(int(big)) keeps the low bits", [](Vars& v) { return v.as_int(v.big).cast(Scalar::UInt8); },
        [](Vars& v) { return v.big.cast(Scalar::UInt8); }},
       {"int(uchar(int8))", [](Vars& v) { return v.u.cast(Scalar::Int64).cast(Scalar::Int32); },
        [](Vars& v) { return v.u.cast(Scalar::Int32); }},
       {"int(p) != 0", [](Vars& v) { return v.p.cast(Scalar::Int32).ne(v.i.const_like(0)); },
        [](Vars& v) { return v.p; }}},
      symbolic());
  expect_unchanged(
      {{"int(big) < 4 may have wrapped", [](Vars& v) { return v.as_int(v.big).lt(v.i.const_like(4)); }},
       {"index(int(big)) may have wrapped", [](Vars& v) { return v.as_int(v.big).cast(Scalar::Index); }},
       {"int(n) // 4 truncates", [](Vars& v) { return v.as_int(v.n).idiv(v.i.const_like(4)); }},
       {"long(int(long)) loses bits",
        [](Vars& v) {
          return v.graph.variable("l", INT64_MIN, INT64_MAX, Scalar::Int64).cast(Scalar::Int32).cast(Scalar::Int64);
        }},
       {"int(bool(i)) is 0 or 1", [](Vars& v) { return v.i.cast(Scalar::Bool).cast(Scalar::Int32); }},
       {"int(float(i)) rounds", [](Vars& v) { return v.i.cast(Scalar::Float).cast(Scalar::Int32); }},
       {"int(a) + 2^31 - 1 passes the type", [](Vars& v) { return v.as_int(v.a) + INT32_MAX; }}});
}

TEST(Max, of_what_bounds_order_is_the_larger) {
  expect_rows({{"max(a, 9)", [](Vars& v) { return v.a.max(v(9)); }, [](Vars& v) { return v(9); }},
               {"max(0, a)", [](Vars& v) { return v(0).max(v.a); }, [](Vars& v) { return v.a; }},
               {"max(3 a, 4 a)", [](Vars& v) { return (v.a * 3).max(v.a * 4); }, [](Vars& v) { return v.a * 4; }}},
              symbolic());
  expect_unchanged({{"max(n * 3, n * 4)", [](Vars& v) { return (v.n * 3).max(v.n * 4); }}});
}

TEST(Factors, are_the_largest_known_divisors) {
  Vars v;
  EXPECT_TRUE(const_factor(v.a * 12 + v.b * 8) == 4);
  EXPECT_TRUE(const_factor(v.a * 12 + v.b) == 1);
  EXPECT_TRUE(const_factor(v(6)) == 6);
  EXPECT_EQ(divides(v.a * 12 + v.b * 8, 4), v.a * 3 + v.b * 2);
  EXPECT_EQ(divides(v.a * 12 + v.b, 4), std::nullopt);
  EXPECT_EQ(divides(v.a, 1), v.a);
}

TEST(Increasing, is_known_of_sums_and_positive_multiples_only) {
  Vars v;
  EXPECT_TRUE(is_increasing(v.a * 12 + v.b.idiv(v(3))));
  EXPECT_FALSE(is_increasing(v.a * -1 + v.b));
  EXPECT_FALSE(is_increasing(v.a.mod(v(3))));
  EXPECT_FALSE(is_increasing(v.i + v.j));
}

TEST(Resolve, decides_by_bounds_and_falls_back) {
  Vars v;
  EXPECT_TRUE(resolve(v.a.lt(v(10)), false));
  EXPECT_FALSE(resolve(v.a.lt(v(0)), true));
  EXPECT_TRUE(resolve(v.a.lt(v(5)), true));
  EXPECT_FALSE(resolve(v.a.lt(v(5)), false));
}

TEST(Constants, with_lanes_are_folded_lane_by_lane) {
  Graph g;
  DType index4 = DType(Scalar::Index, 4);
  UOp ramp = g.const_vector(index4, {{0}, {1}, {2}, {3}});
  UOp x = g.variable("x", 0, 9).broadcast(4);
  EXPECT_EQ(simplify((x + ramp) + ramp), x + g.const_vector(index4, {{0}, {2}, {4}, {6}}));
  EXPECT_EQ(simplify(ramp.mod(g.const_int(index4, 2))), g.const_vector(index4, {{0}, {1}, {0}, {1}}));
}

TEST(Simplify, ends_in_time_on_a_long_sum) {
  Graph g;
  UOp sum = g.variable("x", 0, 9) + 1;
  for (int i = 0; i < 30000; ++i) sum = sum + g.variable("y" + std::to_string(i % 100), 0, i % 7) * (i % 5);
  EXPECT_TRUE(simplify(sum));
}

TEST(Simplify, ends_in_time_where_a_small_graph_is_a_huge_tree) {
  Graph g;
  UOp x = g.variable("x", 0, 9), y = g.variable("y", 1, 3);
  UOp sum = x * 4;
  for (int i = 0; i < 60; ++i) sum = sum + (sum + g.variable("z" + std::to_string(i), 0, 9));
  UOp scaled = sum * y;
  EXPECT_TRUE(simplify(scaled.idiv(g.const_index(4))));
  EXPECT_TRUE(simplify((scaled + x).lt(g.const_index(100))));
  is_increasing(sum);
}

}  // namespace
}  // namespace quern
