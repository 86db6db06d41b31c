// Stores to images are of whole texels, and none leaves the image: what a GPU would drop is still not asked of it.
#include <gtest/gtest.h>

#include "ir/graph.h"
#include "lower/lower.h"
#include "optimize/kernel.h"
#include "shape/shapetracker.h"

namespace quern {
namespace {

/// Each channel of an image of 1 x `width` is the sum of `columns` floats.
UOp channel_sums(Graph& graph, int width, int columns) {
  const UOp buffer = graph.node(Op::DefineGlobal, DType(Scalar::Float).ptr(), {}, int64_t{1});
  const UOp a = graph.node(Op::Load, Scalar::Float, {buffer, graph.view(tracker({width, 4, columns}))});
  const UOp sums = graph.node(Op::ReduceAxis, Scalar::Float, {a}, graph.intern(ReduceArg{Op::Add, {2}}));
  const UOp image = graph.node(Op::DefineGlobal, image_type(false, 1, static_cast<uint32_t>(width)), {}, int64_t{0});
  const UOp store = graph.node(Op::Store, Scalar::Void, {image, graph.view(tracker({width, 4, 1})), sums});
  return graph.node(Op::Sink, Scalar::Void, {store});
}

std::vector<UOp> image_stores(const LinearProgram& program) {
  std::vector<UOp> stores;
  for (UOp u : program.uops)
    if (u.is(Op::Store) && u.src(0).dtype().is_image()) stores.push_back(u);
  return stores;
}

struct Case {
  const char* opts;
  bool gated;
};

TEST(ImageStores, are_of_whole_texels_inside_the_image) {
  for (const Case& c : {Case{"UPCAST(1,4)", false},
                        {"UPCAST(1,4) PADTO(0,32)", true},     // texels past the width
                        {"UPCAST(1,4) GROUP(0,16)", true},     // by one thread of the group
                        {"GROUP(0,16) UPCASTMID(1,4)", true},  // four threads' sums by one of them
                        {"GROUP(0,16) UPCASTMID(1,4) UNROLL(1,0)", true}}) {
    Graph graph;
    const Target& qcom = find_target("qcom");
    Kernel kernel(channel_sums(graph, 10, 64), qcom);
    kernel.apply(parse_opts(c.opts));
    const std::vector<UOp> stores = image_stores(lower(kernel.optimized_ast(), qcom));
    ASSERT_EQ(stores.size(), 1u) << c.opts;
    EXPECT_EQ(stores[0].src(1).dtype(), DType(Scalar::Float, 4)) << c.opts;
    EXPECT_EQ(stores[0].src(0).src(1).dtype(), DType(Scalar::Int32, 2)) << c.opts;
    EXPECT_EQ(stores[0].num_src() > 2, c.gated) << c.opts;
  }
}

}  // namespace
}  // namespace quern
