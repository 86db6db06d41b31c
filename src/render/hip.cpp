// HIP C++ that needs none of ROCm's headers or libraries: clang's AMDGPU built-ins alone.
#include <fmt/format.h>

#include "quern/error.h"

#include "render/c_dialect.h"
#include "render/c_writer.h"

namespace quern {

namespace {

std::string work_item(char kind, int dimension) {
  char axis = "xyz"[dimension];
  if (kind == 'g') return fmt::format("__builtin_amdgcn_workgroup_id_{}()", axis);
  if (kind == 'l') return fmt::format("__builtin_amdgcn_workitem_id_{}()", axis);
  return fmt::format(
      "__builtin_amdgcn_workgroup_id_{0}() * __builtin_amdgcn_workgroup_size_{0}() + "
      "__builtin_amdgcn_workitem_id_{0}()",
      axis);
}

std::string kernel(const Launch& launch) {
  if (!launch.has_items) return "extern \"C\" __attribute__((global)) void ";
  return fmt::format("extern \"C\" __attribute__((global, amdgpu_flat_work_group_size(1, {}))) void ",
                     launch.items_of_group());
}

std::string declare_vector(const CDialect& dialect, const DType& t) {
  return fmt::format("typedef {} {} __attribute__((ext_vector_type({})));\n", dialect.type(t.scalar).memory,
                     dialect.vector_name(t), t.count);
}

/// RDNA3's WMMA on waves of 32. A half result stands in every other lane of the registers.
std::string wmma(CPrelude& prelude, const WmmaArg& arg, const DType& a, const DType& b, const DType& c) {
  if (arg.dims != std::array<int32_t, 3>{16, 16, 16} || arg.dtype_in != Scalar::Half || a.count != 16 ||
      b.count != 16 || c.count != 8)
    throw InternalError("HIP has no form for tensor core " + arg.name);
  std::string parameters = fmt::format("half16 a, half16 b, {} c", prelude.type(c));
  if (arg.dtype_out == Scalar::Float)
    return prelude.function(arg.name, prelude.type(c), parameters,
                            "return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c);");
  return prelude.function(arg.name, prelude.type(c), parameters,
                          "half16 wide = (half16)(0); for (int i = 0; i < 8; i++) wide[2 * i] = c[i]; "
                          "wide = __builtin_amdgcn_wmma_f16_16x16x16_f16_w32(a, b, wide, false); "
                          "for (int i = 0; i < 8; i++) c[i] = wide[2 * i]; return c;");
}

CDialect make_hip() {
  CDialect d;
  d.language = "HIP C++";
  d.types = c_types("bool", {"half", "half", "", "typedef _Float16 half;\n"},
                    {"bfloat16", "bfloat16", "", "typedef unsigned short bfloat16;\n"});
  d.bits = scalar_bit(Scalar::BFloat16);
  d.direct = scalar_bit(Scalar::Half);
  d.long_suffix = "LL";
  d.ulong_suffix = "ULL";
  d.math_float = {"__builtin_sqrtf", "", "", "", "__builtin_nanf(\"\")", "__builtin_inff()"};
  d.math_double = {"__builtin_sqrt", "", "", "", "__builtin_nan(\"\")", "__builtin_inf()"};
  d.bitcast = "__builtin_bit_cast({0}, {1})";
  d.vector = "make_{0}({1})";
  d.vector_name = plain_vector_name;
  d.vector_declaration = declare_vector;
  d.vector_maker = "({0}){{{1}}}";
  d.no_contraction = "#pragma clang fp contract(off)\n";
  d.function = "static inline __attribute__((device)) ";
  d.kernel = kernel;
  d.buffer = "{0}{1}* __restrict__ {2}";
  d.variable = "const {0} {1}";
  d.work_item = work_item;
  d.local = "__attribute__((shared, aligned(16))) {0} {1}[{2}];";
  d.barrier =
      "__builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\"); __builtin_amdgcn_s_barrier(); "
      "__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"workgroup\");";
  d.wmma = wmma;
  return d;
}

}  // namespace

const CDialect& hip_dialect() {
  static const CDialect dialect = make_hip();
  return dialect;
}

}  // namespace quern
