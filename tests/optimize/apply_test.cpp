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
UOp image_sums(Graph& g) { return row_sums_of_images(g, 1, 8, 64); }

TEST(Opts, change_the_axes) {
  struct Case {
    Build ast;
    const char* opts;
    const char* axes;
  };
  for (const Case& c : std::vector<Case>{
           {matmul_64, "UPCAST(0,4)", "g16 g64 r64 u4"},
           {matmul_64, "UPCAST(1,4) UPCAST(0,2)", "g32 g16 r64 u4 u2"},
           {[](Graph& g) { return add_kernel(g, {16}); }, "UPCAST(0,0)", "u16"},  // nothing is left of the axis
           {matmul_64, "UNROLL(0,8)", "g64 g64 r8 x8"},
           {[](Graph& g) { return row_sums(g, 4, 16); }, "UNROLL(0,0)", "g4 x16"},
           {matmul_64, "LOCAL(0,8) LOCAL(1,4)", "g8 g16 l8 l4 r64"},
           {matmul_64, "LOCAL(0,64)", "g64 l64 r64"},
           {matmul_64, "LOCAL(0,8) UPCAST(2,8)", "g8 g64 r64 u8"},  // a whole local axis upcasted
           {sums_64_256, "GROUP(0,8)", "g64 G8 r32"},
           {sums_64_256, "GROUPTOP(0,16)", "g64 G16 r16"},
           {sums_64_256, "GROUP(0,0)", "g64 G256"},
           {sums_64_256, "GROUP(0,8) UNROLL(0,0)", "g64 r32 x8"},  // the group is unrolled away
           {sums_64_256, "LOCAL(0,4) GROUP(0,8) UNROLL(0,0)", "g16 l4 r32 x8"},
           {sums_64_256, "GROUP(0,8) UNROLL(1,4)", "g64 G8 r8 x4"},
           {sums_64_256, "NOLOCALS", "g64 r256"},
           {matmul_64, "SWAP(0,1)", "g64 g64 r64"},
           {[](Graph& g) { return matmul(g, 8, 16, 4); }, "SWAP(0,1)", "g16 g8 r4"},
           {[](Graph& g) { return row_sums(g, 10, 250); }, "PADTO(0,32)", "g32 r250"},
           {[](Graph& g) { return row_sums(g, 10, 250); }, "PADTO(1,32) UNROLL(0,4)", "g10 r64 x4"},
           {image_sums, "GROUP(0,16) UPCASTMID(1,4)", "g8 G16 m4 r4"},
           {image_sums, "GROUP(0,16) UPCASTMID(1,4) UNROLL(1,4)", "g8 G16 r4 u4"},  // "unrolling" an axis of the output
       }) {
    Graph graph;
    Kernel kernel(c.ast(graph), find_target("opencl"));
    kernel.apply(parse_opts(c.opts));
    EXPECT_EQ(axes_text(kernel), c.axes) << c.opts;
    EXPECT_EQ(to_string(kernel.applied_opts()), c.opts);
    verify_ast(kernel.ast());
  }
}

TEST(Opts, nolocals_colours_globals_and_forbids_threads) {
  Graph graph;
  Kernel kernel(sums_64_256(graph), find_target("opencl"));
  kernel.apply(parse_opt("NOLOCALS"));
  EXPECT_TRUE(kernel.dont_use_locals());
  EXPECT_EQ(color_of(kernel.axes()[0].kind, kernel.dont_use_locals()), "BLUE");
}

struct Refused {
  const char* what;
  Build ast;
  const char* target;
  const char* before;
  Opt opt;
  const char* why;
};

