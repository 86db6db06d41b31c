// What the lanes of CPUs with vectors become, seen in the outline of the linear program. That the values are right is shown on
// devices (tests/device).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/spec.h"
#include "lower/kernels.h"

namespace quern {
namespace {

using namespace test;

TEST(PackVectors, makes_wide_accesses_and_accumulators) {
  struct Case {
    const char* what;
    UOp (*ast)(Graph&);
    const char* opts;
    const char* outline;
  };
  for (const Case& c : std::vector<Case>{
           {"a tile of a matmul: each row's element is shared by its vectors",
            [](Graph& g) { return matmul(g, 64, 64, 64, Scalar::Float, Scalar::Float); }, "UPCAST(0,2) UPCAST(1,32)",
            "for for acc acc acc acc for load load16 load16 load endfor store16 store16 store16 store16 endfor endfor"},
           {"partial sums", [](Graph& g) { return row_sums(g, 4, 256); }, "RFACTOR(0,32)",
            "for acc acc for load16 load16 endfor store endfor"},
           {"fewer lanes than a register has", [](Graph& g) { return row_sums(g, 4, 256); }, "RFACTOR(0,8)",
            "for acc for load8 endfor store endfor"},
           {"too few lanes stay scalars", [](Graph& g) { return row_sums(g, 4, 256); }, "RFACTOR(0,2)",
            "for acc acc for load load endfor store endfor"},
           {"the rest of a run is a vector of which some lanes are masked off",
            [](Graph& g) {
              return stored(load(g, 1, Scalar::Float, tracker({4, 30})) * g.const_float(Scalar::Float, 2), {4, 30});
            },
            "UPCAST(0,30)", "for load16 store16 load16 store16 endfor"},
           {"backwards",
            [](Graph& g) { return stored(load(g, 1, Scalar::Float, {{make_view({64}, {-1}, 63)}}), {64}); },
            "UPCAST(0,16)", "for load16 store16 endfor"},
           {"8-byte elements", [](Graph& g) { return stored(load(g, 1, Scalar::Double, tracker({64})), {64}); },
            "UPCAST(0,16)", "for load8 store8 load8 store8 endfor"},
           {"what jumps about is loaded one by one",
            [](Graph& g) { return stored(load(g, 1, Scalar::Float, {{make_view({16}, {3})}}), {16}); }, "UPCAST(0,4)",
            "for load load load load store4 endfor"},
       }) {
    Graph graph;
    LinearProgram program = lowered(c.ast(graph), "cpu:avx512", c.opts);
    verify(program.uops, Spec::LinearVectors);
    EXPECT_EQ(outline(program), c.outline) << c.what;
  }
}

TEST(PackVectors, loads_the_padding_of_no_buffer) {
  Graph graph;
  // 8 elements behind a border of 4 on each side: the outer lanes are gated off, not loaded.
  const Mask inside{{4, 12}};
  const View padded = make_view({16}, {1}, -4, inside);
  LinearProgram program =
      lowered(stored(load(graph, 1, Scalar::Float, {{padded}}), {16}), "cpu:avx512", "UPCAST(0,16)");
  verify(program.uops, Spec::LinearVectors);
  const std::vector<UOp> loads = all(program, Op::Load);
  ASSERT_EQ(loads.size(), 1u) << outline(program);
  ASSERT_EQ(loads[0].num_src(), 3u);
  std::string gate;
  for (UOp lane : loads[0].src(2).src()) gate += lane.is_const_int(1) ? '1' : '0';
  EXPECT_EQ(gate, "0000111111110000");
}

TEST(PackVectors, combines_partial_results_on_vectors) {
  Graph graph;
  LinearProgram program = lowered(row_sums(graph, 4, 256), "cpu:avx512", "RFACTOR(0,64)");
  size_t wide = 0, narrow = 0;
  for (UOp u : all(program, Op::Add))
    if (u.dtype().is_float()) ++(u.dtype().count == 16 ? wide : narrow);
  EXPECT_EQ(wide, 4u + 3u);  // four accumulators, folded to one
  EXPECT_EQ(narrow, 15u);    // whose lanes are added up
}

TEST(PackVectors, has_vectors_for_outputs_that_share_combined_results) {
  Graph g;
  const auto x = [&](const Shape& shape, std::vector<SInt> strides) {
    return load(g, 1, Scalar::Float, {{make_view(shape, std::move(strides))}});
  };
  // Each row by its sum: axes rows, columns, those of the sum.
  UOp sum = reduce(x({4, 64, 64}, {64, 0, 1}), Op::Add, {2});
  UOp ast = stored(x({4, 64, 1}, {64, 1, 0}) * sum, {4, 64, 1});
  EXPECT_EQ(outline(lowered(ast, "cpu:avx512", "RFACTOR(0,16) UPCAST(1,16)")),
            "for acc for load16 endfor for load16 store16 endfor endfor");
}

TEST(PackVectors, transposes_squares_in_registers) {
  Graph graph;
  const ShapeTracker columns{{make_view({32, 64}, {1, 32})}};
  LinearProgram program =
      lowered(stored(load(graph, 1, Scalar::Float, columns), {32, 64}), "cpu:avx512", "UPCAST(0,16) UPCAST(1,16)");
  verify(program.uops, Spec::LinearVectors);
  size_t loads = 0, stores = 0, shuffles = 0;
  for (UOp u : program.uops) {
    loads += u.is(Op::Load) && u.dtype().count == 16 ? 1 : 0;
    stores += u.is(Op::Store) && u.src(1).dtype().count == 16 ? 1 : 0;
    shuffles += u.is(Op::Vectorize) ? 1 : 0;
    EXPECT_FALSE(u.is(Op::Load) && u.dtype().count == 1);
  }
  EXPECT_EQ(loads, 16u);
  EXPECT_EQ(stores, 16u);
  EXPECT_EQ(shuffles, 64u);  // 16 in each of four steps
}

TEST(PackVectors, fills_scratch_before_the_loop_that_reads_it) {
  Graph graph;
  LinearProgram program = lowered(matmul(graph, 64, 64, 64, Scalar::Float, Scalar::Float), "cpu:avx512",
                                  "UPCAST(1,16) SWAP(0,1) PACK(1,2)");
  verify(program.uops, Spec::LinearVectors);
  EXPECT_EQ(outline(program),
            "for for load16 store16 endfor barrier for acc for load load16 endfor store16 endfor barrier endfor");
}

TEST(PackVectors, makes_dot_products_where_there_are_instructions) {
  const auto count = [](Scalar in, Scalar out, const char* target, const char* opts) {
    Graph graph;
    LinearProgram program = lowered(widening_matmul(graph, 8, 64, 64, in, out), target, opts);
    verify(program.uops, Spec::LinearVectors);
    return std::ranges::count_if(program.uops, [](UOp u) { return u.is(Op::Wmma); });
  };
  using enum Scalar;
  const char* eights = "UPCAST(0,2) UPCAST(1,32) UNROLL(0,8)";
  EXPECT_EQ(count(Int8, Int32, "cpu:avx512bf16", eights),
            12);  // 2 rows and the excess, 2 vectors each, 4 of 8 steps each
  EXPECT_EQ(count(Int8, Int32, "cpu:avx512vnni", eights), 12);
  EXPECT_EQ(count(Int8, Int32, "cpu:avx512", eights), 0);
  EXPECT_EQ(count(BFloat16, Float, "cpu:avx512bf16", eights), 16);
  EXPECT_EQ(count(BFloat16, Float, "cpu:avx512vnni", eights), 0);
  EXPECT_EQ(count(UInt8, UInt32, "cpu:avx512bf16", eights), 0);  // there is none for two without sign
  EXPECT_EQ(count(Int8, Int32, "cpu:avx512bf16", "UPCAST(0,2) UPCAST(1,32) UNROLL(0,2)"), 0);
  EXPECT_EQ(count(Int8, Int32, "cpu:avx512bf16", "UPCAST(1,8) UNROLL(0,4)"), 2);
}

TEST(PackVectors, zips_lanes_that_alternate_between_runs) {
  Graph graph;
  // Two halves of a buffer, an element of each in turn.
  LinearProgram program = lowered(stored(load(graph, 1, Scalar::Float, {{make_view({32, 2}, {1, 32})}}), {32, 2}),
                                  "cpu:avx512", "UPCAST(0,16) UPCAST(1,2)");
  verify(program.uops, Spec::LinearVectors);
  EXPECT_EQ(outline(program), "for load8 load8 store16 load8 load8 store16 endfor");
}

TEST(PackVectors, leaves_other_targets_alone) {
  Graph graph;
  LinearProgram program = lowered(stored(load(graph, 1, Scalar::Float, tracker({64})), {64}), "llvm", "UPCAST(0,4)");
  EXPECT_EQ(outline(program), "for load store load store load store load store endfor");
}

}  // namespace
}  // namespace quern
