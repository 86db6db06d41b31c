// What a program is besides its source, and the source itself where its form matters.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/error.h"

#include "linear_programs.h"
#include "render/facts.h"

namespace quern {
namespace {

using test::ProgramBuilder;
using ::testing::HasSubstr;
using ::testing::Not;

UOp special(ProgramBuilder& b, const char* name, SInt size) {
  return b.add(b.graph().node(Op::Special, Scalar::Int32, {}, b.graph().intern(SpecialArg{name, size})));
}

/// data0[i] = data1[i] + 1 on a GPU, i of gidx0 and lidx0
ProgramBuilder gpu_add(SInt groups) {
  ProgramBuilder b;
  UOp out = b.buffer(Scalar::Float, 0), in = b.buffer(Scalar::Float, 1);
  UOp g = special(b, "gidx0", groups), l = special(b, "lidx0", 8);
  UOp i = b.alu(Op::Add, b.alu(Op::Mul, g, b.number(8)), l);
  b.store(b.at(out, i), b.alu(Op::Add, b.load(b.at(in, i)), b.real(Scalar::Float, 1)));
  return b;
}

TEST(Program, has_its_launch_dims_buffers_and_outputs) {
  Program p = gpu_add(4).program("cuda:sm_80", "E_4_8");
  EXPECT_EQ(p.name, "E_4_8");
  ASSERT_TRUE(p.global_size && p.local_size);
  EXPECT_EQ(*p.global_size, (std::array<SInt, 3>{4, 1, 1}));
  EXPECT_EQ(*p.local_size, (std::array<SInt, 3>{8, 1, 1}));
  EXPECT_EQ(p.globals, (std::vector<int>{0, 1}));
  EXPECT_EQ(p.outs, std::vector<int>{0});
  EXPECT_EQ(p.buffer_types.at(1), DType(Scalar::Float).ptr());
}

TEST(Program, has_no_local_size_where_work_items_stand_alone) {
  ProgramBuilder b;
  UOp out = b.buffer(Scalar::Float, 0);
  b.store(b.at(out, special(b, "idx0", 12)), b.real(Scalar::Float, 1));
  Program p = b.program("cuda:sm_80");
  EXPECT_EQ(*p.global_size, (std::array<SInt, 3>{12, 1, 1}));
  EXPECT_FALSE(p.local_size);
}

TEST(Program, has_no_launch_dims_on_targets_without_threads) {
  ProgramBuilder b;
  UOp out = b.buffer(Scalar::Float, 0);
  b.store(b.at(out, b.number(0)), b.real(Scalar::Float, 1));
  EXPECT_FALSE(b.program("clang").global_size);
  EXPECT_FALSE(b.program("llvm").local_size);
}

TEST(Program, estimates_work_without_index_arithmetic) {
  Program p = gpu_add(4).program("cuda:sm_80");
  EXPECT_EQ(p.estimates.ops, 32);
  EXPECT_EQ(p.estimates.load_store_bytes, 32 * 8);
}

TEST(Program, estimates_stay_symbolic_and_absurd_sizes_saturate) {
  ProgramBuilder b;
  UOp n = b.graph().variable("n", 1, 100);
  UOp out = b.buffer(Scalar::Float, 0);
  UOp zero = b.number(0), end = b.add(b.graph().variable("n", 1, 100, Scalar::Int32));
  UOp i = b.range(zero, end, 0);
  b.store(b.at(out, i), b.real(Scalar::Float, 1));
  b.end(i);
  EXPECT_EQ(estimate(b.linear()).load_store_bytes.expr(), n * 4);

  ProgramBuilder huge;
  UOp data = huge.buffer(Scalar::Float, 0);
  std::vector<UOp> loops;
  for (int axis = 0; axis < 8; ++axis) loops.push_back(huge.range(2000000000, axis));
  huge.store(huge.at(data, huge.number(0)), huge.real(Scalar::Float, 1));
  for (size_t k = loops.size(); k-- > 0;) huge.end(loops[k]);
  EXPECT_EQ(estimate(huge.linear()).load_store_bytes, std::numeric_limits<int64_t>::max());
}

TEST(Program, variables_stand_in_order_of_name) {
  ProgramBuilder b;
  UOp out = b.buffer(Scalar::Int32, 0);
  UOp z = b.variable("z", 0, 5), a = b.variable("a", 0, 5);
  b.store(b.at(out, z), a);
  Program p = b.program("clang", "f");
  EXPECT_EQ(p.vars, (std::vector<UOp>{a, z}));
  EXPECT_THAT(p.source, HasSubstr("void f(int* restrict data0, const int a, const int z) {"));
  EXPECT_THAT(p.source, HasSubstr("data0[z] = a;"));
}

TEST(Program, with_an_image_is_refused_on_targets_without) {
  ProgramBuilder b;
  b.add(b.graph().node(Op::DefineGlobal, image_type(true, 4, 8), {}, int64_t{2}));
  for (const char* target : {"clang", "llvm", "cuda:sm_80"}) {
    try {
      b.program(target, "r_4");
      FAIL() << target;
    } catch (const InvalidKernel& e) {
      EXPECT_EQ(std::string(e.what()), "kernel r_4 uses the image dtypes.imageh((4, 8, 4)) (buffer 2), and target " +
                                           std::string(target) + " has no images");
    }
  }
}

TEST(Program, is_the_same_text_each_time) {
  auto text = [](const char* target) {
    ProgramBuilder b;
    UOp out = b.buffer(Scalar::Half, 0), in = b.buffer(Scalar::Int64, 1);
    UOp i = b.range(9, 0);
    UOp x = b.load(b.at(in, i));
    UOp y = b.alu(Op::Idiv, x, b.alu(Op::Add, x, b.number(Scalar::Int64, 1)));
    b.store(b.at(out, i), b.add(Op::Cast, Scalar::Half, {y}));
    b.end(i);
    return b.program(target).source;
  };
  for (const char* target : {"clang", "llvm"}) EXPECT_EQ(text(target), text(target));
}

std::string comment_above(const std::string& source) {
  std::istringstream lines(source);
  std::string comment;
  for (std::string line; std::getline(lines, line) && (line.starts_with("// ") || line.starts_with("; "));)
    comment += line + "\n";
  return comment;
}

TEST(Header, tells_how_the_kernel_was_laid_out_in_every_language) {
  Graph graph;
  const KernelLayout layout{{{16, AxisKind::Global},
                             {8, AxisKind::Local},
                             {2, AxisKind::GroupReduce},
                             {3, AxisKind::UpcastMid},
                             {SInt(graph.variable("n", 1, 100)), AxisKind::Reduce},
                             {4, AxisKind::Upcast},
                             {5, AxisKind::Unroll}},
                            {{OptOp::LOCAL, 0, 8}, {OptOp::NOLOCALS, {}, {}}}};
  const std::string axes =
      "axes: 16 global, 8 local, 2 group reduce, 3 mid upcast, 1..100 reduce, 4 upcast, 5 unroll\n";
  for (const std::string target :
       {"clang", "dsp", "llvm", "opencl", "cuda:sm_80", "ptx:sm_80", "metal", "hip:gfx1100"}) {
    const bool threads = find_target(target).has_local;
    const std::string mark = target == "llvm" ? "; " : "// ";
    ProgramBuilder one, many = gpu_add(4);
    one.store(one.at(one.buffer(Scalar::Float, 0), one.number(0)), one.real(Scalar::Float, 1));
    const std::string source = render("E_4", (threads ? many : one).linear(), find_target(target), layout).source;
    EXPECT_EQ(comment_above(source), mark + "E_4, for " + target + ": writes data0.\n" + mark + axes + mark +
                                         "opts: LOCAL(0,8) NOLOCALS\n" +
                                         (threads ? mark + "4 x 1 x 1 groups of 8 x 1 x 1 work items.\n" : ""));
  }
}

TEST(Header, tells_of_no_layout_where_a_program_is_rendered_alone) {
  EXPECT_EQ(comment_above(gpu_add(4).program("metal", "E_4_8").source),
            "// E_4_8, for metal: writes data0.\n// 4 x 1 x 1 groups of 8 x 1 x 1 work items.\n");
  EXPECT_EQ(comment_above(render("E", gpu_add(4).linear(), find_target("metal"), {{{4, AxisKind::Global}}, {}}).source),
            "// E, for metal: writes data0.\n// axes: 4 global\n// opts: none\n"
            "// 4 x 1 x 1 groups of 8 x 1 x 1 work items.\n");
}

/// The C of one store of `make(x, y)` for two loaded ints.
template <class F>
std::string c_of(Scalar s, F&& make) {
  ProgramBuilder b;
  UOp out = b.buffer(s, 0), in = b.buffer(s, 1), zero = b.number(0);
  UOp x = b.load(b.at(in, zero)), y = b.load(b.at(in, b.number(1)));
  b.store(b.at(out, zero), make(b, x, y));
  return b.program("clang").source;
}

TEST(C, guards_only_what_bounds_do_not_prove) {
  auto positive = [](ProgramBuilder& b, UOp x) { return b.alu(Op::And, x, b.number(15)); };
  EXPECT_THAT(c_of(Scalar::Int32, [](auto& b, UOp x, UOp y) { return b.alu(Op::Idiv, x, y); }),
              HasSubstr("data0[0] = idiv_int(val0, val1);"));
  EXPECT_THAT(c_of(Scalar::Int32, [](auto& b, UOp x, UOp) { return b.alu(Op::Idiv, x, b.number(3)); }),
              HasSubstr("data0[0] = val0 / 3;"));
  EXPECT_THAT(c_of(Scalar::Int32, [](auto& b, UOp x, UOp y) { return b.alu(Op::Add, x, y); }),
              HasSubstr("(int)((unsigned int)val0 + (unsigned int)val1);"));
  EXPECT_THAT(c_of(Scalar::Int32, [&](auto& b, UOp x, UOp) { return b.alu(Op::Add, positive(b, x), b.number(-7)); }),
              HasSubstr("data0[0] = (val0 & 15) - 7;"));
  EXPECT_THAT(c_of(Scalar::Int32, [&](auto& b, UOp x, UOp) { return b.alu(Op::Shl, positive(b, x), b.number(4)); }),
              HasSubstr("data0[0] = (val0 & 15) << 4;"));
  EXPECT_THAT(c_of(Scalar::Int32, [](auto& b, UOp x, UOp y) { return b.alu(Op::Shr, x, y); }),
              HasSubstr("data0[0] = shr_int(val0, val1);"));
}

TEST(C, spells_constants_exactly) {
  auto literal = [](Scalar s, double value) {
    std::string source = c_of(s, [&](auto& b, UOp, UOp) { return b.real(s, value); });
    size_t start = source.find("data0[0] = ") + 11;
    return source.substr(start, source.find(';', start) - start);
  };
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(literal(Scalar::Float, 0.1), "0.1f");
  EXPECT_EQ(literal(Scalar::Float, 16777217.0), "16777216.0f");
  EXPECT_EQ(literal(Scalar::Float, -0.0), "-0.0f");
  EXPECT_EQ(literal(Scalar::Double, 0.1), "0.1");
  EXPECT_EQ(literal(Scalar::Float, -inf), "-__builtin_inff()");
  EXPECT_EQ(literal(Scalar::Double, std::nan("")), "__builtin_nan(\"\")");
}

TEST(C, says_that_products_and_sums_do_not_fuse_only_where_there_are_both) {
  auto sum = [](ProgramBuilder& b, UOp x, UOp y) { return b.alu(Op::Add, x, y); };
  auto fused = [](ProgramBuilder& b, UOp x, UOp y) { return b.alu(Op::Add, b.alu(Op::Mul, x, y), y); };
  EXPECT_THAT(c_of(Scalar::Float, sum), Not(HasSubstr("FP_CONTRACT")));
  EXPECT_THAT(c_of(Scalar::Float, fused), HasSubstr("#pragma STDC FP_CONTRACT OFF"));
}

/// Every op on every dtype in one C file a dtype, under the names of both compilers.
TEST(C, is_taken_by_gcc_and_clang_without_a_warning) {
  namespace fs = std::filesystem;
  fs::path folder = fs::temp_directory_path() / ("quern-render-test-" + std::to_string(std::rand()));
  fs::create_directories(folder);
  int compilers = 0;
  for (std::string compiler : {"gcc", "clang-19"}) {
    if (std::system((compiler + " --version > /dev/null 2>&1").c_str()) != 0) continue;
    ++compilers;
    for (Scalar s : test::value_scalars()) {
      ProgramBuilder b;
      UOp in = b.buffer(s, 0), at = b.number(0);
      bool real = (scalar_bit(s) & kFloats) != 0;
      UOp x = b.load(b.at(in, at)), y = b.load(b.at(in, b.number(1)));
      UOp v = b.load(b.wide(b.at(in, at), 4));
      int number = 1;
      auto keep = [&](UOp value) { b.store(b.at(b.buffer(value.dtype().scalar, number++), at), value); };
      for (Op op : {Op::Add, Op::Sub, Op::Mul, Op::Max, Op::Cmplt, Op::Cmpne}) keep(b.alu(op, x, y));
      for (Op op : real ? std::vector<Op>{Op::Fdiv}
                        : std::vector<Op>{Op::Idiv, Op::Mod, Op::And, Op::Or, Op::Xor, Op::Shl, Op::Shr})
        keep(b.alu(op, x, y));
      for (Op op : real ? std::vector<Op>{Op::Neg, Op::Recip, Op::Sqrt} : std::vector<Op>{Op::Neg})
        keep(b.add(op, s, {x}));
      for (Scalar to : test::value_scalars()) keep(b.add(Op::Cast, to, {x}));
      for (ConstBits c : test::edge_values(s)) keep(b.alu(Op::Add, x, b.add(b.graph().const_bits(s, c))));
      b.store(b.wide(b.at(b.buffer(s, number++), at), 2), b.vector({b.lane(v, 3), b.lane(v, 0)}));
      std::string file = (folder / (std::string(to_string(s)) + ".c")).string();
      std::ofstream(file) << b.program("clang").source;
      std::string command =
          compiler + " -std=c11 -O1 -Wall -Wextra -Werror -c -o /dev/null " + file + " > " + file + ".log 2>&1";
      int status = std::system(command.c_str());
      std::ifstream log(file + ".log");
      EXPECT_EQ(status, 0) << compiler << " on " << to_string(s) << ":\n" << log.rdbuf();
    }
  }
  fs::remove_all(folder);
  if (compilers == 0) GTEST_SKIP() << "neither gcc nor clang-19 is on this machine";
}

TEST(Llvm, marks_only_a_reductions_sum_as_one_to_fuse) {
  ProgramBuilder b;
  UOp out = b.buffer(Scalar::Float, 0), in = b.buffer(Scalar::Float, 1);
  UOp start = b.number(0), end = b.number(8), zero = b.real(Scalar::Float, 0);
  UOp loop = b.graph().node(Op::Range, Scalar::Int32, {start, end}, RangeArg{0, true});
  UOp acc = b.add(b.accumulator(zero, {loop}));
  b.add(loop);
  UOp x = b.load(b.at(in, loop));
  UOp sum = b.assign(acc, b.alu(Op::Add, acc, b.alu(Op::Mul, x, x)));
  b.end(loop);
  b.store(b.at(out, start), b.alu(Op::Add, b.alu(Op::Mul, sum, sum), sum));
  std::string source = b.program("llvm").source;
  EXPECT_THAT(source, HasSubstr("fmul contract float"));
  EXPECT_THAT(source, HasSubstr("fadd contract float %acc0"));
  EXPECT_THAT(source, HasSubstr("fmul float"));
  EXPECT_THAT(source, HasSubstr("fadd float"));
}

TEST(Renderers, name_what_they_cannot_write) {
  ProgramBuilder b;
  UOp out = b.buffer(Scalar::Float, 0), zero = b.number(0);
  b.store(b.at(out, zero), b.add(Op::Sin, Scalar::Float, {b.real(Scalar::Float, 1)}));
  for (const char* target : {"clang", "llvm"}) {
    try {
      b.program(target);
      FAIL() << target;
    } catch (const InternalError& e) {
      EXPECT_THAT(e.what(), HasSubstr("cannot write SIN of dtypes.float in ")) << target;
    }
  }
}

}  // namespace
}  // namespace quern
