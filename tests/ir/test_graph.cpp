#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/graph.h"
#include "ir/text.h"

namespace quern {
namespace {

TEST(Interning, makes_equal_nodes_the_same_and_others_not) {
  Graph g;
  UOp x = g.variable("x", 0, 9), y = g.variable("y", 0, 9);
  EXPECT_EQ(x + y, x + y);
  EXPECT_EQ(g.variable("x", 0, 9), x);
  EXPECT_NE(x + y, y + x);
  EXPECT_NE(g.variable("x", 0, 8), x);
  EXPECT_NE(g.variable("x", 0, 9, Scalar::Int32), x);
  EXPECT_EQ(g.view({{View{{4}, {1}, 0, std::nullopt, true}}}), g.view({{View{{4}, {1}, 0, std::nullopt, true}}}));
  EXPECT_NE(g.view({{View{{4}, {1}, 0, std::nullopt, true}}}), g.view({{View{{4}, {1}, 1, std::nullopt, true}}}));
  EXPECT_EQ(g.node(Op::Noop, Scalar::Float, {}, g.intern(std::string("a"))),
            g.node(Op::Noop, Scalar::Float, {}, g.intern(std::string("a"))));
}

TEST(Interning, tells_constants_apart_by_their_bits) {
  Graph g;
  EXPECT_NE(g.const_float(Scalar::Float, 0.0), g.const_float(Scalar::Float, -0.0));
  EXPECT_NE(g.const_int(Scalar::Int32, 1), g.const_float(Scalar::Float, 1));
  EXPECT_NE(g.const_int(Scalar::Int32, 1), g.const_bool(true));
  EXPECT_NE(g.const_int(Scalar::Int32, 1), g.const_index(1));
  EXPECT_EQ(g.const_int(Scalar::UInt8, 256 + 7), g.const_int(Scalar::UInt8, 7));
  EXPECT_EQ(g.const_float(Scalar::Float, std::nan("")), g.const_float(Scalar::Float, -std::nan("7")));
}

TEST(Interning, numbers_nodes_the_same_way_each_time) {
  auto build = [](Graph& g) {
    UOp x = g.variable("x", 0, 9);
    std::vector<std::string> made;
    for (int i = 0; i < 50; ++i) x = (x * 3 + i).idiv(g.const_index(i + 2));
    for (uint32_t i = 0; i < g.size(); ++i) made.push_back(print(g.at(i)));
    return made;
  };
  Graph a, b;
  for (int i = 0; i < 1000; ++i) b.intern(std::string(static_cast<size_t>(i), 'x'));  // other addresses
  EXPECT_EQ(build(a), build(b));
}

TEST(Interning, survives_the_growth_of_its_table) {
  Graph g;
  std::vector<UOp> made;
  for (int i = 0; i < 50000; ++i) made.push_back(g.const_index(i));
  for (int i = 0; i < 50000; ++i) ASSERT_EQ(g.const_index(i), made[static_cast<size_t>(i)]);
  EXPECT_EQ(g.size(), 50000u);
}

TEST(Nodes, may_have_more_sources_than_a_block_of_memory_holds) {
  Graph g;
  std::vector<UOp> many;
  for (int i = 0; i < 20000; ++i) many.push_back(g.const_index(i));
  UOp before = g.const_index(-1), wide = g.node(Op::Sink, Scalar::Void, many), after = g.const_index(-2);
  ASSERT_EQ(wide.num_src(), many.size());
  for (size_t i = 0; i < many.size(); ++i) ASSERT_EQ(wide.src(i), many[i]);
  EXPECT_EQ(g.node(Op::Sink, Scalar::Void, many), wide);
  EXPECT_EQ(before.const_int(), -1);
  EXPECT_EQ(after.const_int(), -2);
}

TEST(Toposort, puts_sources_before_users_once_each) {
  Graph g;
  UOp x = g.variable("x", 0, 9), sum = x + x, root = (sum * sum) + x;
  EXPECT_THAT(toposort(root), testing::ElementsAre(x, sum, sum * sum, root));
  EXPECT_TRUE(depends_on(root, x));
  EXPECT_FALSE(depends_on(x, root));
}

TEST(Walks, take_graphs_100000_nodes_deep) {
  constexpr int kDepth = 100000;
  Graph g;
  UOp x = g.variable("x", 0, 9), y = g.variable("y", 0, 9), chain = x, other = y;
  for (int i = 0; i < kDepth; ++i) {
    chain = chain.max(g.const_index(i % 7));
    other = other.max(g.const_index(i % 7));
  }
  EXPECT_TRUE(depends_on(chain, x));
  EXPECT_FALSE(depends_on(chain, y));
  EXPECT_EQ(toposort(chain).size(), kDepth + 8u);
  EXPECT_LT(compare(chain, other), 0);
  const std::pair<UOp, UOp> replacement{x, y};
  EXPECT_EQ(substitute(chain, {&replacement, 1}), other);
}

TEST(Walks, take_graphs_with_exponentially_many_paths) {
  Graph g;
  UOp x = g.variable("x", 0, 1), y = g.variable("y", 0, 1), a = x, b = y;
  for (int i = 0; i < 200; ++i) {
    a = a.max(a);
    b = b.max(b);
  }
  EXPECT_EQ(toposort(a).size(), 201u);
  EXPECT_LT(compare(a, b), 0);
  const std::pair<UOp, UOp> replacement{x, y};
  EXPECT_EQ(substitute(a, {&replacement, 1}), b);
  EXPECT_FALSE(depends_on(a, y));
}

TEST(Compare, orders_by_op_payload_type_and_sources) {
  Graph g;
  UOp x = g.variable("x", 0, 9), y = g.variable("y", 0, 9);
  const UOp ordered[] = {x, y, x + x, x + y, y + x, x * y, g.const_index(-1), g.const_index(3)};
  for (size_t i = 0; i < std::size(ordered); ++i)
    for (size_t j = 0; j < std::size(ordered); ++j) {
      const int c = compare(ordered[i], ordered[j]);
      EXPECT_EQ(c < 0, i < j) << i << " " << j;
      EXPECT_EQ(c > 0, i > j) << i << " " << j;
    }
}

TEST(Compare, orders_constants_of_all_types_by_value) {
  Graph g;
  auto real = [&](Scalar s, double v) { return g.const_float(s, v); };
  auto whole = [&](Scalar s, Int128 v) { return g.const_int(s, v); };
  constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  const UOp ordered[] = {
      real(Scalar::Float, -kInf),   whole(Scalar::Int64, INT64_MIN), real(Scalar::Float, -1.5),
      whole(Scalar::Int32, -1),     real(Scalar::Half, -1),          real(Scalar::Float, -1),
      whole(Scalar::Int32, 0),      real(Scalar::Half, 0.0),         real(Scalar::Half, -0.0),
      real(Scalar::Float, 0.0),     whole(Scalar::UInt8, 2),         real(Scalar::Half, 2),
      real(Scalar::Half, 2.5),      whole(Scalar::Int32, 3),         whole(Scalar::UInt64, UINT64_MAX),
      real(Scalar::Double, 0x1p64), real(Scalar::Float, kInf),       real(Scalar::Half, kNan),
      real(Scalar::Float, kNan)};
  for (size_t i = 0; i < std::size(ordered); ++i)
    for (size_t j = 0; j < std::size(ordered); ++j) {
      const int c = compare(ordered[i], ordered[j]);
      EXPECT_EQ(c < 0, i < j) << i << " " << j;
      EXPECT_EQ(c > 0, i > j) << i << " " << j;
    }
}

TEST(Split, gives_the_leaves_of_a_sum_in_order) {
  Graph g;
  UOp a = g.variable("a", 0, 9), b = g.variable("b", 0, 9), c = g.variable("c", 0, 9);
  EXPECT_THAT(split((a + b) + (c + a), Op::Add), testing::ElementsAre(a, b, c, a));
  EXPECT_THAT(split(a * b, Op::Add), testing::ElementsAre(a * b));
}

}  // namespace
}  // namespace quern
