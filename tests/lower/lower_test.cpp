// What kernels become, stage by stage, seen in the outline of the linear program.
#include <ctime>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/spec.h"
#include "ir/text.h"
#include "lower/kernels.h"

namespace quern {
namespace {

using namespace test;
using testing::HasSubstr;
using testing::Not;

TEST(Lower, gives_each_target_the_axes_it_has) {
  struct Case {
    const char *target, *opts, *launch, *outline;
  };
  for (const auto& [target, opts, dims, flow] : std::vector<Case>{
           {"clang", "", "", "for acc for load endfor store endfor"},
           {"opencl", "", "gidx0:64", "acc for load endfor store"},
           {"opencl", "NOLOCALS", "idx0:64", "acc for load endfor store"},
           {"opencl", "LOCAL(0,8)", "gidx0:8 lidx0:8", "acc for load endfor store"},
           {"clang", "UPCAST(0,2) UNROLL(0,4)", "", "for acc acc for load4 load4 endfor store2 endfor"},
           {"llvm", "UPCAST(0,2)", "", "for acc acc for load load endfor store store endfor"},
       }) {
    Graph graph;
    LinearProgram program = lowered(row_sums(graph, 64, 128), target, opts);
    verify(program.uops, Spec::Linear);
    EXPECT_EQ(launch(program), dims) << target << " " << opts;
    EXPECT_EQ(outline(program), flow) << target << " " << opts;
  }
}

TEST(Lower, numbers_global_dims_from_the_last_axis) {
  Graph graph;
  ShapeTracker transposed = {{make_view({4, 6}, {1, 4})}};
  LinearProgram program = lowered(stored(load(graph, 1, Scalar::Float, transposed), {4, 6}), "opencl");
  EXPECT_EQ(launch(program), "gidx0:6 gidx1:4");
}

TEST(Lower, reduces_a_group_under_the_barrier_in_one_thread) {
  Graph graph;
  LinearProgram program = lowered(row_sums(graph, 64, 128), "opencl", "GROUP(0,8)");
  EXPECT_EQ(launch(program), "gidx0:64 lidx0:8");
  EXPECT_EQ(outline(program), "acc for load endfor store barrier if acc for load endfor store endif");
}

TEST(Lower, starts_an_accumulator_from_the_identity_of_its_type) {
  struct Case {
    Scalar type;
    Op op;
    Int128 start;
  };
  for (const auto& [type, op, start] : std::vector<Case>{{Scalar::Int8, Op::Max, -128},
                                                         {Scalar::UInt16, Op::Max, 0},
                                                         {Scalar::Int64, Op::Max, min_value(Scalar::Int64)},
                                                         {Scalar::Bool, Op::Max, 0},
                                                         {Scalar::Int32, Op::Mul, 1},
                                                         {Scalar::Int32, Op::Add, 0}}) {
    Graph graph;
    LinearProgram program = lowered(row_sums(graph, 4, 128, type, op), "clang");
    EXPECT_EQ(all(program, Op::DefineAcc).at(0).src(0).const_int(), start) << to_string(type) << to_string(op);
  }
  Graph graph;
  LinearProgram program = lowered(row_sums(graph, 4, 128, Scalar::Float, Op::Max), "clang");
  EXPECT_EQ(all(program, Op::DefineAcc).at(0).src(0).const_float(), -std::numeric_limits<double>::infinity());
}

TEST(Lower, nests_a_reduce_in_the_loop_of_the_reduce_that_takes_it) {
  Graph graph;
  UOp sums = reduce(load(graph, 1, Scalar::Float, tracker({4, 100, 100})), Op::Add, {2});
  LinearProgram program = lowered(stored(reduce(sums, Op::Max, {1}), {4, 1, 1}), "clang");
  EXPECT_EQ(outline(program), "for acc for acc for load endfor endfor store endfor");
}

TEST(Lower, waits_at_the_end_of_a_turn_that_fills_local_memory) {
  Graph graph;
  UOp sums = reduce(load(graph, 1, Scalar::Float, tracker({4, 100, 32})), Op::Add, {2});
  LinearProgram program = lowered(stored(reduce(sums, Op::Max, {1}), {4, 1, 1}), "opencl", "GROUP(1,0)");
  verify(program.uops, Spec::Linear);
  EXPECT_EQ(launch(program), "gidx0:4 lidx0:32");
  std::string flow = outline(program);
  EXPECT_THAT(flow, HasSubstr("for load store barrier"));  // each turn the threads store what they have
  EXPECT_THAT(flow, HasSubstr("barrier endfor if store endif"));
}

TEST(Lower, shares_a_loop_between_reduces_that_do_not_need_each_other) {
  Graph graph;
  ShapeTracker st = tracker({4, 128});
  UOp sum = reduce(load(graph, 1, Scalar::Float, st), Op::Add, {1}),
      most = reduce(load(graph, 2, Scalar::Float, st), Op::Max, {1});
  LinearProgram program = lowered(stored(sum + most, {4, 1}), "clang");
  EXPECT_THAT(outline(program), HasSubstr("acc acc for load load endfor store endfor"));
}

TEST(Lower, does_a_reduce_once_that_values_of_different_shapes_read) {
  Graph g;
  // Less the row's mean, at each element and in a sum: axes rows, columns, those of the sum, those of the mean.
  const auto x = [&](const Shape& shape, std::vector<SInt> strides) {
    return load(g, 1, Scalar::Float, {{make_view(shape, std::move(strides))}});
  };
  UOp in_sum = reduce(x({4, 8, 8, 8}, {8, 0, 0, 1}), Op::Add, {3});
  UOp in_output = reduce(x({4, 8, 1, 8}, {8, 0, 0, 1}), Op::Add, {3});
  UOp sum = reduce(x({4, 8, 8, 1}, {8, 0, 1, 0}) * in_sum, Op::Add, {2});
  UOp ast = stored(x({4, 8, 1, 1}, {8, 1, 0, 0}) * in_output * sum, {4, 8, 1, 1});
  EXPECT_EQ(outline(lowered(ast, "llvm")), "for acc for load endfor acc for load endfor for load store endfor endfor");
}

TEST(Lower, widens_only_aligned_neighbours_of_float_and_half_where_the_target_can) {
  struct Case {
    const char* target;
    Scalar type;
    int64_t offset;
    const char* flow;
  };
  for (const auto& [target, type, offset, flow] : std::vector<Case>{
           {"clang", Scalar::Float, 0, "for load4 store4 endfor"},
           {"clang", Scalar::Half, 8, "for load4 store4 endfor"},
           {"clang", Scalar::Float, 2, "for load2 load2 store4 endfor"},
           {"clang", Scalar::Float, 1, "for load load2 load store4 endfor"},
           {"clang", Scalar::Int32, 0, "for load store load store load store load store endfor"},
           {"llvm", Scalar::Float, 0, "for load store load store load store load store endfor"},
       }) {
    Graph graph;
    ShapeTracker st = {{make_view({64}, {1}, offset)}};
    LinearProgram program = lowered(stored(load(graph, 1, type, st), {64}), target, "UPCAST(0,4)");
    EXPECT_EQ(outline(program), flow) << target << " " << to_string(type) << " " << offset;
  }
}

TEST(Lower, loads_under_a_mask_only_where_it_holds) {
  Graph graph;
  ShapeTracker padded = pad(tracker({60}), Mask{{2, 2}});
  LinearProgram program = lowered(stored(load(graph, 1, Scalar::Float, padded), {64}), "clang");
  UOp masked = all(program, Op::Load).at(0);
  ASSERT_EQ(masked.num_src(), 3u);
  EXPECT_EQ(masked.src(1).const_float(), 0.0);
  EXPECT_TRUE(masked.src(2).dtype().is_bool());
  EXPECT_EQ(masked.src(0).num_src(), 2u);
}

TEST(Lower, stores_padded_axes_under_an_if) {
  Graph graph;
  LinearProgram program = lowered(row_sums(graph, 61, 128), "opencl", "PADTO(0,32) UPCAST(0,2)");
  verify(program.uops, Spec::Linear);
  std::string flow = outline(program);
  EXPECT_THAT(flow, HasSubstr("endfor"));
  EXPECT_THAT(flow.substr(flow.rfind("endfor")), HasSubstr("if store endif"));
}

TEST(Lower, reads_images_by_texels) {
  Graph graph;
  DType image = image_type(false, 4, 16);
  ShapeTracker st = tracker({4, 64});
  UOp ast = stored(load(graph, 1, image, st), {4, 64}, image);
  Kernel kernel(ast, find_target("qcom"));
  kernel.required_optimizations();
  LinearProgram program = lower(kernel.optimized_ast(), kernel.target());
  EXPECT_EQ(outline(program), "load4 store4");
  EXPECT_EQ(all(program, Op::Load).at(0).src(0).src(1).dtype(), DType(Scalar::Int32, 2));
}

TEST(Lower, reads_an_element_of_an_image_out_of_its_texel) {
  Graph graph;
  ShapeTracker backwards = {{make_view({64}, {-1}, 63)}};
  LinearProgram program = lowered(stored(load(graph, 1, image_type(true, 1, 16), backwards), {64}), "qcom");
  EXPECT_EQ(outline(program), "load4 store");
  EXPECT_EQ(all(program, Op::Where).size(), 3u);
}

TEST(Lower, feeds_accumulators_through_tensor_cores) {
  for (const auto& [target, in, lanes] :
       std::vector<std::tuple<const char*, Scalar, int>>{{"cuda:sm_80", Scalar::Half, 4},
                                                         {"metal", Scalar::Float, 2},
                                                         {"hip:gfx1100", Scalar::Half, 8},
                                                         {"intel", Scalar::Half, 8},
                                                         {"clang:amx", Scalar::Float, 256}}) {
    Graph graph;
    LinearProgram program = lowered(matmul(graph, 64, 64, 64, in, Scalar::Float), target, "TC(0,0)");
    auto wmmas = all(program, Op::Wmma);
    ASSERT_EQ(wmmas.size(), 1u) << target;
    EXPECT_EQ(wmmas[0].dtype(), DType(Scalar::Float, static_cast<uint16_t>(lanes)));
    ASSERT_TRUE(wmmas[0].src(2).is(Op::Vectorize)) << target;
    for (UOp start : wmmas[0].src(2).src()) EXPECT_TRUE(start.is(Op::DefineAcc)) << target;
    EXPECT_TRUE(all(program, Op::Add).empty() || !all(program, Op::Add).back().dtype().is_float()) << target;
  }
}

TEST(Lower, is_the_same_every_time) {
  auto text = [] {
    Graph graph;
    std::string all;
    for (UOp u : lowered(matmul(graph, 64, 64, 64, Scalar::Float, Scalar::Float), "clang",
                         "UPCAST(0,4) UPCAST(1,4) UNROLL(0,4)")
                     .uops)
      all += print(u) + "\n";
    return all;
  };
  EXPECT_EQ(text(), text());
}

TEST(Lower, shows_its_stages_in_order) {
  Graph graph;
  Kernel kernel(row_sums(graph, 4, 16), find_target("clang"));
  std::vector<std::string> stages;
  lower(kernel.optimized_ast(), kernel.target(), [&](std::string_view stage, UOp sink) {
    EXPECT_TRUE(sink.is(Op::Sink));
    stages.emplace_back(stage);
  });
  EXPECT_THAT(stages, testing::ElementsAre("index", "expand", "fold memory", "legalize", "linearize"));
}

TEST(Lower, takes_deep_and_wide_kernels_in_little_time) {
  const std::clock_t start = std::clock();  // of this process: others may keep the machine busy
  {
    Graph graph;  // 100,000 additions one after the other
    UOp value = load(graph, 1, Scalar::Float, tracker({4}));
    UOp step = graph.const_float(Scalar::Float, 0.5), factor = graph.const_float(Scalar::Float, 1.25);
    for (int i = 0; i < 50'000; ++i) value = value * factor + step;
    EXPECT_GT(lowered(stored(value, {4}), "clang").uops.size(), 100'000u);
  }
  {
    Graph graph;  // 16 x 16 accumulators, 16 steps of each at once
    EXPECT_GT(lowered(matmul(graph, 64, 64, 64, Scalar::Float, Scalar::Float), "clang",
                      "UPCAST(0,16) UPCAST(1,16) UNROLL(0,16)")
                  .uops.size(),
              8'000u);
  }
  EXPECT_LT(std::clock() - start, 20 * CLOCKS_PER_SEC);
}

}  // namespace
}  // namespace quern