const std::vector<Refused>& refused_opts() {
  const auto symbolic = [](Graph& g) {
    const UOp n = g.variable("n", 1, 10);
    return stored(load(g, 1, Scalar::Float, tracker({SInt(n)})), {SInt(n)});
  };
  const auto embedding = [](Graph& g) {  // two reduces over the same axis
    const UOp a = load(g, 1, Scalar::Float, tracker({8, 64}));
    const UOp b = load(g, 2, Scalar::Float, tracker({8, 64}));
    return stored(reduce(Op::Add, a, {1}) + reduce(Op::Add, b, {1}), {8, 1});
  };
  const auto image_rows = [](Graph& g) { return row_sums_of_images(g, 3, 8, 64); };
  using enum OptOp;
  static const std::vector<Refused> cases = {
      {"beyond the axes", matmul_64, "opencl", "", {UPCAST, 3, 4}, "invalid axis: there are 3 axes"},
      {"before the axes", matmul_64, "opencl", "", {UPCAST, -1, 4}, "invalid axis: there are 3 axes"},
      {"beyond the reduces", matmul_64, "opencl", "", {UNROLL, 1, 4}, "invalid axis"},
      {"no axis", matmul_64, "opencl", "", {UPCAST, std::nullopt, 4}, "it needs an axis and an amount"},
      {"no amount", matmul_64, "opencl", "", {UPCAST, 0, std::nullopt}, "it needs an axis and an amount"},
      {"one", matmul_64, "opencl", "", {UPCAST, 0, 1}, "an amount of 1 is meaningless"},
      {"negative", matmul_64, "opencl", "", {UPCAST, 0, -4}, "an amount of -4 is meaningless"},
      {"no divisor", matmul_64, "opencl", "", {UPCAST, 0, 3}, "3 does not divide axis 0 of size 64"},
      {"all of a symbolic axis", symbolic, "opencl", "", {UPCAST, 0, 0}, "axis 0 has the symbolic size n"},
      {"some of a symbolic axis", symbolic, "opencl", "", {UPCAST, 0, 2}, "2 does not divide axis 0 of size n"},

      {"locals the target lacks", matmul_64, "clang", "", {LOCAL, 0, 4}, "the target has no locals"},
      {"a local reduce", matmul_64, "opencl", "", {LOCAL, 2, 4}, "axis 2 is not global: local is for globals"},
      {"a local of a local", matmul_64, "opencl", "LOCAL(0,8)", {LOCAL, 2, 4}, "axis 2 is not global"},
      {"local after NOLOCALS", matmul_64, "opencl", "NOLOCALS", {LOCAL, 0, 4}, "not using locals"},
      {"group after NOLOCALS", matmul_64, "opencl", "NOLOCALS", {GROUP, 0, 4}, "not using locals"},
      {"mid upcast after NOLOCALS", image_sums, "opencl", "NOLOCALS", {UPCASTMID, 1, 4}, "not using locals"},

      {"groups the target lacks",
       matmul_64,
       "clang",
       "",
       {GROUP, 0, 4},
       "the target has no locals or no shared memory"},
      {"nothing to group", sums_64_256, "opencl", "GROUP(0,0)", {GROUP, 0, 2}, "invalid axis"},
      {"an upcasted axis grouped",
       sums_64_256,
       "opencl",
       "GROUP(0,16) UPCAST(0,4)",
       {GROUP, 1, 2},
       "axis 3 is not a reduce loop"},
      {"shared memory",
       [](Graph& g) { return row_sums(g, 64, 65536); },
       "opencl",
       "",
       {GROUPTOP, 0, 16384},
       "exceeds maximum shared memory size: needs 65536, max 32768"},
      {"shared memory by an upcast",
       [](Graph& g) { return row_sums(g, 64, 16384); },
       "opencl",
       "GROUP(0,4096)",
       {UPCAST, 0, 4},
       "exceeds maximum shared memory size: needs 65536, max 32768"},
      {"parallel reduces", embedding, "opencl", "", {GROUP, 0, 4}, "reduces of the same axis can't be grouped"},
      {"groups with tensor cores",
       [](Graph& g) { return matmul(g, 64, 64, 64, Scalar::Half, Scalar::Float); },
       "cuda:sm_80",
       "TC(0,0)",
       {GROUP, 0, 2},
       "tensor cores leave nothing to group"},

      {"too much unrolled", sums_64_256, "opencl", "", {UNROLL, 0, 64}, "64 is more than 32 to unroll"},
      {"unrolled twice", sums_64_256, "opencl", "UNROLL(0,4)", {UNROLL, 1, 4}, "axis 2 is already upcasted"},
      {"an upcasted reduce", matmul_64, "opencl", "", {UPCAST, 2, 4}, "axis 2 is reduced: upcast is for the others"},
      {"too much upcasted", matmul_64, "opencl", "", {UPCAST, 0, 32}, "32 is more than 16 to upcast"},
      {"a tensor core's thread",
       [](Graph& g) { return matmul(g, 64, 64, 64, Scalar::Half, Scalar::Float); },
       "cuda:sm_80",
       "TC(0,0)",
       {UPCAST, 2, 2},
       "axis 2 is the tensor core's"},

      {"no image", sums_64_256, "opencl", "GROUP(0,4)", {UPCASTMID, 0, 4}, "the output is not an image"},
      {"no group", image_sums, "opencl", "", {UPCASTMID, 1, 4}, "there is no group reduce to be in the middle of"},
      {"too many axes",
       image_rows,
       "opencl",
       "GROUP(0,4)",
       {UPCASTMID, 2, 4},
       "there are 3 axes before the reduce, not up to 2"},
      {"a vector already",
       image_sums,
       "opencl",
       "UPCAST(1,4) GROUP(0,4)",
       {UPCASTMID, 0, 4},
       "the output has its vector axis already"},
      {"not the unit axis",
       image_sums,
       "opencl",
       "GROUP(0,4)",
       {UPCASTMID, 0, 4},
       "axis 0 is not the output's axis of stride 1, 1"},
      {"two lanes", image_sums, "opencl", "GROUP(0,4)", {UPCASTMID, 1, 2}, "an image's vectors have 4 lanes, not 2"},

      {"the group before a mid upcast unrolled",
       image_sums,
       "opencl",
       "GROUP(0,16) UPCASTMID(1,4)",
       {UNROLL, 0, 0},
       "a mid-reduce upcast stands after a group reduce"},
      {"no locals to do without", matmul_64, "clang", "", {NOLOCALS, {}, {}}, "the target has no locals to do without"},
      {"twice", matmul_64, "opencl", "NOLOCALS", {NOLOCALS, {}, {}}, "locals are not used already"},
      {"locals in use", matmul_64, "opencl", "LOCAL(0,4)", {NOLOCALS, {}, {}}, "locals are in use"},
      {"groups in use", matmul_64, "opencl", "GROUP(0,4)", {NOLOCALS, {}, {}}, "locals are in use"},

      {"swapped with a reduce",
       matmul_64,
       "opencl",
       "",
       {SWAP, 0, 2},
       "swaps axis 0 with a global axis after it, not with 2 of 2"},
      {"swapped with itself",
       matmul_64,
       "opencl",
       "",
       {SWAP, 1, 1},
       "swaps axis 1 with a global axis after it, not with 1 of 2"},
      {"swapped with a local", matmul_64, "opencl", "LOCAL(0,4)", {SWAP, 0, 2}, "not with 2 of 2"},

      {"a symbolic shape padded", symbolic, "opencl", "", {PADTO, 0, 32}, "padding does not work with symbolic shapes"},
      {"an upcasted axis padded",
       matmul_64,
       "opencl",
       "UPCAST(0,4)",
       {PADTO, 3, 32},
       "axis 3 is upcasted: it can't be padded"},
      {"a maximum padded",
       [](Graph& g) { return row_sums(g, 4, 250, Scalar::Float, Op::Max); },
       "opencl",
       "",
       {PADTO, 1, 32},
       "the reduce is not a sum of values that are 0 where the padding is"},
      {"too much padding",
       [](Graph& g) { return row_sums(g, 4, 250); },
       "opencl",
       "",
       {PADTO, 0, 32},
       "padding axis 0 from 4 to 32 more than quadruples the work"},
      {"no padding", matmul_64, "opencl", "", {PADTO, 0, 32}, "axis 0 of size 64 needs no padding to a multiple of 32"},

      {"tensor cores second", matmul_64, "metal", "UPCAST(0,4)", {TC, 0, 0}, "tensor core opts must be first"},
      {"tensor cores without numbers",
       matmul_64,
       "metal",
       "",
       {TC, 0, {}},
       "tensor core opts must have an axis and an amount"},
      {"tensor cores before the axes", matmul_64, "metal", "", {TC, -1, 0}, "invalid axis"},
      {"no tensor cores", matmul_64, "opencl", "", {TC, 0, 0}, "the target has no tensor cores"},
      {"no fitting tensor core", sums_64_256, "metal", "", {TC, 0, 2}, "no tensor core available"},
      {"no such choice", matmul_64, "metal", "", {TC, 1, 2}, "no tensor core available"},
  };
  return cases;
}

