// CUDA C++, for nvcc and NVRTC with -fmad=false.
#include <algorithm>

#include <fmt/format.h>

#include "quern/error.h"

#include "render/c_dialect.h"
#include "render/c_writer.h"

namespace quern {

namespace {

std::string work_item(char kind, int dimension) {
  char axis = "xyz"[dimension];
  if (kind == 'g') return fmt::format("blockIdx.{}", axis);
  if (kind == 'l') return fmt::format("threadIdx.{}", axis);
  return fmt::format("blockIdx.{0} * blockDim.{0} + threadIdx.{0}", axis);
}

std::string kernel(const Launch& launch) {
  if (!launch.has_items) return "extern \"C\" __global__ void ";
  return fmt::format("extern \"C\" __global__ void __launch_bounds__({}) ", launch.items_of_group());
}

bool is_built_in(const DType& t) {
  constexpr ScalarSet kBuiltIn = scalar_bit(Scalar::Bool) | scalar_bit(Scalar::Int8) | scalar_bit(Scalar::UInt8) |
                                 scalar_bit(Scalar::Int16) | scalar_bit(Scalar::UInt16) | scalar_bit(Scalar::Int32) |
                                 scalar_bit(Scalar::UInt32) | scalar_bit(Scalar::Float);
  if (t.count == 2 && t.is_in(scalar_bit(Scalar::Half) | scalar_bit(Scalar::Double))) return true;
  return (t.count == 2 || t.count == 4) && t.is_in(kBuiltIn);
}

std::string vector_name(const DType& t) {
  return is_built_in(t) ? plain_vector_name(t) : fmt::format("{}x{}", to_string(t.scalar), t.count);
}

std::string declare_vector(const CDialect& dialect, const DType& t) {
  if (is_built_in(t)) return {};
  std::string lanes;
  for (int i = 0; i < t.count; ++i) lanes += (i == 0 ? "" : ", ") + lane_name(t.count, i);
  return fmt::format("struct __align__({}) {} {{ {} {}; }};\n", std::min(t.itemsize(), 16), dialect.vector_name(t),
                     dialect.type(t.scalar).memory, lanes);
}

/// PTX ISA, "mma.m16n8k16": registers of 32 bits hold two elements of A and B, one of C; and, of tf32, "mma.m16n8k8": one of each,
/// rounded.
std::string mma(CPrelude& prelude, const WmmaArg& arg, const DType& a, const DType& b, const DType& c) {
  const bool tf32 = arg.dtype_in == Scalar::Float;
  const int k = tf32 ? 8 : 16, lanes_a = tf32 ? 4 : 8;
  if (arg.dims != std::array<int32_t, 3>{8, 16, k} || a.count != lanes_a || b.count != lanes_a / 2 ||
      c != DType(Scalar::Float, 4))
    throw InternalError("CUDA has no form for tensor core " + arg.name);
  std::string_view type = tf32 ? "tf32" : arg.dtype_in == Scalar::Half ? "f16" : "bf16";
  constexpr std::string_view kRegisters =
      "\n  const unsigned int* ra = (const unsigned int*)&a;\n  const unsigned int* rb = (const unsigned int*)&b;\n";
  constexpr std::string_view kRounded =
      "\n  const float* fa = (const float*)&a;\n  const float* fb = (const float*)&b;\n  unsigned int ra[4], rb[2];\n"
      "  for (int i = 0; i < 4; i++) asm(\"cvt.rna.tf32.f32 %0, %1;\" : \"=r\"(ra[i]) : \"f\"(fa[i]));\n"
      "  for (int i = 0; i < 2; i++) asm(\"cvt.rna.tf32.f32 %0, %1;\" : \"=r\"(rb[i]) : \"f\"(fb[i]));\n";
  return prelude.function(
      arg.name, "float4", fmt::format("{} a, {} b, float4 c", prelude.type(a), prelude.type(b)),
      fmt::format(
          "{0}"
          "  asm(\"mma.sync.aligned.m16n8k{1}.row.col.f32.{2}.{2}.f32 {{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, "
          "%9}}, "
          "{{%0, %1, %2, %3}};\"\n"
          "      : \"+f\"(c.x), \"+f\"(c.y), \"+f\"(c.z), \"+f\"(c.w)\n"
          "      : \"r\"(ra[0]), \"r\"(ra[1]), \"r\"(ra[2]), \"r\"(ra[3]), \"r\"(rb[0]), \"r\"(rb[1]));\n  return c;\n",
          tf32 ? kRounded : kRegisters, k, type));
}

CDialect make_cuda(bool has_bfloat16) {
  CDialect d;
  d.language = "CUDA C++";
  const CTypes native{"nv_bfloat16", "nv_bfloat16", "", "#include <cuda_bf16.h>\n"};
  const CTypes bits{"bfloat16", "bfloat16", "", "typedef unsigned short bfloat16;\n"};
  d.types = c_types("bool", {"half", "half", "", "#include <cuda_fp16.h>\n"}, has_bfloat16 ? native : bits);
  d.bits = has_bfloat16 ? 0 : scalar_bit(Scalar::BFloat16);
  d.direct = static_cast<ScalarSet>(scalar_bit(Scalar::Half) | (has_bfloat16 ? scalar_bit(Scalar::BFloat16) : 0));
  d.direct_calls = {"__hadd_rn", "__hsub_rn", "__hmul_rn"};  // never joined into one operation
  d.long_suffix = "LL";
  d.ulong_suffix = "ULL";
  d.math_float = {"sqrtf", "exp2f", "log2f", "sinf", "__int_as_float(0x7fc00000)", "__int_as_float(0x7f800000)"};
  d.math_double = {"sqrt",
                   "exp2",
                   "log2",
                   "sin",
                   "__longlong_as_double(0x7ff8000000000000LL)",
                   "__longlong_as_double(0x7ff0000000000000LL)"};
  d.bitcast = "__builtin_bit_cast({0}, {1})";
  d.vector = "make_{0}({1})";
  d.vector_name = vector_name;
  d.vector_declaration = declare_vector;
  d.vector_maker = "{0}{{{1}}}";
  d.function = "static __device__ inline ";
  d.kernel = kernel;
  d.buffer = "{0}{1}* __restrict__ {2}";
  d.variable = "const {0} {1}";
  d.work_item = work_item;
  d.local = "__shared__ __align__(16) {0} {1}[{2}];";
  d.barrier = "__syncthreads();";
  d.wmma = mma;
  return d;
}

}  // namespace

const CDialect& cuda_dialect(bool has_bfloat16) {
  static const CDialect with = make_cuda(true), without = make_cuda(false);
  return has_bfloat16 ? with : without;
}

}  // namespace quern
