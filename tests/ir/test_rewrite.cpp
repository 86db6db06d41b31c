#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/error.h"

#include "ir/graph.h"
#include "ir/rewrite.h"
#include "ir/text.h"

namespace quern {
namespace {

const Pat x = pat::var("x"), y = pat::var("y"), c0 = pat::cvar("c0"), c1 = pat::cvar("c1");

/// Rules of one kind each, to see the language at work.
const RuleSet& rules() {
  static const RuleSet set("test", {
                                       {"add zero", x + 0, x},
                                       {"add consts", (x + c0) + c1, x + pat::lit(val("c0") + val("c1"))},
                                       {"double", x + x, x * 2},
                                       {"small mod", pat::mod(x, c0), x, vmin("x") >= 0 && vmax("x") < val("c0")},
                                       {"same where", pat::where(pat::var("w", kBoolOnly), x, x), x},
                                       {"max by function", pat::max(x, y), with([](const Match& m) {
                                          return m["x"].vmin() >= m["y"].vmax() ? m["x"] : UOp();
                                        })},
                                   });
  return set;
}

struct Fixture : testing::Test {
  Graph g;
  UOp a = g.variable("a", 0, 9), b = g.variable("b", 20, 30);
  UOp n(int64_t v) { return g.const_index(v); }
};
using Rules = Fixture;

TEST_F(Rules, fire_on_what_they_match) {
  EXPECT_EQ(graph_rewrite(a + 0, rules()), a);
  EXPECT_EQ(graph_rewrite((a + 3) + 4, rules()), a + 7);
  EXPECT_EQ(graph_rewrite(b + b, rules()), b * 2);
  EXPECT_EQ(graph_rewrite(a.mod(n(10)), rules()), a);
  EXPECT_EQ(graph_rewrite(a.lt(b).where(a, a), rules()), a);
}

TEST_F(Rules, fire_both_ways_round_on_commutative_ops) {
  EXPECT_EQ(graph_rewrite(n(0) + a, rules()), a);
  EXPECT_EQ(graph_rewrite(n(4) + (n(3) + a), rules()), a + 7);
  EXPECT_EQ(graph_rewrite(b.max(a), rules()), b);
  EXPECT_EQ(graph_rewrite(a.max(b), rules()), b);
}

TEST_F(Rules, do_not_fire_on_what_only_looks_alike) {
  for (UOp node : {a + 1, a + b, a.mod(n(9)), (a - 20).mod(n(10)), n(10).mod(a), a.lt(b).where(a, b), a.max(a + 1),
                   g.const_bool(false).where(b, a)})
    EXPECT_EQ(graph_rewrite(node, rules()), node) << print(node);
}

TEST_F(Rules, of_one_op_may_be_more_than_a_word_has_bits) {
  std::vector<Rule> many;
  for (int i = 0; i < 150; ++i) many.push_back({"add " + std::to_string(i), x + (1000 + i), pat::lit(i)});
  many.push_back({"second to match", x + 1007, pat::lit(-1)});
  many.push_back({"last", (x * y) + y, pat::lit(-2)});
  const RuleSet set("many", std::move(many));
  for (int i = 0; i < 150; ++i) {
    EXPECT_EQ(set.apply(g.node(Op::Add, Scalar::Index, {a, n(1000 + i)})), n(i));
    EXPECT_EQ(set.apply(g.node(Op::Add, Scalar::Index, {n(1000 + i), a})), n(i));
  }
  EXPECT_EQ(set.apply(g.node(Op::Add, Scalar::Index, {a * b, b})), n(-2));
  EXPECT_EQ(set.apply(g.node(Op::Add, Scalar::Index, {b, a * b})), n(-2));
  EXPECT_FALSE(set.apply(g.node(Op::Add, Scalar::Index, {a, n(1150)})));
  EXPECT_FALSE(set.apply(g.node(Op::Mul, Scalar::Index, {a, n(1000)})));
}

TEST_F(Rules, tell_a_types_zero_from_anothers) {
  UOp f = g.node(Op::Noop, Scalar::Float);
  const RuleSet ints("ints", {{"add zero", pat::var("x", kAllInts) + 0, x}});
  EXPECT_EQ(graph_rewrite(f + g.const_float(Scalar::Float, 0), ints), f + g.const_float(Scalar::Float, 0));
  UOp i = g.node(Op::Noop, Scalar::Int32);
  EXPECT_EQ(graph_rewrite(i + g.const_int(Scalar::Int32, 0), ints), i);
}

TEST_F(Rules, of_the_front_set_win) {
  const RuleSet first("first", {{"to b", x + 1, with([this](const Match&) { return b; })}});
  const RuleSet second("second", {{"to a", x + 1, with([this](const Match&) { return a; })}});
  EXPECT_EQ(graph_rewrite(a + 1, first + second), b);
  EXPECT_EQ(graph_rewrite(a + 1, second + first), a);
}

TEST_F(Rules, are_counted_when_asked) {
  count_rule_hits(true);
  graph_rewrite((a + 0) * (b + 0), rules());
  const std::vector<RuleHits> hits = rule_hits();
  count_rule_hits(false);
  ASSERT_EQ(hits.size(), 1u);
  EXPECT_EQ(hits[0].rule, "add zero");
  EXPECT_EQ(hits[0].hits, 2u);
}

TEST_F(Rules, get_the_context_of_their_pass) {
  struct Counter : RewriteContext {
    int seen = 0;
  };
  const RuleSet counting("counting", {{"see a mul", x * y, with([](const Match& m) {
                                         ++m.context<Counter>().seen;
                                         return UOp();
                                       })}});
  Counter counter;
  graph_rewrite((a * b) + (b * a), counting, &counter);
  EXPECT_GE(counter.seen, 2);
}

using Driver = Fixture;

TEST_F(Driver, rewrites_until_nothing_applies_anywhere) {
  UOp deep = ((a + 0) + (a + 0)).mod(n(19));
  EXPECT_EQ(graph_rewrite(deep, rules()), a * 2);
}

TEST_F(Driver, names_the_rule_that_goes_round_in_a_circle) {
  const RuleSet circle("circle", {{"swap", (x * y).ordered(), with([](const Match& m) { return m["y"] * m["x"]; })}});
  try {
    graph_rewrite(a * b, circle);
    ADD_FAILURE() << "ended";
  } catch (const InternalError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("\"swap\" of circle never ends on a MUL"));
  }
}

TEST_F(Driver, names_the_rule_that_grows_for_ever) {
  const RuleSet growing("growing",
                        {{"add one more", x + c0, with([](const Match& m) { return m["x"] + m["c0"] + 1; })}});
  try {
    graph_rewrite(a + 1, growing);
    ADD_FAILURE() << "ended";
  } catch (const InternalError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("\"add one more\" of growing never ends"));
  }
}

