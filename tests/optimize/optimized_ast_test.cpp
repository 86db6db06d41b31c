#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/spec.h"
#include "optimize/kernels.h"
#include "optimize/padding.h"

namespace quern {
namespace {

using namespace test;

const ReduceArg& reduce_arg(UOp reduce) { return *std::get<const ReduceArg*>(reduce.arg()); }
const Shape& viewed_shape(UOp buffer) {
  return std::get<const ShapeTracker*>(buffer.src(buffer.is(Op::Valid) ? 0 : 1).arg())->shape();
}

TEST(OptimizedAst, gives_every_buffer_its_view_in_the_new_shape) {
  Graph graph;
  Kernel kernel(matmul(graph, 64, 64, 64), find_target("opencl"));
  kernel.apply(parse_opts("LOCAL(0,8) UPCAST(1,4) UNROLL(0,4)"));
  ASSERT_EQ(axes_text(kernel), "g8 g16 l8 r16 u4 x4");
  const UOp ast = kernel.optimized_ast();
  EXPECT_EQ(ast.arg(), Arg(KernelInfo{1, 2, false}));
  for (UOp a : nodes_of(ast, Op::Load)) EXPECT_EQ(viewed_shape(a), (Shape{8, 16, 8, 16, 4, 4}));
  EXPECT_EQ(viewed_shape(ast.src(0)), (Shape{8, 16, 8, 1, 4, 1}));
  EXPECT_THAT(reduce_arg(nodes_of(ast, Op::ReduceAxis).at(0)).axes, testing::ElementsAre(3, 5));
}

TEST(OptimizedAst, is_the_ast_itself_but_for_views_where_nothing_is_applied) {
  Graph graph;
  const UOp ast = add_kernel(graph, {16});
  const UOp optimized = Kernel(ast, find_target("opencl")).optimized_ast();
  EXPECT_EQ(optimized.src(0), ast.src(0));
  EXPECT_EQ(optimized.arg(), Arg(KernelInfo{0, 0, false}));
}

TEST(OptimizedAst, says_when_there_are_no_locals) {
  Graph graph;
  Kernel kernel(add_kernel(graph, {16}), find_target("opencl"));
  kernel.apply(parse_opt("NOLOCALS"));
  EXPECT_EQ(kernel.optimized_ast().arg(), Arg(KernelInfo{0, 0, true}));
}

TEST(OptimizedAst, grouped_reduces_go_through_local_memory) {
  Graph graph;
  Kernel kernel(row_sums(graph, 64, 256), find_target("opencl"));
  kernel.apply(parse_opts("LOCAL(0,8) GROUP(0,16) UPCAST(0,2)"));
  ASSERT_EQ(axes_text(kernel), "g4 l8 G16 r16 u2");
  const UOp ast = kernel.optimized_ast();
  const UOp buffer = nodes_of(ast, Op::DefineLocal).at(0);
  EXPECT_EQ(*std::get<const LocalArg*>(buffer.arg()), (LocalArg{"temp1", 8 * 16 * 2}));
  const UOp second = ast.src(0).src(2);
  ASSERT_TRUE(second.is(Op::ReduceAxis));
  EXPECT_THAT(reduce_arg(second).axes, testing::ElementsAre(2));
  const UOp loaded = second.src(0);
  EXPECT_EQ(viewed_shape(loaded), (Shape{1, 8, 16, 1, 2}));
  const UOp first = loaded.src(2).src(2);
  ASSERT_TRUE(first.is(Op::ReduceAxis));
  EXPECT_THAT(reduce_arg(first).axes, testing::ElementsAre(3));
}

TEST(OptimizedAst, an_inner_grouped_reduce_gives_its_result_to_all_threads) {
  Graph graph;
  Kernel kernel(max_of_row_sums(graph, 4, 8, 64), find_target("opencl"));
  kernel.apply(parse_opts("GROUP(1,16)"));
  ASSERT_EQ(axes_text(kernel), "g4 G16 r8 r4");
  const UOp ast = kernel.optimized_ast();
  std::vector<std::pair<std::string, int64_t>> buffers;  // the result has memory of its own
  for (UOp buffer : nodes_of(ast, Op::DefineLocal)) {
    const LocalArg& local = *std::get<const LocalArg*>(buffer.arg());
    buffers.emplace_back(local.name, local.size);
  }
  EXPECT_THAT(buffers, testing::UnorderedElementsAre(testing::Pair("temp1", 16), testing::Pair("temp1r", 1)));
}

TEST(OptimizedAst, mid_reduce_upcasts_have_a_place_in_local_memory) {
  Graph graph;
  Kernel kernel(row_sums_of_images(graph, 1, 8, 64), find_target("qcom"));
  kernel.apply(parse_opts("GROUP(0,16) UPCASTMID(1,4)"));
  ASSERT_EQ(axes_text(kernel), "g8 G16 m4 r4");
  const UOp ast = kernel.optimized_ast();
  EXPECT_EQ(std::get<const LocalArg*>(nodes_of(ast, Op::DefineLocal).at(0).arg())->size, 16 * 4);
}

// A sum of sums is padded on the axis of the inner one; the outer reduce must not see the padding of its own axis as zeros.
TEST(OptimizedAst, padding_changes_no_reduce) {
  Graph graph;
  const Target& opencl = find_target("opencl");
  Kernel sums(row_sums(graph, 64, 250), opencl);
  sums.apply(parse_opt("PADTO(1,32)"));
  EXPECT_TRUE(nodes_of(sums.optimized_ast(), Op::Valid).empty());  // the loads are masked

  Kernel maximum(max_of_row_sums(graph, 64, 30, 250), opencl);
  maximum.apply(parse_opt("PADTO(1,32)"));
  const UOp ast = maximum.optimized_ast();
  ASSERT_EQ(axes_text(maximum), "g64 r32 r250");
  const std::vector<UOp> masks = nodes_of(ast, Op::Valid);
  ASSERT_EQ(masks.size(), 1u);
  const UOp guarded = ast.src(0).src(2).src(0);
  ASSERT_TRUE(guarded.is(Op::Where));
  EXPECT_EQ(guarded.src(0), masks[0]);
  EXPECT_EQ(viewed_shape(masks[0]), (Shape{64, 32, 1}));
  EXPECT_EQ(guarded.src(2).const_float(), -std::numeric_limits<double>::infinity());
}

TEST(Padding, is_zero_only_through_ops_that_keep_it) {
  Graph graph;
  const UOp a = load(graph, 1, Scalar::Float, tracker({4})), b = load(graph, 2, Scalar::Float, tracker({4}));
  const UOp one = graph.const_float(Scalar::Float, 1), zero = graph.const_float(Scalar::Float, 0);
  const UOp valid = graph.node(Op::Valid, Scalar::Bool, {graph.view(tracker({4}))});
  const UOp n = load(graph, 3, Scalar::Int32, tracker({4}));
  for (UOp keeps : {a, a + b, a * b, a.alu(Op::Sin), a.lt(b), valid.where(one, zero), a.max(zero), n * 3,
                    reduce(Op::Add, a, {0}), a * valid.where(one, zero)})
    EXPECT_TRUE(is_zero_in_padding(keeps)) << to_string(keeps.op());
  for (UOp loses : {a + one, a * one, a.alu(Op::Exp2), a.alu(Op::Recip), a.ne(one), valid.where(zero, one), n + 3,
                    reduce(Op::Max, a, {0}), reduce(Op::Add, a + one, {0})})
    EXPECT_FALSE(is_zero_in_padding(loses)) << to_string(loses.op());
}

}  // namespace
}  // namespace quern