TEST(Opts, that_do_not_apply_say_why_and_change_nothing) {
  for (const Refused& c : refused_opts()) {
    Graph graph;
    Kernel kernel(c.ast(graph), find_target(c.target));
    kernel.apply(parse_opts(c.before));
    const Kernel before = kernel;
    const std::optional<std::string> why = kernel.try_apply(c.opt);
    EXPECT_THAT(why.value_or("applied"), testing::HasSubstr(c.why)) << c.what;
    EXPECT_EQ(kernel, before) << c.what;
    try {
      kernel.apply(c.opt);
      ADD_FAILURE() << c.what << ": applied";
    } catch (const OptError& e) {
      EXPECT_EQ(e.what(), to_string(c.opt) + " does not apply: " + why.value_or("")) << c.what;
    }
    EXPECT_EQ(kernel, before) << c.what;
  }
}

// ---- public cases ----

// S1: a half MAX over one axis takes padding and three upcasts of the others.
TEST(Cases, S1_padding_and_upcasting_a_half_maximum) {
  Graph graph;
  const UOp a = load(graph, 1, Scalar::Half, tracker({1, 16, 13, 13}));
  const UOp maxima = reduce(Op::Max, a, {3});
  Kernel kernel(stored(maxima, {1, 16, 13, 1}), find_target("opencl"));
  EXPECT_EQ(axes_text(kernel), "g208 r13");
  EXPECT_TRUE(kernel.try_apply(parse_opt("PADTO(1,32)")).has_value());
  kernel.apply(parse_opts("PADTO(0,32) UPCAST(0,4) UPCAST(0,7)"));
  EXPECT_EQ(axes_text(kernel), "g8 r13 u4 u7");
  kernel.apply(parse_opt("UPCAST(0,0)"));
  EXPECT_EQ(axes_text(kernel), "r13 u4 u7 u8");
}

