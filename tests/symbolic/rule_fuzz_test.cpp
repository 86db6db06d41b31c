// Every row of the tables on random nodes that its pattern matches: the value before and after has to be the same.
#include <gtest/gtest.h>

#include "expressions.h"
#include "symbolic/simplify.h"

namespace quern {
namespace {

using testing::Maker;
using testing::Value;

constexpr uint64_t kSeed = 20250101;
constexpr int kTries = 30000, kFirings = 400, kSamples = 12;

/// Rows whose pattern alone says too little of what they look for.
UOp special_instance(const std::string& rule, Graph& g, Maker& maker) {
  if (rule != "unrolled divisions") return UOp();
  UOp x = maker.variable(Scalar::Index), sum;
  if (maker.chance(30)) x = x * 3 + maker.variable(Scalar::Index);
  int d = 2 + maker.below(4), missing = maker.chance(30) ? 1 : 0;
  for (int i = missing; i < d; ++i) {
    UOp term = (i ? x + i : x).idiv(g.const_index(d));
    sum = sum ? sum + term : term;
  }
  return sum;
}

/// The root's type: what the pattern allows.
Scalar root_type(const PatNode& p, Maker& maker) {
  if (!p.ops.contains(Op::Cmplt) && !p.ops.contains(Op::Cmpne)) return maker.any_type(p.scalars);
  return p.src.empty() && maker.chance(50) ? maker.any_type(p.scalars) : Scalar::Bool;
}

void expect_same(const Rule& rule, UOp before, UOp after, Maker& maker) {
  for (int i = 0; i < kSamples; ++i) {
    testing::Environment env = maker.values({before, after});
    auto x = testing::evaluate(before, env);
    if (!x) continue;
    auto y = testing::evaluate(after, env);
    if (!y) continue;  // the same value by way of one past the limits of this test
    Scalar t = before.dtype().scalar;
    Value a = x->at(before.id()), b = y->at(after.id());
    ASSERT_TRUE(testing::same_value(t, a, b))
        << "rule \"" << rule.name() << "\": " << testing::show(t, a) << " became " << testing::show(t, b) << "\nbefore "
        << testing::show(before) << "\nafter  " << testing::show(after);
    if (before.dtype().is_float()) continue;
    ASSERT_TRUE(testing::within_bounds(after, b)) << "bounds of " << testing::show(after);
  }
}

void fuzz(const Rule& rule, uint64_t seed) {
  int fired = 0;
  auto graph = std::make_unique<Graph>();
  auto maker = std::make_unique<Maker>(*graph, seed);
  for (int i = 0; i < kTries && fired < kFirings; ++i) {
    if (graph->size() > 50000) {
      graph = std::make_unique<Graph>();
      maker = std::make_unique<Maker>(*graph, seed + static_cast<uint64_t>(i));
    }
    maker->forget();
    UOp before = special_instance(rule.name(), *graph, *maker);
    if (!before) before = maker->instance(rule.before(), root_type(rule.before().node(), *maker));
    if (!before) continue;
    UOp after = rule.apply(before);
    if (!after) continue;
    ++fired;
    ASSERT_EQ(after.dtype(), before.dtype()) << "rule \"" << rule.name() << "\" on " << testing::show(before);
    expect_same(rule, before, after, *maker);
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(fired, 0) << "rule \"" << rule.name() << "\" never fired";
}

TEST(RuleFuzz, no_row_changes_a_value_and_every_row_fires) {
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  for (const Rule& rule : symbolic_flat().rules()) fuzz(rule, kSeed);
}

TEST(RuleFuzz, finds_the_fault_in_a_row_without_its_guard) {
  const Pat x = pat::var("x"), c0 = pat::cvar("c0"), c1 = pat::cvar("c1");
  Rule faulty("unscale lt", pat::lt((x * c0).of(kIndexOnly), c1), pat::lt(x, pat::lit(floor_div(val("c1"), val("c0")))),
              val("c0") > 0);
  Graph graph;
  Maker maker(graph, kSeed);
  for (int i = 0; i < 10000; ++i) {
    maker.forget();
    UOp before = maker.instance(faulty.before(), Scalar::Bool);
    UOp after = before ? faulty.apply(before) : UOp();
    if (!after) continue;
    testing::Environment env = maker.values({before, after});
    auto a = testing::evaluate(before, env), b = testing::evaluate(after, env);
    if (a && b && a->at(before.id()).number != b->at(after.id()).number) return;
  }
  FAIL() << "not found in 10000 tries";
}

}  // namespace
}  // namespace quern