TEST_F(Driver, takes_graphs_100000_nodes_deep) {
  UOp plain = a, padded = a;
  for (int i = 0; i < 100000; ++i) {
    UOp c = n(i % 5 + 40);
    plain = plain.idiv(c);
    padded = (padded + 0).idiv(c);
  }
  EXPECT_EQ(graph_rewrite(padded, rules()), plain);
  UOp zeros = a;
  for (int i = 0; i < 100000; ++i) zeros = g.node(Op::Add, Scalar::Index, {zeros, n(0)});
  EXPECT_EQ(graph_rewrite(zeros, rules()), a);
}

TEST(Guards, compute_and_print_as_data) {
  Graph g;
  UOp v = g.variable("v", -3, 8), node = v.mod(g.const_index(7));
  struct Case {
    Guard guard;
    int64_t value;
    const char* text;
  };
  const Case cases[] = {
      {val("c0") + 1, 8, "(val(c0) + 1)"},
      {floor_div(vmin("x"), 2), -2, "floor_div(vmin(x), 2)"},
      {ceil_div(vmax("x"), 3), 3, "ceil_div(vmax(x), 3)"},
      {floor_mod(vmin("x"), 2), 1, "floor_mod(vmin(x), 2)"},
      {vmin("x") < 0 && !(vmax("x") <= val("c0")), 1, "((vmin(x) < 0) && !(vmax(x) <= val(c0)))"},
      {val("c0") == 7 || val("c0") == 8, 1, "((val(c0) == 7) || (val(c0) == 8))"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(c.guard.print(), c.text);
    const Rule rule("guarded", pat::mod(x, c0), x, c.guard == c.value);
    EXPECT_EQ(rule.apply(node), v) << c.text;
    const Rule other("guarded", pat::mod(x, c0), x, c.guard == c.value + 1);
    EXPECT_FALSE(other.apply(node)) << c.text;
  }
}

}  // namespace
}  // namespace quern
