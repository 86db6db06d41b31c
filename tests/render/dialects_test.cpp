// What the C-style dialects print, and that the targets' own compilers take it without a warning.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/error.h"

#include "compile_source.h"
#include "linear_programs.h"

namespace quern {
namespace {

using test::ProgramBuilder;
using ::testing::HasSubstr;

UOp special(ProgramBuilder& b, const char* name, int64_t size) {
  return b.add(b.graph().node(Op::Special, Scalar::Int32, {}, b.graph().intern(SpecialArg{name, size})));
}

/// 16 groups of 8 items reverse, through local memory, 4 floats each; a load past `n` is gated off.
ProgramBuilder reversal() {
  ProgramBuilder b;
  UOp out = b.buffer(Scalar::Float, 0), in = b.buffer(Scalar::Float, 1);
  UOp n = b.variable("kernel", 1, 16);
  UOp group = special(b, "gidx0", 16), item = special(b, "lidx0", 8);
  UOp local =
      b.add(Op::DefineLocal, DType(Scalar::Float).ptr(Space::Local), {}, b.graph().intern(LocalArg{"temp0", 32}));
  UOp four = b.number(4);
  UOp at = b.alu(Op::Mul, item, four);
  UOp base = b.alu(Op::Add, b.alu(Op::Mul, group, b.number(32)), at);
  UOp zero = b.real(Scalar::Float, 0);
  UOp v = b.load(b.wide(b.at(in, base), 4), b.vector({zero, zero, zero, zero}), b.alu(Op::Cmplt, group, n));
  UOp store = b.add(Op::Store, Scalar::Void, {b.wide(b.at(local, at), 4), v});
  UOp barrier = b.add(Op::Barrier, Scalar::Void, {store});
  UOp back = b.alu(Op::Sub, b.number(28), at);
  UOp w = b.add(Op::Load, DType(Scalar::Float, 4), {b.wide(b.at(local, back), 4), barrier});
  UOp first = b.lane(w, 3), second = b.lane(w, 2), third = b.lane(w, 1), last = b.lane(w, 0);
  b.store(b.wide(b.at(out, base), 4), b.vector({first, second, third, last}));
  return b;
}

UOp loaded_vector(ProgramBuilder& b, int buffer, Scalar s, int32_t lanes) {
  UOp memory = b.buffer(s, buffer);
  std::vector<UOp> all;
  for (int i = 0; i < lanes; ++i) all.push_back(b.load(b.at(memory, b.number(i))));
  return b.vector(all);
}

/// D = A * B + C by one tensor core, the lanes wherever.
ProgramBuilder tensor_core_step(const TensorCore& core, const Target& target) {
  ProgramBuilder b;
  std::array<int32_t, 3> lanes{1, 1, 1};
  for (size_t i = 0; i < 3; ++i)
    for (const AxisSize& axis : core.upcast_axes[i]) lanes[i] *= axis.size;
  UOp x = loaded_vector(b, 1, core.dtype_in, lanes[0]), y = loaded_vector(b, 2, core.dtype_in, lanes[1]);
  UOp z = loaded_vector(b, 3, core.dtype_out, lanes[2]);
  WmmaArg arg{core.name(), core.dims, core.dtype_in, core.dtype_out, target.device, 32, core.upcast_axes, {}};
  UOp d = b.add(Op::Wmma, DType(core.dtype_out, static_cast<uint16_t>(lanes[2])), {x, y, z}, b.graph().intern(arg));
  UOp out = b.buffer(core.dtype_out, 0);
  for (int i = 0; i < lanes[2]; ++i) b.store(b.at(out, b.number(i)), b.lane(d, i));
  return b;
}

/// Every operation and conversion of a type.
ProgramBuilder every_operation(Scalar s, const std::vector<Scalar>& types) {
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
  for (Op op : real ? std::vector<Op>{Op::Neg, Op::Recip, Op::Sqrt} : std::vector<Op>{Op::Neg}) keep(b.add(op, s, {x}));
  for (Scalar to : types) keep(b.add(Op::Cast, to, {x}));
  UOp truth = b.add(b.graph().constant(Scalar::Bool, 1));
  UOp negation = b.alu(Op::Cmpne, b.alu(Op::Cmplt, x, y), truth), other = b.alu(Op::Cmpne, x, y);
  for (Op op : {Op::And, Op::Or, Op::Xor, Op::Cmplt}) keep(b.alu(op, negation, other));
  for (ConstBits c : test::edge_values(s)) keep(b.alu(Op::Add, x, b.add(b.graph().const_bits(s, c))));
  b.store(b.wide(b.at(b.buffer(s, number++), at), 2), b.vector({b.lane(v, 3), b.lane(v, 0)}));
  return b;
}

std::vector<Scalar> all_but(std::initializer_list<Scalar> missing) {
  std::vector<Scalar> types = test::value_scalars();
  for (Scalar s : missing) std::erase(types, s);
  return types;
}

/// All of the above for a target, under names of their own.
std::vector<Program> programs(const Target& target, const std::vector<Scalar>& types = test::value_scalars()) {
  std::vector<Program> all;
  for (Scalar s : types)
    all.push_back(every_operation(s, types).program(target.name, "every_" + std::string(to_string(s))));
  if (target.has_local) all.push_back(reversal().program(target.name, "reversal"));
  for (const TensorCore& core : target.tensor_cores)
    all.push_back(tensor_core_step(core, target).program(target.name, "with_" + core.name()));
  return all;
}

std::string one_file(const std::vector<Program>& all) {
  std::vector<std::string> sources;
  for (const Program& p : all) sources.push_back(p.source);
  return test::joined(sources);
}

struct Spelling {
  const char* target;
  std::vector<const char*> parts;
};

TEST(Dialects, spell_threads_memory_and_barriers_their_own_way) {
  const Spelling all[] = {
      {"opencl",
       {"__kernel __attribute__((reqd_work_group_size(8, 1, 1))) void reversal(__global float* restrict data0, "
        "__global const float* restrict data1, const int var_kernel)",
        "int gidx0 = get_group_id(0);  // of 16", "__local float temp0[32]", "*(__global const float4*)(data1 + ",
        "*(__local float4*)(temp0 + ", "barrier(CLK_LOCAL_MEM_FENCE);", "(float4)(0.0f, 0.0f, 0.0f, 0.0f)"}},
      {"cuda:sm_80",
       {"extern \"C\" __global__ void __launch_bounds__(8) reversal(", "const float* __restrict__ data1",
        "int gidx0 = blockIdx.x;", "__shared__ __align__(16) float temp0[32];", "__syncthreads();",
        "make_float4(0.0f, 0.0f, 0.0f, 0.0f)"}},
      {"hip:gfx1100",
       {"amdgpu_flat_work_group_size(1, 8)", "__builtin_amdgcn_workgroup_id_x()",
        "__attribute__((shared, aligned(16))) float temp0[32];", "__builtin_amdgcn_s_barrier();",
        "ext_vector_type(4)"}},
      {"metal",
       {"[[max_total_threads_per_threadgroup(8)]] kernel void reversal(device float* data0, device const float* data1, "
        "constant int& var_kernel, uint3 group [[threadgroup_position_in_grid]], uint3 item "
        "[[thread_position_in_threadgroup]])",
        "int lidx0 = (int)item.x;", "threadgroup float temp0[32]", "*(threadgroup float4*)(temp0 + ",
        "threadgroup_barrier(mem_flags::mem_threadgroup);"}},
  };
  for (const Spelling& s : all) {
    std::string source = reversal().program(s.target, "reversal").source;
    EXPECT_THAT(source, HasSubstr("// 16 x 1 x 1 groups of 8 x 1 x 1 work items.")) << s.target;
    EXPECT_THAT(source, HasSubstr("(gidx0 < var_kernel) ? *("))
        << s.target << ": a load that is gated off touches no memory";
    for (const char* part : s.parts) EXPECT_THAT(source, HasSubstr(part)) << s.target;
  }
}

TEST(Dialects, know_the_instruction_of_each_tensor_core) {
  const Spelling all[] = {
      {"ptx:sm_80", {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {"}},
      {"cuda:sm_80",
       {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"}},
      {"hip:gfx1100", {"__builtin_amdgcn_wmma_f32_16x16x16_f16_w32", "__builtin_amdgcn_wmma_f16_16x16x16_f16_w32"}},
      {"metal",
       {"simdgroup_float8x8 ma, mb;", "simdgroup_half8x8 ma, mb;\n  simdgroup_float8x8 mc;", "simdgroup_half8x8 mc;"}},
      {"intel", {"intel_sub_group_f16_f16_matrix_mad_k16", "intel_sub_group_bf16_bf16_matrix_mad_k16"}},
  };
  for (const Spelling& s : all) {
    const Target& target = find_target(s.target);
    ASSERT_EQ(target.tensor_cores.size(), s.parts.size());
    for (size_t i = 0; i < s.parts.size(); ++i)
      EXPECT_THAT(tensor_core_step(target.tensor_cores[i], target).program(s.target).source, HasSubstr(s.parts[i]));
  }
}

TEST(Dialects, read_and_write_images_through_samplers) {
  ProgramBuilder b;
  UOp out = b.add(Op::DefineGlobal, image_type(false, 4, 8), {}, int64_t{0});
  UOp in = b.add(Op::DefineGlobal, image_type(true, 4, 8), {}, int64_t{1});
  UOp x = special(b, "idx0", 8), y = special(b, "idx1", 4);
  UOp at = b.vector({x, y});
  UOp address = b.add(Op::Index, in.dtype(), {in, at}), target = b.add(Op::Index, out.dtype(), {out, at});
  UOp zero = b.real(Scalar::Float, 0);
  UOp texel = b.add(Op::Load, DType(Scalar::Float, 4),
                    {address, b.vector({zero, zero, zero, zero}), b.alu(Op::Cmplt, x, b.number(7))});
  b.store(target, texel);
  for (const char* name : {"opencl", "qcom"}) {
    std::string source = b.program(name, "copy").source;
    EXPECT_THAT(source, HasSubstr("copy(write_only image2d_t data0, read_only image2d_t data1)"));
    EXPECT_THAT(source, HasSubstr("(idx0 < 7) ? read_imagef(data1, texel_sampler, "));
    EXPECT_THAT(source, HasSubstr("write_imagef(data0, "));
  }
  EXPECT_THROW(b.program("metal", "copy"), InvalidKernel);
}

TEST(Dialects, refuse_doubles_where_there_are_none) {
  try {
    every_operation(Scalar::Double, {Scalar::Double}).program("metal");
    FAIL();
  } catch (const InvalidKernel& e) {
    EXPECT_THAT(e.what(), HasSubstr("Metal has no double"));
  }
}

TEST(Dialects, keep_names_apart_from_their_words) {
  ProgramBuilder b;
  UOp out = b.buffer(Scalar::Int32, 0);
  UOp sum = b.variable("threadIdx", 0, 9);
  for (const char* word : {"group", "max_int", "data0", "0th", "half"})
    sum = b.alu(Op::Add, sum, b.variable(word, 0, 9));
  b.store(b.at(out, special(b, "gidx0", 4)), sum);
  std::string source = b.program("metal", "kernel").source;
  for (const char* name :
       {"var_threadIdx", "group_1", "var_max_int", "data0_1", "var_0th", "var_half", "void kernel_("})
    EXPECT_THAT(source, HasSubstr(name));
}

TEST(Dialects, cuda_is_taken_by_nvcc_without_a_warning) {
  if (!test::has_compiler("nvcc")) GTEST_SKIP() << "there is no nvcc on this machine";
  test::TemporaryFolder folder;
  for (const char* sm : {"sm_75", "sm_80", "sm_90"}) {
    std::string command =
        std::string("nvcc -std=c++17 -fmad=false -Werror all-warnings -cubin -o /dev/null -arch=") + sm;
    EXPECT_EQ(
        test::complaints(command, folder / "kernels.cu", one_file(programs(find_target(std::string("cuda:") + sm)))),
        "")
        << sm;
  }
}

TEST(Dialects, ptx_is_taken_by_ptxas) {
  if (!test::has_compiler("ptxas")) GTEST_SKIP() << "there is no ptxas on this machine";
  test::TemporaryFolder folder;
  for (std::string sm : {"sm_75", "sm_80", "sm_90"})  // half and bfloat16 are computed in float there
    for (const Program& p : programs(find_target("ptx:" + sm), all_but({Scalar::Half, Scalar::BFloat16})))
      EXPECT_EQ(test::complaints("ptxas -o /dev/null -arch=" + sm, folder / (p.name + ".ptx"), p.source), "") << sm;
}

TEST(Dialects, hip_is_taken_by_clang_without_rocm) {
  if (!test::has_compiler("clang-19")) GTEST_SKIP() << "there is no clang-19 on this machine";
  test::TemporaryFolder folder;
  std::string command =
      "clang-19 -x hip --offload-arch=gfx1100 --cuda-device-only -nogpulib -nogpuinc -O1 -Wall -Werror -S -o " +
      (folder / "kernels.s");
  EXPECT_EQ(test::complaints(command, folder / "kernels.hip", one_file(programs(find_target("hip:gfx1100")))), "");
  std::stringstream assembly;
  assembly << std::ifstream(folder / "kernels.s").rdbuf();
  for (const char* instruction : {"v_wmma_f32_16x16x16_f16", "v_wmma_f16_16x16x16_f16"})
    EXPECT_THAT(assembly.str(), HasSubstr(instruction));
}

TEST(Dialects, opencl_is_taken_by_clang_without_a_warning) {
  if (!test::has_compiler("clang-19")) GTEST_SKIP() << "there is no clang-19 on this machine";
  test::TemporaryFolder folder;
  std::ofstream(folder / "intel.h") << "float8 intel_sub_group_f16_f16_matrix_mad_k16(int8, int8, float8);\n"
                                       "float8 intel_sub_group_bf16_bf16_matrix_mad_k16(int8, int8, float8);\n";
  for (const char* target : {"opencl", "intel", "qcom"}) {
    std::string command =
        "clang-19 -x cl -cl-std=CL1.2 --target=spir64 -Xclang -finclude-default-header -fsyntax-only -Wall -Werror "
        "-include " +
        (folder / "intel.h");
    for (const Program& p : programs(find_target(target)))
      EXPECT_EQ(test::complaints(command, folder / (p.name + ".cl"), p.source), "") << target;
  }
}

TEST(Dialects, c_is_taken_by_old_and_new_compilers_without_a_warning) {
  test::TemporaryFolder folder;
  int tried = 0;
  for (const std::string compiler : {"clang-14", "clang-15", "clang-19", "clang", "gcc-12", "gcc"}) {
    if (!test::has_compiler(compiler)) continue;
    ++tried;
    const std::string command =
        compiler + " -std=c11 -O1 -march=native -ffreestanding -Wall -Werror -c -o " + (folder / "k.o");
    for (const Program& p : programs(find_target("clang")))
      EXPECT_EQ(test::complaints(command, folder / (p.name + ".c"), p.source), "") << compiler;
  }
  if (tried == 0) GTEST_SKIP() << "there is no C compiler on this machine";
}

TEST(Dialects, hexagon_c_is_taken_by_clang_and_by_this_machines_compiler_without_a_warning) {
  test::TemporaryFolder folder;
  std::vector<std::string> commands = {
      test::kHexagonAsC + " -fsyntax-only",
      "clang-19 --target=hexagon -mcpu=hexagonv65 -std=c11 -fsyntax-only -Wall -Werror"};
  for (const std::string& command : commands) {
    if (std::string compiler = command.substr(0, command.find(' ')); !test::has_compiler(compiler))
      GTEST_SKIP() << "there is no " << compiler << " on this machine";
    for (const Program& p : programs(find_target("dsp")))
      EXPECT_EQ(test::complaints(command, folder / (p.name + ".c"), p.source), "") << command;
  }
}

TEST(Dialects, metal_is_taken_as_cpp_with_a_stand_in) {
  if (!test::has_compiler("clang++-19")) GTEST_SKIP() << "there is no clang++-19 on this machine";
  test::TemporaryFolder folder;
  EXPECT_EQ(test::complaints(test::kMetalAsCpp + " -fsyntax-only", folder / "kernels.cpp",
                             one_file(programs(find_target("metal"), all_but({Scalar::Double})))),
            "");
}

}  // namespace
}  // namespace quern
