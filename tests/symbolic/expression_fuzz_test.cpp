// Random expressions keep their value under every table, and every node stays within its bounds.
#include <cstdlib>

#include <gtest/gtest.h>

#include "quern/error.h"

#include "expressions.h"
#include "symbolic/simplify.h"

namespace quern {
namespace {

using testing::Maker;

constexpr uint64_t kSeed = 7;
constexpr int kExpressions = 100000, kSamples = 8;

void check_value(UOp before, UOp after, Maker& maker) {
  for (int i = 0; i < kSamples; ++i) {
    testing::Environment env = maker.values({before, after});
    auto x = testing::evaluate(before, env);
    if (!x) continue;
    for (UOp u : toposort(before)) {
      if (u.dtype().is_float()) continue;
      Int128 v = x->at(u.id()).number;
      ASSERT_TRUE(testing::within_bounds(u, x->at(u.id()))) << to_string(v) << " is not in [" << to_string(u.vmin())
                                                            << ", " << to_string(u.vmax()) << "]: " << testing::show(u);
    }
    auto y = testing::evaluate(after, env);
    if (!y) continue;
    Scalar t = before.dtype().scalar;
    ASSERT_TRUE(testing::same_value(t, x->at(before.id()), y->at(after.id())))
        << testing::show(t, x->at(before.id())) << " became " << testing::show(t, y->at(after.id())) << "\nbefore "
        << testing::show(before) << "\nafter  " << testing::show(after);
    if (before.dtype().is_float()) continue;
    ASSERT_TRUE(testing::within_bounds(after, y->at(after.id()))) << "bounds of " << testing::show(after);
  }
}

TEST(ExpressionFuzz, no_random_expression_changes_its_value_or_leaves_its_bounds) {
  auto graph = std::make_unique<Graph>();
  auto maker = std::make_unique<Maker>(*graph, kSeed);
  for (int i = 0; i < kExpressions; ++i) {
    if (graph->size() > 50000) {
      graph = std::make_unique<Graph>();
      maker = std::make_unique<Maker>(*graph, kSeed + static_cast<uint64_t>(i));
    }
    UOp before = maker->expression(maker->any_type(kAllInts | kBoolOnly), 3 + maker->below(18));
    const RuleSet* tables[] = {&symbolic_simple(), &symbolic(), &symbolic_flat()};
    UOp after;
    try {
      after = graph_rewrite(before, *tables[maker->below(3)]);
    } catch (const Error& e) {
      FAIL() << e.what() << "\non " << testing::show(before) << "\nexpression " << i << ", seed " << kSeed;
    }
    check_value(before, after, *maker);
    if (::testing::Test::HasFatalFailure()) FAIL() << "expression " << i << ", seed " << kSeed;
  }
}

}  // namespace
}  // namespace quern
