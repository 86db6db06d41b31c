#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/spec.h"
#include "optimize/kernels.h"

namespace quern {
namespace {

using namespace test;

TEST(TensorCores, lay_axes_out_for_the_first_that_fits) {
  struct Case {
    const char* target;
    Scalar in, out;
    const char* core;
    const char* axes;
  };
  for (const Case& c : std::vector<Case>{
           {"metal", Scalar::Float, Scalar::Float, "WMMA_8_8_8_float_float", "g8 g16 l2 l4 l2 l2 r8 x8 u2"},
           {"metal", Scalar::Half, Scalar::Float, "WMMA_8_8_8_half_float", "g8 g16 l2 l4 l2 l2 r8 x8 u2"},
           {"metal", Scalar::Half, Scalar::Half, "WMMA_8_8_8_half_half", "g8 g16 l2 l4 l2 l2 r8 x8 u2"},
           {"cuda:sm_80", Scalar::Half, Scalar::Float, "WMMA_8_16_16_half_float",
            "g4 g16 l2 l2 l2 l2 l2 r4 x8 x2 u2 u2"},
           {"cuda:sm_80", Scalar::BFloat16, Scalar::Float, "WMMA_8_16_16___bf16_float",
            "g4 g16 l2 l2 l2 l2 l2 r4 x8 x2 u2 u2"},
           {"ptx:sm_80", Scalar::Half, Scalar::Float, "WMMA_8_16_16_half_float",
            "g4 g16 l2 l2 l2 l2 l2 r4 x8 x2 u2 u2"},
           {"hip:gfx1100", Scalar::Half, Scalar::Half, "WMMA_16_16_16_half_half", "g4 g8 l8 l2 l2 r4 x16 u8"},
           {"intel", Scalar::Half, Scalar::Float, "WMMA_8_8_16_half_float", "g8 g16 l8 r4 x16 u8"},
           {"clang:amx", Scalar::Float, Scalar::Float, "WMMA_16_16_1_float_float", "g4 g8 r64 u16 u16"}}) {
    Graph graph;
    Kernel kernel(matmul(graph, 64, 128, 64, c.in, c.out), find_target(c.target));
    kernel.apply(Opt{OptOp::TC, 0, 0});
    ASSERT_NE(kernel.tensor_core(), nullptr) << c.target;
    EXPECT_EQ(kernel.tensor_core()->name(), c.core) << c.target;
    EXPECT_EQ(axes_text(kernel), c.axes) << c.target;
  }
}

TEST(TensorCores, need_their_types) {
  for (const auto& [target, in, out] :
       std::vector<std::tuple<const char*, Scalar, Scalar>>{{"cuda:sm_80", Scalar::Float, Scalar::Float},
                                                            {"cuda:sm_80", Scalar::Half, Scalar::Half},
                                                            {"ptx:sm_80", Scalar::BFloat16, Scalar::Float},
                                                            {"cuda:sm_75", Scalar::Half, Scalar::Float},
                                                            {"metal", Scalar::Int32, Scalar::Int32}}) {
    Graph graph;
    Kernel kernel(matmul(graph, 64, 64, 64, in, out), find_target(target));
    EXPECT_FALSE(kernel.apply_tensor_cores(2)) << target;
    EXPECT_TRUE(kernel.applied_opts().empty());
  }
}

TEST(TensorCores, option_1_takes_casts_and_several_reduces_option_2_pads) {
  Graph graph;
  const Target& cuda = find_target("cuda:sm_80");
  const UOp odd = matmul(graph, 60, 60, 60, Scalar::Half, Scalar::Float);
  for (const auto& [tc_opt, applies] : {std::pair{0, false}, {1, false}, {2, true}}) {
    Kernel kernel(odd, cuda);
    EXPECT_EQ(!kernel.try_apply({OptOp::TC, 0, tc_opt}), applies) << tc_opt;
    if (applies) {
      EXPECT_EQ(axes_text(kernel), "g4 g8 l2 l2 l2 l2 l2 r4 x8 x2 u2 u2");
    }
  }
  const ShapeTracker rows = expand(reshape(tracker({64, 64}), {64, 1, 64}), {64, 64, 64});
  const ShapeTracker columns = expand(reshape(tracker({64, 64}), {1, 64, 64}), {64, 64, 64});
  const UOp a = load(graph, 1, Scalar::Float, rows).cast(Scalar::Half), b = load(graph, 2, Scalar::Half, columns);
  const UOp casts = stored(reduce(Op::Add, (a * b).cast(Scalar::Float), {2}), {64, 64, 1});
  for (const auto& [tc_opt, applies] : {std::pair{0, false}, {1, true}, {2, true}})
    EXPECT_EQ(!Kernel(casts, cuda).try_apply({OptOp::TC, 0, tc_opt}), applies) << tc_opt;
}

TEST(TensorCores, are_used_as_the_kernel_says) {
  Graph graph;
  const UOp ast = matmul(graph, 64, 64, 64, Scalar::Half, Scalar::Float);
  const Target& cuda = find_target("cuda:sm_80");
  EXPECT_FALSE(Kernel(ast, cuda, TensorCoreUse::Off).apply_tensor_cores());

  struct Case {
    TensorCoreUse use;
    size_t instructions, reduces, locals;
  };
  for (const Case& c : {Case{TensorCoreUse::Instruction, 1, 1, 0},
                        {TensorCoreUse::ShapeOnly, 0, 1, 0},
                        {TensorCoreUse::Emulated, 0, 2, 2}}) {
    Kernel kernel(ast, cuda, c.use);
    ASSERT_TRUE(kernel.apply_tensor_cores());
    const UOp optimized = kernel.optimized_ast();
    EXPECT_EQ(nodes_of(optimized, Op::Wmma).size(), c.instructions);
    EXPECT_EQ(nodes_of(optimized, Op::ReduceAxis).size(), c.reduces);
    EXPECT_EQ(nodes_of(optimized, Op::DefineLocal).size(), c.locals);
  }
}

TEST(TensorCores, become_an_instruction_on_the_upcasted_axes) {
  Graph graph;
  Kernel kernel(matmul(graph, 64, 64, 64, Scalar::Half, Scalar::Float), find_target("cuda:sm_80"));
  kernel.apply(Opt{OptOp::TC, 0, 0});
  const UOp wmma = nodes_of(kernel.optimized_ast(), Op::Wmma).at(0);
  const WmmaArg& arg = *std::get<const WmmaArg*>(wmma.arg());
  EXPECT_EQ(wmma.dtype(), DType(Scalar::Float, 4));
  EXPECT_EQ(wmma.src(0).dtype(), DType(Scalar::Half, 8));
  EXPECT_EQ(wmma.src(1).dtype(), DType(Scalar::Half, 4));
  EXPECT_EQ(arg.threads, 32);
  EXPECT_EQ(arg.device, "CUDA");
  const int first = kernel.first_upcast();
  EXPECT_THAT(arg.reduce_axes, testing::ElementsAre(first, first + 1));
  EXPECT_EQ(arg.upcast_axes[0], (Axes{{first, 8}}));
  EXPECT_EQ(arg.upcast_axes[1], (Axes{{first + 2, 2}, {first + 3, 2}}));
  EXPECT_EQ(arg.upcast_axes[2], (Axes{{first + 3, 2}, {first + 2, 2}}));
}

TEST(TensorCores, hand_coded_opts_follow_unless_others_are_given) {
  Graph graph;
  const UOp ast = matmul(graph, 256, 256, 256, Scalar::Half, Scalar::Float);
  const Target& cuda = find_target("cuda:sm_80");
  Kernel hand_coded(ast, cuda);
  ASSERT_TRUE(hand_coded.apply_tensor_cores());
  EXPECT_EQ(to_string(hand_coded.applied_opts()), "TC(0,0) UPCAST(0,4) UPCAST(1,4) LOCAL(1,4)");

  const std::vector<Opt> extra = parse_opts("UNROLL(0,4)");
  Kernel given(ast, cuda);
  ASSERT_TRUE(given.apply_tensor_cores(0, 0, &extra));
  EXPECT_EQ(to_string(given.applied_opts()), "TC(0,0) UNROLL(0,4)");

  Kernel amx(matmul(graph, 64, 64, 64), find_target("clang:amx"));
  ASSERT_TRUE(amx.apply_tensor_cores());
  EXPECT_EQ(to_string(amx.applied_opts()), "TC(0,0)");
}

TEST(TensorCores, choices_of_axes_count_from_the_last) {
  Graph graph;
  const ShapeTracker rows = expand(reshape(tracker({8, 64, 64}), {8, 64, 1, 64}), {8, 64, 64, 64});
  const ShapeTracker columns = expand(reshape(tracker({64, 64}), {1, 1, 64, 64}), {8, 64, 64, 64});
  const UOp a = load(graph, 1, Scalar::Half, rows),
            b = load(graph, 2, Scalar::Half, permute(columns, std::vector<int>{0, 1, 2, 3}));
  const UOp ast = stored(reduce(Op::Add, (a * b).cast(Scalar::Float), {3}), {8, 64, 64, 1});
  Kernel kernel(ast, find_target("metal"));
  EXPECT_EQ(axes_text(kernel), "g512 g64 r64");  // the batch joins M
  EXPECT_FALSE(kernel.try_apply({OptOp::TC, 0, 2}));
  EXPECT_EQ(kernel.try_apply({OptOp::TC, 1, 2}), "tensor core opts must be first");
}

}  // namespace
}  // namespace quern
