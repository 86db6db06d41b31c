// Cumulative sums and the like: which reduces become accumulators that run through a loop, and what they then look like. Their values
// are tested in tests/device/reductions_test.cpp.
#include "lower/scans.h"

#include <cmath>

#include <gtest/gtest.h>

#include "lower/kernels.h"

namespace quern {
namespace {

using namespace test;

constexpr const char* kScan = "for acc for load store endfor endfor";
constexpr const char* kReduce = "for for acc for load endfor store endfor endfor";

/// The `window` elements up to and with each of `turns` elements of a row, those before the row padded: (rows, turns, window).
ShapeTracker windows(int64_t rows, int64_t turns, int64_t window, int64_t shift = 0) {
  const int64_t lead = window - 1 + shift, width = turns + window - 1;
  const View padded = make_view({rows, width}, {turns, 1}, -lead, Mask{{0, rows}, {lead, width}});
  return {{padded, make_view({rows, turns, window}, {width, 1, 1})}};
}

UOp scan_of_rows(Graph& g, int64_t rows, int64_t turns, int64_t window, int64_t shift = 0, Op op = Op::Add) {
  UOp x = load(g, 1, Scalar::Float, windows(rows, turns, window, shift));
  return stored(reduce(x, op, {2}), {rows, turns, 1});
}

std::string outline_of(UOp ast, std::string_view opts = "", std::string_view target = "cpu:avx512") {
  return outline(lowered(ast, target, opts));
}

TEST(Scans, run_through_the_loop_over_a_row) {
  Graph g;
  EXPECT_EQ(outline_of(scan_of_rows(g, 3, 8, 8)), kScan);
  EXPECT_EQ(outline_of(scan_of_rows(g, 3, 8, 8, 1)), kScan) << "without the element itself";
  EXPECT_EQ(outline_of(scan_of_rows(g, 3, 5, 8)), kScan) << "a window longer than the row";
  EXPECT_EQ(outline_of(scan_of_rows(g, 3, 8, 8), "UPCAST(0,3)"), "acc for load load load store store store endfor");
}

TEST(Scans, are_for_cpu_targets) {
  Graph g;
  EXPECT_EQ(outline_of(scan_of_rows(g, 3, 8, 8), "", "llvm"), kReduce);
  EXPECT_EQ(outline_of(scan_of_rows(g, 3, 8, 8), "", "opencl"), "acc for load endfor store");
}

TEST(Scans, need_a_window_that_only_grows) {
  Graph g;
  EXPECT_EQ(outline_of(scan_of_rows(g, 3, 9, 8)), kReduce) << "the last window leaves an element out";
  const ShapeTracker full{{make_view({3, 8, 8}, {15, 1, 1})}};
  EXPECT_EQ(outline_of(stored(reduce(load(g, 1, Scalar::Float, full), Op::Add, {2}), {3, 8, 1})), kReduce)
      << "the first window is full";
}

TEST(Scans, need_padding_that_is_the_identity) {
  Graph g;
  EXPECT_EQ(outline_of(scan_of_rows(g, 3, 8, 8, 0, Op::Max)), kReduce) << "a maximum with zeros";
  UOp valid = g.node(Op::Valid, Scalar::Bool, {g.view(windows(3, 8, 8))});
  UOp x = load(g, 1, Scalar::Float, windows(3, 8, 8)) +
          valid.where(g.const_float(Scalar::Float, 0), g.const_float(Scalar::Float, -INFINITY));
  EXPECT_EQ(outline_of(stored(reduce(x, Op::Max, {2}), {3, 8, 1})), kScan);
}

TEST(Scans, need_the_innermost_loop) {
  Graph g;
  // Down the columns of (8, 32).
  const View padded = make_view({15, 32}, {32, 1}, -7 * 32, Mask{{7, 15}, {0, 32}});
  const ShapeTracker down{{padded, make_view({8, 32, 8}, {32, 1, 32})}};
  UOp ast = stored(reduce(load(g, 1, Scalar::Float, down), Op::Add, {2}), {8, 32, 1});
  EXPECT_EQ(outline_of(ast), kReduce);
  EXPECT_EQ(outline_of(ast, "SWAP(0,1)"), kScan);
  EXPECT_EQ(outline_of(ast, "UPCAST(1,32)"), "acc acc for load16 store16 load16 store16 endfor");
  Kernel kernel(ast, find_target("cpu:avx512"));
  kernel.cpu_optimizations();
  EXPECT_EQ(to_string(kernel.applied_opts()), "UPCAST(1,32)");
}

TEST(Scans, do_not_read_what_the_kernel_writes) {
  Graph g;
  UOp x = load(g, 0, Scalar::Float, windows(3, 8, 8));
  EXPECT_EQ(outline_of(stored(reduce(x, Op::Add, {2}), {3, 8, 1})), kReduce);
}

TEST(Scans, are_left_alone_by_the_heuristics_but_for_rows) {
  Graph g;
  Kernel rows(scan_of_rows(g, 16, 64, 64), find_target("cpu:avx512"));
  rows.cpu_optimizations();
  EXPECT_EQ(to_string(rows.applied_opts()), "UPCAST(0,8)");
  Kernel long_rows(scan_of_rows(g, 4096, 256, 256), find_target("cpu:avx512"));
  long_rows.cpu_optimizations();
  EXPECT_EQ(to_string(long_rows.applied_opts()), "UPCAST(0,8) THREAD(0,8)");
}

TEST(Scans, go_on_to_what_uses_them) {
  Graph g;
  UOp sums = reduce(load(g, 1, Scalar::Float, windows(3, 8, 8)), Op::Add, {2});
  UOp y = load(g, 2, Scalar::Float, tracker({3, 8, 1}));
  EXPECT_EQ(outline_of(stored(sums * y, {3, 8, 1})), "for acc for load load store endfor endfor");
}

}  // namespace
}  // namespace quern
