// OpenCL C 1.2, and what Intel's and Qualcomm's devices add.
#include <fmt/format.h>

#include "quern/error.h"

#include "render/c_dialect.h"
#include "render/c_writer.h"

namespace quern {

namespace {

std::string work_item(char kind, int dimension) {
  return fmt::format("{}({})",
                     kind == 'g'   ? "get_group_id"
                     : kind == 'l' ? "get_local_id"
                                   : "get_global_id",
                     dimension);
}

std::string kernel(const Launch& launch) {
  if (!launch.has_items) return "__kernel void ";
  const auto& n = launch.items;
  return fmt::format("__kernel __attribute__((reqd_work_group_size({}, {}, {}))) void ", n[0].value(), n[1].value(),
                     n[2].value());
}

/// Eight work items share a matrix.
std::string intel_kernel(const Launch& launch) {
  return (launch.has_tensor_core ? "__attribute__((intel_reqd_sub_group_size(8)))\n" : "") + kernel(launch);
}

/// Of a type held as bits: the bits' vectors.
std::string vector_name(const DType& t) {
  return plain_vector_name(t.scalar == Scalar::BFloat16 ? DType(Scalar::UInt16, t.count) : t);
}
std::string half_bits_vector_name(const DType& t) {
  return vector_name(t.scalar == Scalar::Half ? DType(Scalar::UInt16, t.count) : t);
}

std::string matrix_mad(CPrelude& prelude, const WmmaArg& arg, const DType& a, const DType& b, const DType& c) {
  if (arg.dims != std::array<int32_t, 3>{8, 8, 16} || a.count != 16 || b.count != 16 || c != DType(Scalar::Float, 8))
    throw InternalError("Intel has no form for tensor core " + arg.name);
  std::string_view type = arg.dtype_in == Scalar::Half ? "f16" : "bf16";
  return prelude.function(
      arg.name, "float8", fmt::format("{} a, {} b, float8 c", prelude.type(a), prelude.type(b)),
      fmt::format("return intel_sub_group_{0}_{0}_matrix_mad_k16(as_int8(a), as_int8(b), c);", type));
}

CDialect make_with_half() {
  CDialect d;
  d.language = "OpenCL C";
  d.types =
      short_types({"half", "half", "", "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"}, {"ushort", "ushort", "", ""},
                  {"double", "double", "", "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"});
  d.bits = scalar_bit(Scalar::BFloat16);
  d.direct = scalar_bit(Scalar::Half);
  d.long_suffix = "L";
  d.ulong_suffix = "UL";
  d.math_float = {"sqrt", "exp2", "log2", "sin", "NAN", "INFINITY"};
  d.math_double = {"sqrt", "exp2", "log2", "sin", "nan(0UL)", "HUGE_VAL"};
  d.bitcast = "as_{0}({1})";
  d.vector = "({0})({1})";
  d.vector_name = vector_name;
  d.vector_declaration = no_vector_declaration;
  d.no_contraction = "#pragma OPENCL FP_CONTRACT OFF\n";
  d.function = "static inline ";
  d.kernel = kernel;
  d.buffer = "__global {0}{1}* restrict {2}";
  d.variable = "const {0} {1}";
  d.image = "{0} image2d_t {1}";
  d.image_read = "read_imagef({0}, texel_sampler, {1})";
  d.image_write = "write_imagef({0}, {1}, {2});";
  d.image_header =
      "__constant sampler_t texel_sampler = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;\n";
  d.work_item = work_item;
  d.global_space = "__global ";
  d.local_space = "__local ";
  d.local = "__local {0} {1}[{2}] __attribute__((aligned(16)));";
  d.barrier = "barrier(CLK_LOCAL_MEM_FENCE);";
  return d;
}

CDialect make_portable() {
  CDialect d = make_with_half();
  const CTypes bits{"ushort", "ushort", "", ""};
  d.types[static_cast<size_t>(Scalar::Half)] = bits;
  d.bits = scalar_bit(Scalar::Half) | scalar_bit(Scalar::BFloat16);
  d.direct = 0;
  d.vector_name = half_bits_vector_name;
  d.float_of_half = "return vload_half(0, (const half*)&x);";
  d.half_of_float = "ushort bits; vstore_half_rte(x, 0, (half*)&bits); return bits;";
  return d;
}

CDialect make_intel() {
  CDialect d = make_with_half();
  d.kernel = intel_kernel;
  d.wmma = matrix_mad;
  return d;
}

}  // namespace

const CDialect& opencl_dialect() {
  static const CDialect dialect = make_portable();
  return dialect;
}
const CDialect& opencl_half_dialect() {
  static const CDialect dialect = make_with_half();
  return dialect;
}
const CDialect& intel_dialect() {
  static const CDialect dialect = make_intel();
  return dialect;
}

}  // namespace quern
