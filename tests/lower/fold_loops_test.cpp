#include "lower/fold_loops.h"

#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "evaluate.h"
#include "ir/text.h"
#include "lower/loop_collapse.h"
#include "symbolic/simplify.h"

namespace quern {
namespace {

const RuleSet& all_rules() {
  static const RuleSet rules = symbolic_flat() + loop_folding_rules();
  return rules;
}

bool has_op(UOp root, Op op) {
  for (UOp u : toposort(root))
    if (u.is(op)) return true;
  return false;
}

/// Small kernels' worth of graph.
struct Loops {
  Graph g;
  UOp i = g.variable("i", 0, 9), j = g.variable("j", -20, 20);
  int accumulators = 0;

  UOp c(int64_t v, DType t = Scalar::Int32) { return g.constant(t, v); }
  UOp loop(int64_t size, int axis = 0, int64_t start = 0) { return g.range(start, start + size, axis, true); }
  UOp reduce(Op op, UOp value, std::vector<UOp> ranges) {
    UOp first = c(0, value.dtype());
    if (op == Op::Max)
      first = value.dtype().is_float() ? g.const_float(value.dtype(), -std::numeric_limits<double>::infinity())
                                       : g.const_int(value.dtype(), min_value(value.dtype().scalar));
    ranges.insert(ranges.begin(), first);
    UOp acc = g.node(Op::DefineAcc, value.dtype(), ranges, g.intern(Lanes{accumulators++}));
    return g.node(Op::Assign, value.dtype(), {acc, acc.alu(op, value)});
  }
  UOp sum(UOp value, std::vector<UOp> ranges) { return reduce(Op::Add, value, std::move(ranges)); }
  UOp load(int number, UOp index, DType t = Scalar::Int32) {
    UOp buffer = g.node(Op::DefineGlobal, t.ptr(), {}, int64_t{number});
    return g.node(Op::Load, t, {g.node(Op::Index, buffer.dtype(), {buffer, index})});
  }
};

std::vector<ConstBits> ints(std::initializer_list<int64_t> values) {
  std::vector<ConstBits> out;
  for (int64_t v : values) out.push_back(const_of_int(Scalar::Int32, v));
  return out;
}

/// The folded graph has no loop and the same value for every i and j.
void expect_folds(Loops& k, UOp before, const char* what) {
  UOp after = graph_rewrite(before, all_rules());
  EXPECT_FALSE(has_op(after, Op::Range)) << what << ":\n" << print(after, TextStyle::Indented);
  for (int64_t i = 0; i < 10; ++i)
    for (int64_t j = -20; j <= 20; ++j) {
      Evaluator at;
      at.set_int(k.i, i);
      at.set_int(k.j, j);
      at.set_array(1, ints({10, 11, 12, 13, 14, 15, 16, 17, 18, 19}));
      at.set_array(2, ints({7, -1, 3, 0, 12, 5, 2147483647, 9, -2147483647 - 1, 1}));
      Int128 want = int_of_const(before.dtype().scalar, at(before)),
             got = int_of_const(before.dtype().scalar, at(after));
      ASSERT_EQ(want, got) << what << " at i=" << i << " j=" << j << "\n" << print(after, TextStyle::Indented);
    }
}

TEST(FoldLoops, counting_loops_have_a_closed_form) {
  struct Case {
    const char* what;
    UOp (*condition)(Loops&, UOp r);
  };
  const Case cases[] = {
      {"r < i", [](Loops& k, UOp r) { return r.lt(k.i); }},
      {"i + r >= 9", [](Loops& k, UOp r) { return (k.i + r).ge(k.g.const_index(9)); }},
      {"r < j", [](Loops& k, UOp r) { return r.lt(k.j); }},
      {"3r < j", [](Loops& k, UOp r) { return (r * 3).lt(k.j); }},
      {"3r >= j", [](Loops& k, UOp r) { return (r * 3).ge(k.j); }},
      {"-3r < j", [](Loops& k, UOp r) { return (r * -3).lt(k.j); }},
      {"-3r + 2 >= j", [](Loops& k, UOp r) { return (r * -3 + 2).ge(k.j); }},
      {"j + r in [3, 8)",
       [](Loops& k, UOp r) { return (k.j + r).ge(k.g.const_index(3)) & (k.j + r).lt(k.g.const_index(8)); }},
      {"r < i and j < 3", [](Loops& k, UOp r) { return r.lt(k.i) & k.j.lt(k.g.const_index(3)); }},
      {"two lower bounds", [](Loops& k, UOp r) { return r.ge(k.i) & r.ge(k.j); }},
      {"r == j", [](Loops& k, UOp r) { return r.eq(k.j); }},
      {"3r == j", [](Loops& k, UOp r) { return (r * 3).eq(k.j); }},
      {"-2r + i == j", [](Loops& k, UOp r) { return (r * -2 + k.i).eq(k.j); }},
      {"r == j and r < i", [](Loops& k, UOp r) { return r.eq(k.j) & r.lt(k.i); }},
  };
  for (const Case& c : cases)
    for (int64_t start : {0, 2}) {
      Loops k;
      UOp r = k.loop(10, 0, start);
      UOp condition = c.condition(k, r);
      expect_folds(k, k.sum(condition.where(k.c(5), k.c(0)), {r}), c.what);
      expect_folds(k, k.sum(condition.where(k.c(5), k.c(0)).cast(Scalar::Int64), {r}), c.what);
      expect_folds(k, k.sum(condition.cast(Scalar::Int32) * k.c(-3), {r}), c.what);
      expect_folds(k, k.sum(condition.where(k.load(1, k.i), k.c(0)), {r}), c.what);
    }
}

TEST(FoldLoops, unrolled_counting_loops_fold_term_by_term) {
  Loops k;
  UOp r = k.loop(3), total;
  for (int lane = 0; lane < 4; ++lane) {
    UOp term = (k.j + r * 4 + lane).ge(k.g.const_index(7)).where(k.c(2), k.c(0));
    total = total ? total + term : term;
  }
  expect_folds(k, k.sum(total, {r}), "unrolled");
}

TEST(FoldLoops, arange_becomes_its_index) {
  Loops k;
  UOp r = k.loop(10);
  UOp after = graph_rewrite(k.sum((k.i + r).ge(k.g.const_index(9)).where(k.c(1), k.c(0)), {r}) + k.c(-1), all_rules());
  EXPECT_LE(toposort(after).size(), 4u) << print(after, TextStyle::Indented);
  EXPECT_FALSE(has_op(after, Op::Max));
}

TEST(FoldLoops, searching_loops_load_once_and_never_outside) {
  struct Case {
    const char* what;
    UOp (*sought)(Loops&);
  };
  const Case cases[] = {
      {"an index", [](Loops& k) { return k.j; }},
      {"loaded", [](Loops& k) { return k.load(2, k.i).cast(Scalar::Index); }},
      {"loaded, shifted", [](Loops& k) { return k.load(2, k.i).cast(Scalar::Index) + (-1); }},
  };
  for (const Case& c : cases) {
    Loops k;
    UOp r = k.loop(10);
    UOp found = r.eq(c.sought(k)), value = k.load(1, r);
    expect_folds(k, k.sum(found.where(value, k.c(0)), {r}), c.what);
    expect_folds(k, k.sum(found.cast(Scalar::Int32) * value, {r}), c.what);
    expect_folds(k, k.sum(found.where(value * value + k.c(3), k.c(0)), {r}), c.what);
    UOp data = c.sought(k);
    if (data.is(Op::Cast)) {  // compared as data
      found = data.src(0).eq(r.cast(Scalar::Int32));
      expect_folds(k, k.sum(found.where(value, k.c(0)), {r}), "compared as data");
    }
  }
}

TEST(FoldLoops, a_gather_of_floats_keeps_what_it_selects) {
  Loops k;
  UOp r = k.loop(4), value = k.load(1, r, Scalar::Float);
  UOp before = k.sum(r.eq(k.load(2, k.i).cast(Scalar::Index)).where(value, k.g.const_float(Scalar::Float, 0)), {r});
  UOp after = graph_rewrite(before, all_rules());
  EXPECT_FALSE(has_op(after, Op::Range));
  std::vector<ConstBits> table;
  for (double v : {1.0, -0.0, std::numeric_limits<double>::infinity(), std::nan("")})
    table.push_back(const_of_float(Scalar::Float, v));
  const int64_t wanted[] = {0, 2, 3, 4, -1};
  for (size_t n = 0; n < std::size(wanted); ++n) {
    Evaluator at;
    at.set_int(k.i, static_cast<int64_t>(n));
    at.set_array(1, table);
    at.set_array(2, ints({0, 2, 3, 4, -1}));
    double want = float_of_const(at(before)), got = float_of_const(at(after));
    EXPECT_TRUE(want == got || (std::isnan(want) && std::isnan(got)))
        << "index " << wanted[n] << ": " << got << ", not " << want;
  }
}

TEST(FoldLoops, what_does_not_change_is_multiplied_in_sums_and_kept_in_maxima) {
  Loops k;
  UOp r = k.loop(7), q = k.loop(3, 1);
  expect_folds(k, k.sum(k.load(1, k.i), {r}), "sum");
  expect_folds(k, k.sum(k.load(1, k.i), {r, q}), "sum over two loops");
  expect_folds(k, k.reduce(Op::Max, k.load(1, k.i), {r, q}), "max");
  UOp left = graph_rewrite(k.sum(k.load(1, q), {r, q}), all_rules());
  EXPECT_TRUE(has_op(left, Op::Range));
  EXPECT_FALSE(depends_on(left, r));
  EXPECT_TRUE(depends_on(left, q));
}

TEST(FoldLoops, a_maximum_is_never_counted) {
  Loops k;
  UOp r = k.loop(10);
  UOp before = k.reduce(Op::Max, r.lt(k.i).where(k.c(5), k.c(0)), {r});
  EXPECT_TRUE(has_op(graph_rewrite(before, all_rules()), Op::Range));
}

TEST(FoldLoops, what_may_be_infinite_is_not_multiplied_by_zero) {
  Loops k;
  UOp r = k.loop(10), x = k.load(1, k.i, Scalar::Float), zero = k.g.const_float(Scalar::Float, 0);
  UOp before = k.sum(r.lt(k.j).where(x, zero), {r});
  UOp after = graph_rewrite(before, all_rules());
  Evaluator at;
  at.set_int(k.i, 0);
  at.set_int(k.j, -3);
  at.set_array(1, {const_of_float(Scalar::Float, std::numeric_limits<double>::infinity())});
  EXPECT_EQ(float_of_const(at(before)), 0.0);
  EXPECT_EQ(float_of_const(at(after)), 0.0);
}

TEST(FoldLoops, counting_loops_may_select_the_other_way_round) {
  Loops k;
  UOp r = k.loop(10);
  expect_folds(k, k.sum(r.lt(k.j).where(k.c(0), k.c(5)), {r}), "r >= j");
  expect_folds(k, k.sum(r.ge(k.j).where(k.c(0), k.c(5)).cast(Scalar::Int64), {r}), "r < j");
  expect_folds(k, k.sum(r.ne(k.j).where(k.c(0), k.load(1, r)), {r}), "r == j");
}

TEST(FoldLoops, sums_of_nothing_are_what_they_start_with) {
  Loops k;
  UOp r = k.loop(10);
  EXPECT_EQ(graph_rewrite(k.sum(k.c(0), {r}), all_rules()), k.c(0));
}

TEST(FoldLoops, loops_that_cannot_go_stay) {
  Loops k;
  UOp r = k.loop(10);
  UOp stays[] = {k.sum(k.load(1, r), {r}), k.sum((r * r).lt(k.i).where(k.c(1), k.c(0)), {r}),
                 k.sum(r.lt(k.i).where(k.load(1, r), k.c(0)), {r}), k.sum(r.ne(k.i).where(k.c(1), k.c(0)), {r})};
  for (UOp u : stays) EXPECT_FALSE(collapse_reduction(u)) << print(u);
}

TEST(FoldLoops, random_counting_loops_keep_their_value) {
  constexpr unsigned kSeed = 7;
  std::mt19937 random(kSeed);
  auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int folded = 0;
  for (int trial = 0; trial < 300; ++trial) {
    Loops k;
    UOp r = k.loop(draw(1, 6), 0, draw(0, 2)), condition;
    for (int clauses = draw(1, 3); clauses-- > 0;) {
      UOp x = r * draw(-4, 4) + k.i * draw(-2, 2) + k.j * draw(-2, 2) + draw(-5, 5),
          limit = k.g.const_index(draw(-8, 8));
      UOp clause = draw(0, 4) == 0 ? x.eq(limit) : draw(0, 1) ? x.lt(limit) : x.ge(limit);
      condition = condition ? condition & clause : clause;
    }
    UOp before = k.sum(condition.where(k.c(draw(-3, 3)), k.c(0)), {r});
    UOp after = graph_rewrite(before, all_rules());
    folded += !has_op(after, Op::Range);
    for (int n = 0; n < 40; ++n) {
      Evaluator at;
      at.set_int(k.i, draw(0, 9));
      at.set_int(k.j, draw(-20, 20));
      ASSERT_EQ(at(before).bits, at(after).bits) << "seed " << kSeed << ", trial " << trial << "\n"
                                                 << print(before) << "\n"
                                                 << print(after);
    }
  }
  EXPECT_EQ(folded, 300);
}

TEST(Threefry, is_what_the_op_means_and_needs_no_64_bit_arithmetic_where_words_are_known) {
  Graph g;
  UOp x = g.node(Op::DefineVar, Scalar::UInt64, {}, g.intern(VarArg{"x", 0, INT64_MAX}));
  UOp key = g.node(Op::DefineVar, Scalar::UInt64, {}, g.intern(VarArg{"key", 0, INT64_MAX}));
  UOp before = g.node(Op::Threefry, Scalar::UInt64, {x, key});
  UOp after = graph_rewrite(before, all_rules());
  EXPECT_FALSE(has_op(after, Op::Threefry));
  std::mt19937_64 random(11);
  for (int n = 0; n < 50; ++n) {
    Evaluator at;
    at.set(x, {random() >> 1});
    at.set(key, {random() >> 1});
    ASSERT_EQ(at(before).bits, at(after).bits) << "seed 11, sample " << n;
  }

  UOp low = g.node(Op::DefineVar, Scalar::UInt32, {}, g.intern(VarArg{"low", 0, 0xFFFFFFFF}));
  UOp high = g.node(Op::DefineVar, Scalar::UInt32, {}, g.intern(VarArg{"high", 0, 0xFFFFFFFF}));
  UOp pair = high.cast(Scalar::UInt64) * (int64_t{1} << 32) | low.cast(Scalar::UInt64);
  UOp words = graph_rewrite(
      g.node(Op::Threefry, Scalar::UInt64, {pair, g.constant(Scalar::UInt64, 42)}).cast(Scalar::UInt32), all_rules());
  for (UOp u : toposort(words)) EXPECT_NE(u.dtype().scalar, Scalar::UInt64) << print(u);
}

TEST(LoopFoldingRules, keep_what_a_high_word_may_lose) {
  Graph g;
  UOp x = g.node(Op::DefineVar, Scalar::UInt64, {}, g.intern(VarArg{"x", 0, INT64_MAX}));
  UOp y = g.node(Op::DefineVar, Scalar::UInt32, {}, g.intern(VarArg{"y", 0, 0xFFFFFFFF}));
  UOp word = g.constant(Scalar::UInt64, int64_t{1} << 32);
  UOp before = (x * word | y.cast(Scalar::UInt64)).idiv(word);
  UOp after = graph_rewrite(before, all_rules());
  Evaluator at;
  at.set(x, {0x123456789ABCDEFu});
  at.set(y, {5});
  EXPECT_EQ(at(after).bits, 0x89ABCDEFu);
}

}  // namespace
}  // namespace quern
