#include <random>

#include <gtest/gtest.h>

#include "ir/eval.h"
#include "ir/graph.h"
#include "ir/node_map.h"
#include "ir/text.h"

namespace quern {
namespace {

constexpr Scalar kIntegers[] = {Scalar::Bool,  Scalar::Int8,   Scalar::UInt8, Scalar::Int16,  Scalar::UInt16,
                                Scalar::Int32, Scalar::UInt32, Scalar::Int64, Scalar::UInt64, Scalar::Index};

/// A graph of integer ops with a value for each node.
class RandomGraph {
 public:
  RandomGraph(uint64_t seed, Graph& graph) : random_(seed), graph_(graph) {}

  void grow(int nodes) {
    for (Scalar s : kIntegers)
      for (int i = 0; i < 3; ++i) add_leaf(s);
    for (int i = 0; i < nodes; ++i) add_node();
  }
  const std::vector<UOp>& nodes() const { return nodes_; }
  Int128 value(UOp u) { return int_of_const(u.dtype().scalar, values_[u]); }

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  /// Small, near the type's ends, or anything; index values stay where no op of a few leaves 64 bits.
  Int128 some_value(Scalar s) {
    if (s == Scalar::Index) return below(41) - 20;
    const Int128 low = min_value(s), high = max_value(s);
    switch (below(4)) {
      case 0: return wrap(s, below(20) - 10);
      case 1: return wrap(s, low + below(4));
      case 2: return wrap(s, high - below(4));
      default: return wrap(s, static_cast<Int128>(random_()));
    }
  }

  void keep(UOp u, ConstBits value) {
    nodes_.push_back(u);
    values_[u] = value;
  }

  void add_leaf(Scalar s) {
    Int128 a = some_value(s), b = some_value(s);
    if (b < a) std::swap(a, b);
    if (s == Scalar::Bool || b > INT64_MAX || below(3) == 0) return keep(graph_.const_int(s, a), const_of_int(s, a));
    const Int128 span = b - a + 1;
    const Int128 value = a + static_cast<Int128>(random_()) % span;
    const std::string name = "v" + std::to_string(nodes_.size());
    keep(graph_.variable(name, static_cast<int64_t>(a), static_cast<int64_t>(b), s), const_of_int(s, value));
  }

  UOp pick(Scalar s) {
    for (int tries = 0; tries < 200; ++tries) {
      UOp u = nodes_[static_cast<size_t>(below(static_cast<int64_t>(nodes_.size())))];
      if (u.dtype() == DType(s) && is_tame(u)) return u;
    }
    return graph_.const_int(s, 1);
  }
  /// Index arithmetic is unbounded, its evaluation is not: nothing is built on values that could leave 64 bits.
  static bool is_tame(UOp u) {
    return !u.dtype().is_index() || (u.vmin() > -(Int128{1} << 30) && u.vmax() < (Int128{1} << 30));
  }

  ConstBits value_of(UOp u) { return u.is_const() ? const_of_int(u.dtype().scalar, u.const_int()) : values_[u]; }

  void add_node() {
    const Scalar s = kIntegers[static_cast<size_t>(below(std::size(kIntegers)))];
    constexpr Op kOps[] = {Op::Add, Op::Sub, Op::Mul, Op::Idiv,  Op::Mod,   Op::Max,   Op::And,  Op::Or,    Op::Xor,
                           Op::Shl, Op::Shr, Op::Neg, Op::Cmplt, Op::Cmpne, Op::Where, Op::Cast, Op::Mulacc};
    const Op op = kOps[static_cast<size_t>(below(std::size(kOps)))];
    const bool arithmetic_only = op == Op::Idiv || op == Op::Mod || op == Op::Shl || op == Op::Shr;
    if (s == Scalar::Bool && arithmetic_only) return;
    if (op == Op::Cast) {
      UOp x = pick(kIntegers[static_cast<size_t>(below(std::size(kIntegers)))]);
      if (s == Scalar::Index && (x.vmax() > INT64_MAX || x.vmin() < INT64_MIN)) return;
      return keep(graph_.node(Op::Cast, s, {x}), eval_cast(x.dtype().scalar, s, value_of(x)));
    }
    std::vector<UOp> src;
    if (op == Op::Where) src.push_back(pick(Scalar::Bool));
    while (static_cast<int>(src.size()) < info(op).arity) src.push_back(pick(s));
    if (s == Scalar::Index) {
      if (op == Op::Shl || op == Op::Shr) src[1] = graph_.const_index(below(20));
      if ((op == Op::Idiv || op == Op::Mod) && src[1].vmin() <= 0 && src[1].vmax() >= 0) return;
    }
    std::vector<ConstBits> args;
    for (UOp u : src) args.push_back(value_of(u));
    const bool compares = op == Op::Cmplt || op == Op::Cmpne;
    keep(graph_.node(op, compares ? Scalar::Bool : s, src), eval_alu(op, s, args));
  }

  std::mt19937_64 random_;
  Graph& graph_;
  std::vector<UOp> nodes_;
  NodeMap<ConstBits> values_;
};

TEST(Bounds, contain_the_value_of_every_integer_op_on_every_type) {
  constexpr uint64_t kSeeds = 4000;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Graph graph;
    RandomGraph random(seed, graph);
    random.grow(120);
    for (UOp u : random.nodes()) {
      const Int128 value = random.value(u);
      ASSERT_TRUE(u.vmin() <= value && value <= u.vmax())
          << "seed " << seed << ": " << to_string(value) << " is not in [" << to_string(u.vmin()) << ", "
          << to_string(u.vmax()) << "] of " << print(u, TextStyle::Indented);
    }
  }
}

TEST(Bounds, are_tight_where_kernels_rely_on_it) {
  Graph g;
  UOp x = g.variable("x", 0, 9), y = g.variable("y", -4, 3);
  struct Case {
    UOp node;
    Int128 min, max;
  };
  const Case cases[] = {
      {x + y, -4, 12},
      {x * y, -36, 27},
      {x.idiv(g.const_index(4)), 0, 2},
      {y.idiv(g.const_index(4)), -1, 0},
      {x.mod(g.const_index(4)), 0, 3},
      {y.mod(g.const_index(4)), 0, 3},
      {(x + 8).mod(g.const_index(32)), 8, 17},
      {x.max(y), 0, 9},
      {x.lt(g.const_index(10)), 1, 1},
      {x.lt(y + -10), 0, 0},
      {x.ne(g.const_index(11)), 1, 1},
      {g.variable("c", 100, 120, Scalar::Int8) + g.const_int(Scalar::Int8, 8), -128, 127},
      {g.variable("c", 100, 119, Scalar::Int8) + g.const_int(Scalar::Int8, 8), 108, 127},
      {g.variable("c", 0, 300, Scalar::Int32).cast(Scalar::UInt8), 0, 255},
      {g.range(0, 7, 0), 0, 6},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(static_cast<int64_t>(c.node.vmin()), static_cast<int64_t>(c.min)) << print(c.node);
    EXPECT_EQ(static_cast<int64_t>(c.node.vmax()), static_cast<int64_t>(c.max)) << print(c.node);
  }
}

}  // namespace
}  // namespace quern
