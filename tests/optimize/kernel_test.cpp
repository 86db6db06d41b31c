#include "optimize/kernel.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/error.h"

#include "ir/node_map.h"
#include "ir/text.h"
#include "optimize/kernels.h"

namespace quern {
namespace {

using namespace test;

const Target& opencl() { return find_target("opencl"); }

TEST(Kernel, orders_and_merges_axes_when_built) {
  struct Case {
    const char* what;
    std::function<UOp(Graph&)> ast;
    const char* axes;
    const char* name;
  };
  const std::vector<int> swapped = {1, 0};
  for (const Case& c : std::vector<Case>{
           {"contiguous axes merge", [](Graph& g) { return add_kernel(g, {4, 5, 6}); }, "g120", "E_120"},
           {"ones are dropped", [](Graph& g) { return add_kernel(g, {1, 7, 1}); }, "g7", "E_7"},
           {"a single value has no axes", [](Graph& g) { return add_kernel(g, {1}); }, "", "E_"},
           {"a transposed load keeps axes apart",
            [&](Graph& g) { return stored(load(g, 1, Scalar::Float, permute(tracker({8, 4}), swapped)), {4, 8}); },
            "g4 g8", "E_4_8"},
           {"a reduce is last", [](Graph& g) { return row_sums(g, 8, 32); }, "g8 r32", "r_8_32"},
           {"a reduce of the first axis moves last",
            [](Graph& g) { return stored(reduce(Op::Add, load(g, 1, Scalar::Float, tracker({32, 8})), {0}), {1, 8}); },
            "g8 r32", "r_8_32"},
           {"neighbouring reduce axes merge",
            [](Graph& g) {
              return stored(reduce(Op::Add, load(g, 1, Scalar::Float, tracker({4, 8, 16})), {1, 2}), {4, 1, 1});
            },
            "g4 r128", "r_4_128"},
           {"two reduces stay apart", [](Graph& g) { return max_of_row_sums(g, 2, 8, 16); }, "g2 r8 r16", "r_2_8_16"},
           {"two outputs are counted",
            [](Graph& g) {
              const UOp a = load(g, 2, Scalar::Float, tracker({16}));
              return stored(std::vector<UOp>{a.alu(Op::Neg), a.alu(Op::Sqrt)}, {16});
            },
            "g16", "E2_16"},
           {"images keep rows, columns and channels apart", [](Graph& g) { return row_sums_of_images(g, 2, 3, 8); },
            "g2 g3 g4 r8", "r_2_3_4_8"}}) {
    Graph graph;
    const Kernel kernel(c.ast(graph), opencl());
    EXPECT_EQ(axes_text(kernel), c.axes) << c.what;
    EXPECT_EQ(kernel.name(), c.name) << c.what;
  }
}

TEST(Kernel, symbolic_sizes_are_named_in_infix_with_hex_digits) {
  Graph graph;
  const UOp position = graph.variable("start_pos", 1, 128);
  const SInt size = position + 1;
  const ShapeTracker st = expand(reshape(tracker({size}), {1, size}), {4, size});
  const Kernel kernel(stored(reduce(Op::Add, load(graph, 1, Scalar::Float, st), {1}), {4, 1}), opencl());
  EXPECT_EQ(kernel.name(), "r_4_28start_pos2B129");
  EXPECT_EQ(kernel.shape_text(false), "4 (start_pos+1)");
}

TEST(Kernel, counts_of_axes_follow_from_their_kinds) {
  Graph graph;
  Kernel kernel(row_sums(graph, 64, 256), opencl());
  kernel.apply(parse_opts("LOCAL(0,8) GROUP(0,16) UNROLL(1,4) UPCAST(0,2)"));
  EXPECT_EQ(axes_text(kernel), "g4 l8 G16 r4 x4 u2");
  EXPECT_EQ(kernel.global_dims(), 1);
  EXPECT_EQ(kernel.local_dims(), 1);
  EXPECT_EQ(kernel.first_reduce(), 2);
  EXPECT_EQ(kernel.group_dims(), 1);
  EXPECT_EQ(kernel.first_upcast(), 4);
  EXPECT_EQ(kernel.upcasted(), 2);
  EXPECT_EQ(kernel.name(), "r_4_8_16_4_4_2");
}

TEST(Kernel, colours_are_the_references) {
  Graph graph;
  Kernel kernel(row_sums(graph, 64, 256), opencl());
  kernel.apply(parse_opts("LOCAL(0,8) GROUP(0,16) UNROLL(1,4) UPCAST(0,2)"));
  std::vector<std::string_view> colors;
  for (const Axis& axis : kernel.axes()) colors.push_back(color_of(axis.kind, kernel.dont_use_locals()));
  EXPECT_THAT(colors, testing::ElementsAre("blue", "cyan", "green", "red", "magenta", "yellow"));
  EXPECT_EQ(color_of(AxisKind::UpcastMid, false), "white");
  EXPECT_EQ(color_of(AxisKind::Global, true), "BLUE");
  EXPECT_EQ(kernel.shape_text(true),
            "\033[34m4\033[0m \033[36m8\033[0m \033[32m16\033[0m \033[31m4\033[0m \033[35m4\033[0m \033[33m2\033[0m");
}

TEST(Kernel, a_copy_goes_its_own_way) {
  Graph graph;
  const Kernel kernel(matmul(graph, 64, 64, 64), opencl());
  Kernel copy = kernel;
  EXPECT_EQ(copy, kernel);
  copy.apply(parse_opt("UPCAST(0,4)"));
  EXPECT_NE(copy, kernel);
  EXPECT_EQ(axes_text(kernel), "g64 g64 r64");
  EXPECT_EQ(axes_text(copy), "g16 g64 r64 u4");
  EXPECT_TRUE(kernel.applied_opts().empty());
}

// ---- verification ----

void expect_invalid(UOp ast, const std::string& message) {
  try {
    verify_ast(ast);
    ADD_FAILURE() << "valid: " << print(ast);
  } catch (const InvalidKernel& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr(message));
  }
}

TEST(VerifyAst, gives_the_shape_of_every_node_that_has_one) {
  Graph graph;
  const UOp ast = row_sums(graph, 8, 32);
  const NodeMap<Shape> shapes = verify_ast(ast);
  EXPECT_EQ(shapes.get(nodes_of(ast, Op::Load)[0]), (Shape{8, 32}));
  EXPECT_EQ(shapes.get(nodes_of(ast, Op::ReduceAxis)[0]), (Shape{8, 1}));
  EXPECT_EQ(shapes.get(nodes_of(ast, Op::Store)[0]), (Shape{8, 1}));
  EXPECT_TRUE(shapes.get(nodes_of(ast, Op::DefineGlobal)[0]).empty());
}

TEST(VerifyAst, names_the_node_and_the_rule_it_breaks) {
  Graph graph;
  const UOp a = load(graph, 1, Scalar::Float, tracker({4, 8}));
  expect_invalid(a, "LOAD (node 2, dtypes.float): a kernel is a SINK of STOREs");
  expect_invalid(graph.node(Op::Sink, Scalar::Void), "a kernel stores something");
  expect_invalid(graph.node(Op::Sink, Scalar::Void, {a}), "a kernel's SINK has STOREs only");
  expect_invalid(stored(a, {8, 4}),
                 "its sources VIEW and LOAD have the shapes (8, 4) and (4, 8); only a reduce changes a shape");
  expect_invalid(stored(a + load(graph, 2, Scalar::Float, tracker({4, 1})), {4, 8}),
                 "have the shapes (4, 8) and (4, 1)");
  expect_invalid(stored(reduce(Op::Add, a, {2}), {4, 8}), "reduces axis 2 of the shape (4, 8)");
  expect_invalid(stored(reduce(Op::Add, a, {1, 1}), {4, 1}), "reduces axis 1 twice");
  expect_invalid(stored(reduce(Op::Add, graph.const_float(Scalar::Float, 1), {0}), {1}),
                 "reduces a value without a shape");
  expect_invalid(stored(load(graph, 1, Scalar::Float, tracker({4, 0})), {4, 0}),
                 "a size of its shape (4, 0) is not positive");
  const UOp other = stored(std::vector<UOp>{reduce(Op::Add, a, {1})}, {4, 1}).src(0);
  const UOp whole = stored(std::vector<UOp>{a}, {4, 8}).src(0);
  expect_invalid(graph.node(Op::Sink, Scalar::Void, {other, whole}),
                 "stores 32 elements, the first output 4; all outputs have the same size");
  const UOp viewed = graph.node(Op::View, Scalar::Float, {a}, graph.intern(tracker({32})));
  expect_invalid(stored(viewed, {32}), "VIEW");
}

TEST(VerifyAst, a_long_chain_takes_no_stack) {
  Graph graph;
  UOp value = load(graph, 1, Scalar::Float, tracker({4}));
  for (int i = 0; i < 100000; ++i) value = value.alu(i % 2 == 0 ? Op::Neg : Op::Sqrt);
  Kernel kernel(stored(value, {4}), opencl());
  kernel.hand_coded_optimizations();
  EXPECT_EQ(toposort(kernel.optimized_ast()).size(), 100006u);
}

}  // namespace
}  // namespace quern