// S2: a grouped and unrolled sum of a range.
TEST(Cases, S2_grouping_and_unrolling_a_long_sum) {
  for (const auto& [size, opts, axes] :
       std::vector<std::tuple<int, const char*, const char*>>{{1024, "GROUP(0,16) UNROLL(1,4)", "G16 r16 x4"},
                                                              {1024, "GROUP(0,16) UNROLL(0,4)", "G4 r64 x4"},
                                                              {60000, "GROUP(0,16) UNROLL(1,0)", ""},
                                                              {1024, "GROUPTOP(0,16) UNROLL(0,0)", "r64 x16"}}) {
    Graph graph;
    const UOp a = load(graph, 1, Scalar::Int32, tracker({size}));
    Kernel kernel(stored(reduce(Op::Add, a, {0}), {1}), find_target("opencl"));
    if (*axes == '\0') {
      EXPECT_THROW(kernel.apply(parse_opts(opts)), OptError) << opts;  // 3750 is too much to unroll
      continue;
    }
    kernel.apply(parse_opts(opts));
    EXPECT_EQ(axes_text(kernel), axes) << opts;
  }
}

// S3: exp(0) is 1, so a sum of exponentials is not padded; a sum of what keeps zeros is, also grouped and upcasted.
TEST(Cases, S3_only_sums_of_what_keeps_zeros_are_padded) {
  Graph graph;
  Kernel exponentials(sums_of_exp2(graph, 32, 250), find_target("opencl"));
  EXPECT_TRUE(exponentials.try_apply(parse_opt("PADTO(1,32)")).has_value());
  EXPECT_FALSE(exponentials.try_apply(parse_opt("LOCAL(0,4)")).has_value());

  const UOp a = load(graph, 1, Scalar::Float, tracker({30, 250}));
  Kernel squares(stored(reduce(Op::Add, a * a, {1}), {30, 1}), find_target("opencl"));
  squares.apply(parse_opts("PADTO(1,32) PADTO(0,32) GROUP(0,4) UPCAST(0,2) UPCAST(0,4)"));
  EXPECT_EQ(axes_text(squares), "g4 G4 r64 u2 u4");
}

// S5: more shared memory than there is, is an opt error; a gather's nested reduces are grouped or refused.
TEST(Cases, S5_shared_memory_and_nested_reduces) {
  Graph graph;
  Kernel large(row_sums(graph, 4, 65536), find_target("opencl"));
  EXPECT_THROW(large.apply(parse_opt("GROUP(0,16384)")), OptError);

  const UOp table = load(graph, 1, Scalar::UInt8, expand(tracker({1, 50000}), {1024, 50000}));
  const UOp gathered = reduce(Op::Add, table, {1});
  Kernel nested(stored(reduce(Op::Max, gathered, {0}), {1, 1}), find_target("opencl"));
  EXPECT_EQ(axes_text(nested), "r1024 r50000");
  nested.apply(parse_opt("GROUPTOP(1,16)"));
  EXPECT_EQ(axes_text(nested), "G16 r1024 r3125");
  EXPECT_EQ(nodes_of(nested.optimized_ast(), Op::DefineLocal).size(), 2u);
}

}  // namespace
}  // namespace quern
