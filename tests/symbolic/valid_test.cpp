#include <gtest/gtest.h>

#include "expressions.h"
#include "symbolic/simplify.h"

namespace quern {
namespace {

struct Vars {
  Graph graph;
  UOp a = graph.range(0, 10, 0), b = graph.range(0, 10, 1), c = graph.range(0, 10, 2);
  UOp operator()(int64_t value) { return graph.const_index(value); }
};

TEST(Constraint, is_read_from_less_than_and_its_negation_only) {
  Vars v;
  auto upper = parse_constraint(v.a.lt(v(5)));
  ASSERT_TRUE(upper && upper->upper && upper->expr == v.a && upper->limit == 4);
  auto lower = parse_constraint(v.a.ge(v(5)));
  ASSERT_TRUE(lower && !lower->upper && lower->expr == v.a && lower->limit == 5);
  EXPECT_FALSE(parse_constraint(v.a.ne(v(5))));
  EXPECT_FALSE(parse_constraint(v.a.lt(v.b)));
  EXPECT_FALSE(parse_constraint(v.graph.const_bool(true)));
  UOp f = v.graph.variable("f", 0, 0, Scalar::Float);
  EXPECT_FALSE(parse_constraint(f.lt(f.const_like(1))));
}

TEST(Given, narrows_an_expression_to_its_range) {
  Vars v;
  UOp x = v.a + v.b * 10;
  EXPECT_EQ(simplify_given(v.a.lt(v(4)), v.a.idiv(v(4))), v(0));
  EXPECT_EQ(simplify_given(v.a.ge(v(8)), v.a.idiv(v(8)) + v.b), v.b + 1);
  EXPECT_EQ(simplify_given(x.lt(v(8)), x.mod(v(8))), simplify(x));
  EXPECT_EQ(simplify_given(v.a.ge(v(4)) & v.a.lt(v(8)), v.a.mod(v(4))), v.a + -4);
}

TEST(Given, leaves_what_it_says_nothing_of) {
  Vars v;
  UOp x = v.b.idiv(v(4));
  EXPECT_EQ(simplify_given(v.a.lt(v(4)), x), x);
  EXPECT_EQ(simplify_given(v.a.lt(v(4)) & v.a.ne(v(2)), v.a.idiv(v(4))), v.a.idiv(v(4)))
      << "one clause is not understood";
}

TEST(Given, nothing_where_it_never_holds) {
  Vars v;
  EXPECT_EQ(simplify_given(v.a.lt(v(3)) & v.a.ge(v(5)), v.b), std::nullopt);
  EXPECT_EQ(simplify_given(v.a.lt(v(0)), v.b), std::nullopt);
}

TEST(Given, a_positive_sum_tries_each_of_its_atoms_positive) {
  Vars v;
  // a + b > 0 with both in [0, 9]: either way the index stays below 20.
  UOp valid = (v.a + v.b).ge(v(1));
  UOp both = (v.a + v.b + 20).idiv(v(19));
  UOp expected = simplify(both);
  auto made = simplify_given(valid, both);
  ASSERT_TRUE(made);
  EXPECT_EQ(*made, expected);
  UOp x = v.graph.range(0, 2, 0), y = v.graph.range(0, 2, 1);
  UOp one = (x + y).ge(v(1));
  EXPECT_EQ(simplify_given(one, (x + y).idiv(v(3))), v(0));
  // x > 0 or y > 0 alone make (x + y + 2) // 3 equal to 1.
  EXPECT_EQ(simplify_given(one, ((x + y) + 2).idiv(v(3))), v(1));
}

TEST(Given, each_of_two_image_coordinates_is_narrowed) {
  Vars v;
  UOp pair[] = {v.a.idiv(v(4)), v.b.mod(v(3))};
  UOp expected[] = {v(0), v.b.mod(v(3))};
  EXPECT_EQ(simplify_given(v.a.lt(v(4)), v.graph.vectorize(pair)), v.graph.vectorize(expected));
}

TEST(Valid, clauses_simplify_each_other) {
  Vars v;
  UOp inner = v.a.lt(v(4)), outer = (v.a.idiv(v(4)) + v.b).lt(v(3));
  EXPECT_EQ(simplify_valid(outer & inner), inner & v.b.lt(v(3)));
  EXPECT_EQ(simplify_valid(v.a.lt(v(4)) & v.b.lt(v(4))), std::nullopt);
  EXPECT_EQ(simplify_valid(inner), std::nullopt);
}

/// Under random constraints, wherever they hold, the narrowed expression has the value of the one it came from.
TEST(Given, keeps_the_value_wherever_the_constraints_hold) {
  constexpr uint64_t kSeed = 3;
  Graph g;
  testing::Maker maker(g, kSeed);
  int changed = 0, never = 0;
  for (int i = 0; i < 4000; ++i) {
    UOp x = graph_rewrite(maker.expression(Scalar::Index, 2 + maker.below(8)), symbolic_flat());
    std::vector<UOp> atoms;
    for (UOp u : toposort(x))
      if (!u.is_const() && u.dtype().is_index()) atoms.push_back(u);
    if (atoms.empty()) continue;
    UOp valid;
    for (int k = 0; k <= maker.below(3); ++k) {
      UOp atom = atoms[static_cast<size_t>(maker.below(static_cast<int>(atoms.size())))];
      UOp limit = atom.const_like(maker.below(20) - 4);
      UOp clause = maker.chance(50) ? atom.lt(limit) : atom.ge(limit);
      valid = valid ? valid & clause : clause;
    }
    std::optional<UOp> narrowed = simplify_given(valid, x);
    never += !narrowed;
    changed += narrowed && *narrowed != x;
    UOp whole = simplify_valid(valid).value_or(valid);
    for (int s = 0; s < 10; ++s) {
      testing::Environment env = maker.values({x, valid});
      auto in = testing::evaluate(valid, env), before = testing::evaluate(x, env);
      if (!in || !before) continue;
      bool holds = in->at(valid.id()).number != 0;
      auto same = testing::evaluate(whole, env);
      ASSERT_TRUE(!same || (same->at(whole.id()).number != 0) == holds)
          << testing::show(valid) << "\nbecame " << testing::show(whole) << "\nseed " << kSeed;
      if (!holds) continue;
      ASSERT_TRUE(narrowed) << testing::show(valid) << " holds, seed " << kSeed;
      auto after = testing::evaluate(*narrowed, env);
      ASSERT_TRUE(!after || after->at(narrowed->id()).number == before->at(x.id()).number)
          << testing::show(x) << "\nbecame " << testing::show(*narrowed) << "\nunder " << testing::show(valid)
          << "\nseed " << kSeed;
    }
  }
  EXPECT_GT(changed, 100);
  EXPECT_GT(never, 10);
}

}  // namespace
}  // namespace quern
