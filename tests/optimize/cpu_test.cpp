// CPUs that Quern lays out itself: their opts, and what the heuristics make of common kernels.
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/error.h"

#include "optimize/kernels.h"

namespace quern {
namespace {

using namespace test;

using Build = std::function<UOp(Graph&)>;

UOp sums_64_256(Graph& g) { return row_sums(g, 64, 256); }
UOp matmul_64(Graph& g) { return matmul(g, 64, 64, 64); }

TEST(CpuOpts, change_the_axes) {
  struct Case {
    Build ast;
    const char* opts;
    const char* axes;
  };
  for (const Case& c : std::vector<Case>{
           {matmul_64, "THREAD(0,4)", "t4 g16 g64 r64"},
           {matmul_64, "THREAD(1,16)", "t16 g64 g4 r64"},
           {matmul_64, "THREAD(0,0)", "t64 g64 r64"},
           {matmul_64, "UPCAST(0,4) UPCAST(1,64) THREAD(0,2)", "t2 g8 r64 u4 u64"},
           {sums_64_256, "RFACTOR(0,16)", "g64 r16 p16"},
           {sums_64_256, "RFACTOR(0,64) UPCAST(0,4)", "g16 r4 p64 u4"},
           {sums_64_256, "RFACTOR(0,16) UNROLL(0,2)", "g64 r8 p16 x2"},
           {[](Graph& g) { return row_sums(g, 4, 16); }, "RFACTOR(0,0)", "g4 p16"},
           {[](Graph& g) { return row_sums(g, 4, 250, Scalar::Float, Op::Max); }, "PADTO(1,32) RFACTOR(0,32)",
            "g4 r8 p32"},
           {matmul_64, "PACK(0,2)", "g64 g64 r64"},
           {matmul_64, "UPCAST(1,16) SWAP(0,1) PACK(1,2) THREAD(0,2)", "t2 g2 g64 r64 u16"},
           {matmul_64, "PACK(1,1) PACK(0,2)", "g64 g64 r64"},
           {matmul_64, "PACK(1,1) THREAD(0,0)", "t64 g64 r64"},
       }) {
    Graph graph;
    Kernel kernel(c.ast(graph), find_target("cpu:avx512"));
    kernel.apply(parse_opts(c.opts));
    EXPECT_EQ(axes_text(kernel), c.axes) << c.opts;
    EXPECT_EQ(to_string(kernel.applied_opts()), c.opts);
  }
}

/// x[r, c] less the row's largest, by the row's sum of such differences: axes rows, columns, those of the sum, those of the maximum.
UOp normalized_rows(Graph& g, int64_t rows, int64_t columns) {
  const auto x = [&](const Shape& shape, std::vector<SInt> strides) {
    return load(g, 1, Scalar::Float, {{make_view(shape, std::move(strides))}});
  };
  const auto largest = [&](int64_t for_sum) {
    return reduce(Op::Max, x({rows, columns, for_sum, columns}, {columns, 0, 0, 1}), {3});
  };
  UOp sum = reduce(Op::Add, x({rows, columns, columns, 1}, {columns, 0, 1, 0}) - largest(columns), {2});
  UOp out = (x({rows, columns, 1, 1}, {columns, 1, 0, 0}) - largest(1)) * sum;
  return stored(out, {rows, columns, 1, 1});
}

TEST(CpuHeuristics, give_each_pass_over_a_row_its_lanes) {
  struct Case {
    int64_t rows, columns;
    const char* opts;
  };
  for (const Case& c : std::vector<Case>{{4, 256, "RFACTOR(1,64) RFACTOR(0,64) UPCAST(1,64)"},
                                         {4, 24, "RFACTOR(1,24) RFACTOR(0,24) UPCAST(1,24)"},
                                         {4, 1000, "RFACTOR(1,40) RFACTOR(0,40) UPCAST(1,40)"},
                                         {4, 1001,
                                          "PADTO(3,64) RFACTOR(1,64) PADTO(2,64) RFACTOR(0,64) PADTO(1,64) "
                                          "UPCAST(1,64)"},
                                         {1024, 1024, "RFACTOR(1,64) RFACTOR(0,64) UPCAST(1,64) THREAD(0,16)"},
                                         {4, 27,
                                          "PADTO(3,16) RFACTOR(1,16) PADTO(2,16) RFACTOR(0,16) PADTO(1,16) "
                                          "UPCAST(1,16)"}}) {
    Graph g;
    Kernel kernel(normalized_rows(g, c.rows, c.columns), find_target("cpu:avx512"));
    kernel.cpu_optimizations();
    EXPECT_EQ(to_string(kernel.applied_opts()), c.opts) << c.rows << " x " << c.columns;
  }
}

TEST(CpuOpts, are_refused_with_the_reason) {
  using enum OptOp;
  struct Case {
    const char* target;
    const char* before;
    Opt opt;
    const char* why;
  };
  for (const Case& c : std::vector<Case>{
           {"opencl", "", {THREAD, 0, 4}, "the target has no threads to share an axis out among"},
           {"llvm", "", {THREAD, 0, 4}, "the target has no threads"},
           {"llvm", "", {RFACTOR, 0, 4}, "the target has no vectors to keep partial results in"},
           {"cpu:avx512", "", {THREAD, 2, 4}, "axis 2 is not global: threads are for globals"},
           {"cpu:avx512", "", {THREAD, 0, 5}, "5 does not divide axis 0 of size 64"},
           {"cpu:avx512", "THREAD(0,4)", {THREAD, 1, 4}, "an axis is shared out among threads already"},
           {"cpu:avx512", "THREAD(0,4)", {UPCAST, 0, 2}, "axis 0 is shared out among threads already"},
           {"cpu:avx512", "THREAD(0,4)", {SWAP, 0, 1}, "axis 0 is shared out among threads already"},
           {"cpu:avx512", "THREAD(0,4)", {PADTO, 0, 3}, "axis 0 is shared out among threads already"},
           {"cpu:avx512", "RFACTOR(0,16)", {RFACTOR, 1, 4}, "axis 3 is not a reduce loop"},
           {"cpu:avx512", "", {LOCAL, 0, 4}, "the target has no locals"},
           {"llvm", "", {PACK, 0, 2}, "the target has no vectors to pack an operand for"},
           {"cpu:avx512", "", {PACK, 0, 0}, "the kernel writes data0"},
           {"cpu:avx512", "", {PACK, 0, 7}, "the kernel reads no data7"},
           {"cpu:avx512", "", {PACK, 0, 1}, "data1 moves along axis 0"},
           {"cpu:avx512", "", {PACK, 2, 1}, "axis 2 is not global"},
           {"cpu:avx512", "PACK(0,2)", {PACK, 0, 2}, "data2 is packed already"},
           {"cpu:avx512", "PACK(0,2)", {UPCAST, 0, 2}, "an operand is packed: only PACK and THREAD go with that"},
           {"cpu:avx512",
            "PACK(0,2)",
            {THREAD, 0, 0},
            "nothing would be left of axis 0, inside of which data2 is packed"},
       }) {
    Graph graph;
    Kernel kernel(matmul_64(graph), find_target(c.target));
    kernel.apply(parse_opts(c.before));
    const Kernel before = kernel;
    const std::optional<std::string> why = kernel.try_apply(c.opt);
    ASSERT_TRUE(why) << to_string(c.opt);
    EXPECT_THAT(*why, testing::HasSubstr(c.why)) << to_string(c.opt);
    EXPECT_EQ(kernel, before);
  }
}

TEST(CpuHeuristics, find_the_lanes) {
  struct Case {
    const char* what;
    Build ast;
    const char* target;
    const char* axes;
  };
  const auto by_transposed = [](Graph& g) {
    const ShapeTracker rows{{make_view({512, 512, 512}, {512, 0, 1})}},
        columns{{make_view({512, 512, 512}, {0, 512, 1})}};
    const UOp product = load(g, 1, Scalar::Float, rows) * load(g, 2, Scalar::Float, columns);
    return stored(reduce(Op::Add, product, {2}), {512, 512, 1});
  };
  const auto transposed = [](Graph& g) {
    return stored(load(g, 1, Scalar::Float, {{make_view({64, 64}, {1, 64})}}), {64, 64});
  };
  for (const Case& c : std::vector<Case>{
           {"a tile of vectors", [](Graph& g) { return matmul(g, 256, 256, 256); }, "cpu:avx512", "t64 g4 r256 u4 u64"},
           {"a smaller tile for fewer registers", [](Graph& g) { return matmul(g, 256, 256, 256); }, "cpu:avx2",
            "t64 g11 r256 u4 u24"},
           {"lanes along the reduce where that is contiguous", sums_64_256, "cpu:avx512", "g64 r4 p64"},
           {"a matrix by a vector: rows share the vector", [](Graph& g) { return matvec(g, 64, 64); }, "cpu:avx512",
            "g16 r2 p32 u4"},
           {"lanes along the outputs where the reduce jumps",
            [](Graph& g) {
              return stored(reduce(Op::Add, load(g, 1, Scalar::Float, {{make_view({64, 256}, {1, 64})}}), {1}),
                            {64, 1});
            },
            "cpu:avx512", "r256 u64"},
           {"a tail that costs little is padded", [](Graph& g) { return row_sums(g, 4, 1000, Scalar::Float, Op::Max); },
            "cpu:avx512", "g4 r16 p64"},
           {"elements", [](Graph& g) { return add_kernel(g, {1 << 22}); }, "cpu:avx512", "t32 g2048 u64"},
           {"smaller squares where larger ones do not divide",
            [](Graph& g) { return stored(load(g, 1, Scalar::Float, {{make_view({24, 40}, {1, 24})}}), {24, 40}); },
            "cpu:avx512", "g3 g5 u8 u8"},
           {"squares to transpose", transposed, "cpu:avx512", "g4 g4 u16 u16"},
           {"an operand that jumps along the lanes is packed, inside of its rows", by_transposed, "cpu:avx512",
            "t8 g128 r512 u4 u64"},
           {"an operand whose rows are whole pages apart is packed",
            [](Graph& g) { return matmul(g, 1024, 1024, 1024); }, "cpu:avx512", "t16 g256 r1024 u4 u64"},
           {"steps of a dot product are unrolled, and packed",
            [](Graph& g) { return widening_matmul(g, 512, 512, 512, Scalar::Int8, Scalar::Int32); }, "cpu:avx512bf16",
            "t8 g128 r128 u4 u64 x4"},
           {"without an instruction for it they are not",
            [](Graph& g) { return widening_matmul(g, 512, 512, 512, Scalar::BFloat16, Scalar::Float); },
            "cpu:avx512vnni", "t64 g8 g2 r512 u4 u64"},
           {"too small for threads", [](Graph& g) { return add_kernel(g, {64}); }, "cpu:avx512", "u64"},
       }) {
    Graph graph;
    Kernel kernel(c.ast(graph), find_target(c.target));
    kernel.cpu_optimizations();
    EXPECT_EQ(axes_text(kernel), c.axes) << c.what << ": " << to_string(kernel.applied_opts());
    // The list says it all.
    Kernel again(c.ast(graph), find_target(c.target));
    again.apply(kernel.applied_opts());
    EXPECT_EQ(again, kernel) << c.what;
  }
}

TEST(CpuHeuristics, are_the_references_where_those_are_asked_for) {
  Graph graph;
  UOp ast = matmul_64(graph);
  EXPECT_EQ(optimize(ast, find_target("cpu:avx512"), {.opts = "reference"}).applied_opts(),
            optimize(ast, find_target("llvm"), {.opts = "heuristic"}).applied_opts());
}

TEST(CpuActions, are_those_of_the_target) {
  Graph graph;
  const Kernel kernel(matmul_64(graph), find_target("cpu:avx512"));
  bool threads = false;
  for (int number : legal_actions(kernel)) {
    const Opt& action = actions_for(kernel.target())[static_cast<size_t>(number) - 1];
    threads |= action.op == OptOp::THREAD;
    Kernel changed = kernel;
    EXPECT_EQ(changed.try_apply(action), std::nullopt) << to_string(action);
  }
  EXPECT_TRUE(threads);
  EXPECT_EQ(&actions_for(find_target("llvm")), &search_actions());
}

TEST(CpuActions, vary_one_opt_of_a_list) {
  Graph graph;
  Kernel kernel(matmul_64(graph), find_target("cpu:avx512"));
  kernel.apply(parse_opts("UPCAST(0,4) UPCAST(1,16)"));
  std::vector<std::string> lists;
  for (const Kernel& varied : variations(kernel)) lists.push_back(to_string(varied.applied_opts()));
  EXPECT_THAT(lists, testing::IsSupersetOf(
                         {"UPCAST(0,8) UPCAST(1,16)", "UPCAST(0,4) UPCAST(1,64)", "UPCAST(1,16)", "UPCAST(0,4)"}));
  // Not the same list again, no amount that does not divide, no more lanes than may be.
  for (const char* not_one : {"UPCAST(0,4) UPCAST(1,16)", "UPCAST(0,3) UPCAST(1,16)", "UPCAST(0,32) UPCAST(1,16)"})
    EXPECT_THAT(lists, testing::Not(testing::Contains(not_one)));
}

}  // namespace
}  // namespace quern
