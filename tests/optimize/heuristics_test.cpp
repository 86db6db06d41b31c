#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/error.h"

#include "optimize/kernels.h"

namespace quern {
namespace {

using namespace test;

TEST(Heuristics, choose_as_the_reference) {
  struct Case {
    const char* what;
    std::function<UOp(Graph&)> ast;
    const char* target;
    const char* opts;
    const char* axes;
  };
  for (const Case& c :
       std::vector<Case>{{"elementwise", [](Graph& g) { return add_kernel(g, {1024}); }, "opencl",
                          "UPCAST(0,4) LOCAL(0,32)", "g8 l32 u4"},
                         {"elementwise without threads", [](Graph& g) { return add_kernel(g, {1024}); }, "clang",
                          "UPCAST(0,4)", "g256 u4"},
                         {"an odd size", [](Graph& g) { return add_kernel(g, {7}); }, "clang", "", "g7"},
                         {"a matmul", [](Graph& g) { return matmul(g, 512, 512, 512); }, "opencl",
                          "UPCAST(1,4) UPCAST(0,4) UNROLL(0,4) LOCAL(0,8) LOCAL(1,16)", "g16 g8 l8 l16 r128 u4 u4 x4"},
                         {"a matmul without threads", [](Graph& g) { return matmul(g, 512, 512, 512); }, "clang",
                          "UPCAST(1,4) UPCAST(0,4) UNROLL(0,4)", "g128 g128 r128 u4 u4 x4"},
                         {"a matrix by a vector", [](Graph& g) { return matvec(g, 1024, 1024); }, "opencl",
                          "GROUP(0,8) LOCAL(0,4) UPCAST(0,4)", "g64 l4 G8 r128 u4"},
                         {"a long sum is shared by threads", [](Graph& g) { return row_sums(g, 1, 4096); }, "opencl",
                          "GROUPTOP(0,256)", "G256 r16"},
                         {"some long sums", [](Graph& g) { return row_sums(g, 256, 4096); }, "opencl", "GROUPTOP(0,16)",
                          "g256 G16 r256"},
                         {"many sums", [](Graph& g) { return row_sums(g, 4096, 64); }, "opencl",
                          "UNROLL(0,4) LOCAL(0,32)", "g128 l32 r16 x4"},
                         {"a short sum is unrolled", [](Graph& g) { return row_sums(g, 4096, 3); }, "clang",
                          "UNROLL(0,0)", "g4096 x3"},
                         {"a stack's mask", [](Graph& g) { return padded_stack(g); }, "clang", "UPCAST(0,0)", "g64 u6"},
                         {"an image's channels", [](Graph& g) { return row_sums_of_images(g, 16, 64, 8); }, "qcom",
                          "UPCAST(2,4) UNROLL(0,0) LOCAL(0,8) LOCAL(1,16)", "g2 g4 l8 l16 u4 x8"}}) {
    Graph graph;
    const Kernel kernel = optimize(c.ast(graph), find_target(c.target));
    EXPECT_EQ(to_string(kernel.applied_opts()), c.opts) << c.what;
    EXPECT_EQ(axes_text(kernel), c.axes) << c.what;
  }
}

TEST(Heuristics, prefer_tensor_cores) {
  Graph graph;
  const UOp ast = matmul(graph, 512, 512, 512, Scalar::Half, Scalar::Float);
  EXPECT_EQ(to_string(optimize(ast, find_target("cuda:sm_80")).applied_opts()),
            "TC(0,0) UPCAST(0,4) UPCAST(1,4) LOCAL(1,4)");
  EXPECT_EQ(optimize(ast, find_target("cuda:sm_75")).tensor_core(), nullptr);
}

TEST(Optimize, takes_a_rule_by_name_or_a_list) {
  Graph graph;
  const UOp ast = add_kernel(graph, {1024});
  const Target& opencl = find_target("opencl");
  EXPECT_EQ(axes_text(optimize(ast, opencl, {.opts = "none"})), "g1024");
  EXPECT_EQ(axes_text(optimize(ast, opencl, {.opts = ""})), "g1024");
  EXPECT_EQ(axes_text(optimize(ast, opencl, {.opts = "LOCAL(0,16) UPCAST(0,2)"})), "g32 l16 u2");
  EXPECT_EQ(optimize(ast, opencl, {.opts = "reference"}), optimize(ast, opencl, {.opts = "heuristic"}));
  EXPECT_EQ(axes_text(optimize(row_sums_of_images(graph, 4, 4, 8), opencl, {.opts = "none"})), "g4 g4 r8 u4");
  EXPECT_THROW(optimize(ast, opencl, {.opts = "fastest"}), OptError);
  EXPECT_THROW(optimize(ast, opencl, {.opts = "UPCAST(0,3)"}), OptError);
}

TEST(RequiredOptimizations, refuse_an_image_store_without_a_vector_axis) {
  Graph graph;
  const UOp a = load(graph, 1, Scalar::Float, tracker({2, 6}));
  const UOp image = graph.node(Op::DefineGlobal, image_type(false, 1, 3), {}, int64_t{0});
  const ShapeTracker strided = permute(tracker({6, 2}), std::vector<int>{1, 0});
  const UOp store = graph.node(Op::Store, Scalar::Void, {image, graph.view(strided), a});
  EXPECT_THROW(optimize(graph.node(Op::Sink, Scalar::Void, {store}), find_target("qcom")), InvalidKernel);
}

TEST(LegalActions, are_those_that_apply_and_stay_small) {
  Graph graph;
  const auto texts = [](const Kernel& kernel) {
    std::vector<Opt> opts;
    for (int n : legal_actions(kernel)) opts.push_back(search_actions()[static_cast<size_t>(n) - 1]);
    return to_string(opts);
  };
  // All of an axis of 7 is UPCAST(0,0); 29 divides nothing; 16 threads fit.
  EXPECT_EQ(texts(Kernel(add_kernel(graph, {7}), find_target("clang"))), "UPCAST(0,0)");
  EXPECT_EQ(texts(Kernel(add_kernel(graph, {29}), find_target("opencl"))), "LOCAL(0,29) PADTO(0,32)");
  Kernel wide(matmul(graph, 64, 64, 64), find_target("clang"));
  wide.apply(parse_opts("UPCAST(0,16) UPCAST(1,16)"));
  EXPECT_EQ(texts(wide), "SWAP(0,1)");  // 256 lanes are the most
}

}  // namespace
}  // namespace quern
