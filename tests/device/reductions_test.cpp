// Reduces, what is folded out of them, and how they are split: the public cases C29 to C31, S1 to S5.

#include <cmath>

#include <gtest/gtest.h>

#include "everywhere.h"
#include "ir/text.h"
#include "shape/shapetracker.h"

namespace quern {
namespace {

using namespace test;
using enum DataType;

ShapeTracker strided(Shape shape, std::vector<SInt> strides, SInt offset = 0) {
  return {{make_view(std::move(shape), std::move(strides), offset)}};
}

TEST(Reductions, a_max_over_stacked_values_is_no_sum) {  // C29
  for (bool loaded : {false, true}) {
    SCOPED_TRACE(loaded ? "loaded" : "known");
    Graph g;
    std::vector<UOp> parts;
    for (int row = 0; row < 2; ++row) {  // row `row` of (2, 4), the other one zero
      const ShapeTracker inside{{make_view({2, 4}, {0, 1}, 0, Mask{{row, row + 1}, {0, 4}})}};
      UOp valid = g.node(Op::Valid, Scalar::Bool, {g.view(inside)});
      parts.push_back(loaded ? load(g, row + 1, Scalar::Float, inside)
                             : valid.where(g.const_float(Scalar::Float, row + 1), g.const_float(Scalar::Float, 0)));
    }
    UOp stacked = parts[0] + parts[1];
    expect_everywhere(kernel_of({store(g, 0, strided({1, 4}, {0, 1}), reduce(Op::Max, stacked, {0}))}),
                      {{1, filled(Float, 4, 1)}, {2, filled(Float, 4, 2)}}, {{0, filled(Float, 4, 2)}});
  }
}

/// The position of the largest of `size` values that `from` reads: max over i of (x[i] == max ? size - i : 0), from the end.
KernelGraph argmax(int64_t size, const ShapeTracker& from) {
  Graph g;
  UOp x = load(g, 1, Scalar::Int32, from), largest = load(g, 2, Scalar::Int32, strided({size, 1}, {0, 0}));
  UOp left = count_from_one(g, size, 0, 1, 2) * int64_t{-1} + (size + 1);  // size, ..., 1
  UOp best = reduce(Op::Max, x.eq(largest).cast(Scalar::Int32) * left, {0});
  return kernel_of({store(g, 0, tracker({1, 1}), best * int64_t{-1} + size)});
}

TEST(Reductions, an_argmax_over_two_axes_is_a_flat_position) {  // C30
  expect_everywhere(argmax(4, tracker({4, 1})), {{1, ints(Int32, {0, 5, 9, 1})}, {2, ints(Int32, {9})}},
                    {{0, ints(Int32, {2})}});
  // (9, 2, 3) from a (3, 9, 2) buffer by a permute
  const ShapeTracker permuted{{make_view({9, 2, 3}, {2, 1, 18}), make_view({54, 1}, {1, 0})}};
  for (size_t at : {0, 17, 53}) {
    SCOPED_TRACE(at);
    const size_t i = at / 6, j = at / 3 % 2, k = at % 3;
    const Elements in =
        tabulate(Int32, 54, [&](size_t e) { return e == k * 18 + i * 2 + j ? 100 : static_cast<int>(e % 50); });
    expect_everywhere(argmax(54, permuted), {{1, in}, {2, ints(Int32, {100})}},
                      {{0, ints(Int32, {static_cast<Int128>(at)})}});
  }
}

/// out[i] = w[index[i]]: the sum over j of w[j] where the count j is the index; with `wraps`, negative ones from the end.
KernelGraph gather(int64_t picks, int64_t size, bool wraps) {
  Graph g;
  // axes: picks, size (summed), size (counted over)
  UOp index = load(g, 2, Scalar::Int32, strided({picks, size, 1}, {1, 0, 0}));
  UOp w = load(g, 1, Scalar::Float, strided({picks, size, 1}, {0, 1, 0}));
  if (wraps) index = index.lt(index.const_like(0)).where(index + size, index);
  const View ones = make_view({size + 1, 2 * size - 1}, {0, 0}, 0, Mask{{0, size + 1}, {size - 1, 2 * size - 1}});
  UOp valid = g.node(Op::Valid, Scalar::Bool, {g.view({{ones, make_view({picks, size, size}, {0, 1, 2 * size})}})});
  UOp one = g.const_int(Scalar::Int32, 1);
  UOp j = reduce(Op::Add, valid.where(one, one.const_like(0)), {2}) + int64_t{-1};
  UOp picked = j.eq(index).cast(Scalar::Float) * w;
  return kernel_of({store(g, 0, strided({picks, 1, 1}, {1, 0, 0}), reduce(Op::Add, picked, {1}))});
}

TEST(Reductions, a_gather_out_of_range_is_zero_and_minus_one_wraps) {  // C31
  const Elements w = reals(Float, {1, 2, 3, 4});
  expect_everywhere(gather(3, 4, true), {{1, w}, {2, ints(Int32, {0, 3, -1})}}, {{0, reals(Float, {1, 4, 4})}});
  expect_everywhere(gather(1, 4, true), {{1, w}, {2, ints(Int32, {7})}}, {{0, reals(Float, {0})}});
  expect_everywhere(gather(8, 4, false), {{1, w}, {2, ints(Int32, {0, 1, 2, 3, 4, -1, INT32_MIN, INT32_MAX})}},
                    {{0, reals(Float, {1, 2, 3, 4, 0, 0, 0, 0})}});
}

/// The elements of each row up to a place, those before the row padded: (rows, n, n). With `shift` 1 without the place itself.
ShapeTracker so_far(int64_t rows, int64_t n, int64_t shift = 0) {
  const int64_t lead = n - 1 + shift, width = 2 * n - 1;
  return {{make_view({rows, width}, {n, 1}, -lead, Mask{{0, rows}, {lead, width}}),
           make_view({rows, n, n}, {width, 1, 1})}};
}

const How kScans{.opts = {"UPCAST(0,4)", "UPCAST(1,5)", "UNROLL(0,0)", "UPCAST(0,4) THREAD(0,2)", "SWAP(0,1)"}};

TEST(Reductions, of_all_elements_so_far_are_running_sums) {
  constexpr int64_t rows = 8, n = 35;
  const Elements in = tabulate(Int32, rows * n, [](size_t i) { return static_cast<int>(i * 37 % 101) - 50; });
  for (int64_t shift : {0, 1}) {
    SCOPED_TRACE(shift);
    Graph g;
    UOp sums = reduce(Op::Add, load(g, 1, Scalar::Int32, so_far(rows, n, shift)), {2});
    Int128 sum = 0;
    const Elements want = tabulate(Int32, rows * n, [&](size_t i) {
      if (i % n == 0) sum = 0;  // a row begins
      const Int128 before = sum;
      sum += int_of_const(Scalar::Int32, in.values[i]);
      return shift == 1 ? before : sum;
    });
    expect_everywhere(kernel_of({store(g, 0, tracker({rows, n, 1}), sums)}), {{1, in}}, {{0, want}}, kScans);
  }
}

TEST(Reductions, of_all_elements_so_far_may_be_used_at_once) {
  constexpr int64_t n = 20;
  Graph g;
  UOp sums = reduce(Op::Add, load(g, 1, Scalar::Float, so_far(4, n)), {2});
  UOp weighted = sums * load(g, 2, Scalar::Float, tracker({4, n, 1})) + sums;
  const Elements in = tabulate(Float, 4 * n, [](size_t i) { return static_cast<double>(i % 7) - 2; });
  const Elements weight = tabulate(Float, 4 * n, [](size_t i) { return static_cast<double>(i % 3); });
  double sum = 0;
  const Elements want = tabulate(Float, 4 * n, [&](size_t i) {
    sum = (i % n == 0 ? 0 : sum) + float_of_const(in.values[i]);
    return sum * float_of_const(weight.values[i]) + sum;
  });
  expect_everywhere(kernel_of({store(g, 0, tracker({4, n, 1}), weighted)}), {{1, in}, {2, weight}}, {{0, want}},
                    {.opts = kScans.opts, .signed_zeros = false});
}

TEST(Reductions, of_all_elements_so_far_start_anew_in_loops_they_do_not_depend_on) {
  constexpr int64_t rows = 4, n = 20, width = 2 * n - 1;
  Graph g;
  // The same cumulative sum in each row, and for each column of a product.
  const ShapeTracker shared{{make_view({1, width}, {0, 1}, -(n - 1), Mask{{0, 1}, {n - 1, width}}),
                             make_view({rows, n, 3, n}, {0, 1, 0, 1})}};
  UOp sums = reduce(Op::Add, load(g, 1, Scalar::Int32, shared), {3});
  UOp out = sums * load(g, 2, Scalar::Int32, strided({rows, n, 3, 1}, {3 * n, 3, 1, 0}));
  const Elements in = tabulate(Int32, n, [](size_t i) { return static_cast<int>(i * 7 % 11) - 3; });
  const Elements factor = tabulate(Int32, rows * n * 3, [](size_t i) { return static_cast<int>(i % 5) + 1; });
  Int128 sum = 0;
  const Elements want = tabulate(Int32, rows * n * 3, [&](size_t i) {
    if (i % (3 * n) == 0) sum = 0;
    if (i % 3 == 0) sum += int_of_const(Scalar::Int32, in.values[i / 3 % n]);
    return sum * int_of_const(Scalar::Int32, factor.values[i]);
  });
  expect_everywhere(kernel_of({store(g, 0, tracker({rows, n, 3, 1}), out)}), {{1, in}, {2, factor}}, {{0, want}},
                    {.opts = {"UPCAST(0,4)", "UPCAST(2,3)", "SWAP(0,1)", "SWAP(1,2)", "THREAD(0,2)"}});
}

TEST(Reductions, of_all_elements_so_far_may_be_reduced_again) {
  constexpr int64_t rows = 4, n = 20, m = 6;
  Graph g;
  // sum over j of (x[0] + ... + x[i]) * y[i, j]
  const int64_t width = 2 * n - 1;
  const ShapeTracker before{{make_view({rows, width}, {n, 1}, -(n - 1), Mask{{0, rows}, {n - 1, width}}),
                             make_view({rows, n, m, n}, {width, 1, 0, 1})}};
  UOp sums = reduce(Op::Add, load(g, 1, Scalar::Int32, before), {3});
  UOp all = reduce(Op::Add, sums * load(g, 2, Scalar::Int32, strided({rows, n, m, 1}, {n * m, m, 1, 0})), {2});
  const Elements x = tabulate(Int32, rows * n, [](size_t i) { return static_cast<int>(i * 7 % 11) - 3; });
  const Elements y = tabulate(Int32, rows * n * m, [](size_t i) { return static_cast<int>(i % 5) - 1; });
  Int128 sum = 0;
  const Elements want = tabulate(Int32, rows * n, [&](size_t i) {
    sum = (i % n == 0 ? 0 : sum) + int_of_const(Scalar::Int32, x.values[i]);
    Int128 total = 0;
    for (size_t j = 0; j < m; ++j) total += sum * int_of_const(Scalar::Int32, y.values[i * m + j]);
    return total;
  });
  expect_everywhere(kernel_of({store(g, 0, tracker({rows, n, 1, 1}), all)}), {{1, x}, {2, y}}, {{0, want}},
                    {.opts = {"UPCAST(0,4)", "UNROLL(0,3)", "RFACTOR(0,2)", "THREAD(0,2)"}});
}

TEST(Reductions, of_all_elements_so_far_down_columns_have_lanes) {
  constexpr int64_t rows = 9, columns = 32;
  Graph g;
  const ShapeTracker above{{make_view({2 * rows - 1, columns}, {columns, 1}, -(rows - 1) * columns,
                                      Mask{{rows - 1, 2 * rows - 1}, {0, columns}}),
                            make_view({rows, columns, rows}, {columns, 1, columns})}};
  UOp valid = g.node(Op::Valid, Scalar::Bool, {g.view(above)});
  UOp padding = valid.where(g.const_float(Scalar::Float, 0), g.const_float(Scalar::Float, -INFINITY));
  UOp largest = reduce(Op::Max, load(g, 1, Scalar::Float, above) + padding, {2});
  const Elements in = tabulate(Float, rows * columns, [](size_t i) { return static_cast<double>(i * 29 % 83) - 90; });
  std::vector<double> best(columns, -INFINITY);
  const Elements want = tabulate(Float, rows * columns, [&](size_t i) {
    return best[i % columns] = std::max(best[i % columns], float_of_const(in.values[i]));
  });
  expect_everywhere(kernel_of({store(g, 0, tracker({rows, columns, 1}), largest)}), {{1, in}}, {{0, want}},
                    {.opts = {"SWAP(0,1)", "UPCAST(1,16)", "UPCAST(1,0)", "UPCAST(0,3)", "UPCAST(0,3) UPCAST(0,16)"}});
}

/// Each element less the row's largest, times the row's sum of such differences.
void expect_normalized_rows(int64_t columns, const std::vector<std::string>& opts) {
  constexpr int64_t rows = 3;
  Graph g;
  // Axes: rows, columns, those of the sum, those of the maximum.
  const auto x = [&](Shape shape, std::vector<SInt> strides) {
    return load(g, 1, Scalar::Int32, strided(std::move(shape), std::move(strides)));
  };
  const auto largest = [&](int64_t for_sum) {
    return reduce(Op::Max, x({rows, columns, for_sum, columns}, {columns, 0, 0, 1}), {3});
  };
  UOp sum = reduce(Op::Add, x({rows, columns, columns, 1}, {columns, 0, 1, 0}) - largest(columns), {2});
  UOp out = (x({rows, columns, 1, 1}, {columns, 1, 0, 0}) - largest(1)) * sum;
  const Elements in =
      tabulate(Int32, static_cast<size_t>(rows * columns), [](size_t i) { return static_cast<int>(i * 31 % 97) - 40; });
  std::vector<Int128> want;
  for (size_t row = 0; row < rows; ++row) {
    const auto n = static_cast<size_t>(columns);
    const auto at = [&](size_t c) { return int_of_const(Scalar::Int32, in.values[row * n + c]); };
    Int128 most = at(0), total = 0;
    for (size_t c = 0; c < n; ++c) most = std::max(most, at(c));
    for (size_t c = 0; c < n; ++c) total += at(c) - most;
    for (size_t c = 0; c < n; ++c) want.push_back((at(c) - most) * total);
  }
  expect_everywhere(kernel_of({store(g, 0, tracker({rows, columns, 1, 1}), out)}), {{1, in}}, {{0, ints(Int32, want)}},
                    {.opts = opts});
}

TEST(Reductions, of_a_row_may_be_used_along_it) {
  expect_normalized_rows(48,
                         {"RFACTOR(1,16) RFACTOR(0,16) UPCAST(1,16)", "RFACTOR(0,8)", "UPCAST(1,16)", "UNROLL(1,4)"});
}

TEST(Reductions, of_a_row_used_along_it_may_be_padded) {
  expect_normalized_rows(27,
                         {"PADTO(3,16) RFACTOR(1,16) PADTO(2,16) RFACTOR(0,16) PADTO(1,16) UPCAST(1,16)",
                          "PADTO(3,16) RFACTOR(1,16) PADTO(1,16) UPCAST(1,16)", "PADTO(2,16) PADTO(3,16) RFACTOR(0,16)",
                          "PADTO(1,16) PADTO(2,4) PADTO(3,4) UNROLL(0,4)"});
}

TEST(Reductions, a_padded_max_of_rows_keeps_its_first_element) {  // S1
  KernelBuilder k;
  k.store(0, max(k.load(1, Half, {1, 16, 13, 13}), {3}));
  const Elements in = tabulate(Half, 16 * 13 * 13, [](size_t i) { return -1.0 - static_cast<double>((i * 7) % 31); });
  const Elements want = tabulate(Half, 16 * 13, [&](size_t row) {
    double best = -1e9;
    for (size_t c = 0; c < 13; ++c) best = std::max(best, float_of_const(in.values[row * 13 + c]));
    return best;
  });
  expect_everywhere(
      k.build(), {{1, in}}, {{0, want}},
      {.opts = {"PADTO(0,32)", "PADTO(0,32) UPCAST(0,4)", "PADTO(0,32) UPCAST(0,4) UPCAST(0,7) UPCAST(0,0)",
                "PADTO(0,32) UPCAST(0,4) UPCAST(0,7)", "UNROLL(0,0)"}});
}

TEST(Reductions, counts_are_the_same_however_they_are_split) {  // S2
  for (int64_t n : {1024, 60000}) {
    SCOPED_TRACE(n);
    Graph g;
    UOp i = count_from_one(g, n, 0, 1, 2);
    expect_everywhere(
        kernel_of({store(g, 0, tracker({n, 1}), i)}), {},
        {{0, tabulate(Int32, static_cast<size_t>(n), [](size_t e) { return e + 1; })}},
        {.opts = {"GROUP(0,16) UNROLL(0,4)", "GROUPTOP(0,16) UNROLL(0,0)", "UPCAST(0,3)", "GROUPTOP(0,32)"},
         .few_opts = n > 2000});
  }
}

TEST(Reductions, stores_alone_are_the_same_at_all_opts) {  // S2
  KernelBuilder k;
  k.store(0, where(k.load(1, Bool, {8, 32}), k.constant(Float, 1), k.constant(Float, 1)));
  expect_everywhere(k.build(), {{1, filled(Bool, 256, 0)}}, {{0, filled(Float, 256, 1)}},
                    {.opts = {"UPCAST(0,4)", "LOCAL(0,8) UPCAST(0,0)", "UPCAST(0,0)"}});
}

std::string refusal(const KernelGraph& kernel, const std::string& target, const std::string& opts) {
  try {
    compile(kernel, {.device = "INTERP", .target = target, .opts = opts});
  } catch (const OptError& e) {
    return e.what();
  }
  return {};
}

TEST(Reductions, are_padded_only_where_zeros_stay_zeros) {  // S3
  auto sum_of = [](const std::function<Value(const Value&)>& f) {
    KernelBuilder k;
    k.store(0, sum(f(k.load(1, Float, {17, 33})), {1}));
    return k.build();
  };
  const KernelGraph exponentials = sum_of([](const Value& v) { return exp2(v); });
  const KernelGraph roots = sum_of([](const Value& v) { return sqrt(v); });
  EXPECT_NE(refusal(exponentials, "opencl", "PADTO(1,32)"), "");
  EXPECT_EQ(refusal(exponentials, "opencl", "PADTO(0,32)"), "");
  EXPECT_EQ(refusal(roots, "opencl", "PADTO(1,32)"), "");
  const std::vector<std::string> opts = {
      "PADTO(0,32)",
      "PADTO(1,32)",
      "PADTO(1,32) GROUP(0,4)",
      "PADTO(1,32) GROUP(0,4) UPCAST(0,4)",
      "PADTO(0,32) UPCAST(0,4) UPCAST(0,2) PADTO(1,32)",
      "PADTO(1,32) UNROLL(0,4)",
  };
  const Elements in = tabulate(Float, size_t{17} * 33,
                               [](size_t i) { return static_cast<double>(i % 5) * static_cast<double>(i % 5); });
  expect_everywhere(roots, {{1, in}},
                    {{0, tabulate(Float, 17,
                                  [&](size_t r) {
                                    double total = 0;
                                    for (size_t c = 0; c < 33; ++c) total += static_cast<double>((r * 33 + c) % 5);
                                    return total;
                                  })}},
                    {.opts = opts});
  const Elements powers = tabulate(Float, size_t{17} * 33, [](size_t i) { return i % 5; });
  expect_everywhere(exponentials, {{1, powers}},
                    {{0, tabulate(Float, 17,
                                  [&](size_t r) {
                                    double total = 0;
                                    for (size_t c = 0; c < 33; ++c) total += std::exp2((r * 33 + c) % 5);
                                    return total;
                                  })}},
                    {.opts = opts});
}

TEST(Reductions, beyond_shared_memory_are_refused_as_opts) {  // S5
  KernelBuilder k;
  k.store(0, sum(k.load(1, Double, {1024, 1024}), {1}));
  const KernelGraph kernel = k.build();
  EXPECT_NE(refusal(kernel, "opencl", "LOCAL(0,32) GROUPTOP(0,256)"), "");  // 65536 bytes of 32768
  EXPECT_EQ(refusal(kernel, "opencl", "LOCAL(0,4) GROUPTOP(0,256)"), "");
}

TEST(Reductions, of_gathers_split_or_are_refused) {  // S5
  std::vector<Int128> picks, want;
  const int64_t size = 40;
  for (int i = 0; i < 32; ++i) picks.push_back((i * 7) % 45);
  std::vector<double> values;
  for (int i = 0; i < 32; ++i)
    values.push_back(static_cast<double>(picks[static_cast<size_t>(i)] < size ? picks[static_cast<size_t>(i)] + 1 : 0));
  expect_everywhere(
      gather(32, size, false),
      {{1, tabulate(Float, static_cast<size_t>(size), [](size_t i) { return i + 1; })}, {2, ints(Int32, picks)}},
      {{0, reals(Float, values)}}, {.opts = {"GROUPTOP(0,8)", "GROUPTOP(1,8)", "GROUP(1,4) GROUP(0,4)"}});
}

TEST(Reductions, of_reduces_of_reduces_are_exact) {
  KernelBuilder k;
  Value v = k.load(1, Int32, {6, 8, 4});
  k.store(0, max(sum(v, {2}), {1}) + sum(v, {1, 2}));
  const Elements in = tabulate(Int32, 192, [](size_t i) { return static_cast<int>((i * 37) % 101) - 50; });
  auto at = [&](size_t i, size_t j, size_t l) {
    return static_cast<int64_t>(int_of_const(Scalar::Int32, in.values[(i * 8 + j) * 4 + l]));
  };
  const Elements want = tabulate(Int32, 6, [&](size_t i) {
    int64_t best = INT32_MIN, total = 0;
    for (size_t j = 0; j < 8; ++j) {
      int64_t row = 0;
      for (size_t l = 0; l < 4; ++l) row += at(i, j, l);
      best = std::max(best, row);
      total += row;
    }
    return best + total;
  });
  expect_everywhere(k.build(), {{1, in}}, {{0, want}});
}

}  // namespace
}  // namespace quern
