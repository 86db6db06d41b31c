// The Metal shading language, version 3.1 where there are bfloat16s.
#include <fmt/format.h>

#include "quern/error.h"

#include "render/c_dialect.h"
#include "render/c_writer.h"

namespace quern {

namespace {

std::string work_item(char kind, int dimension) {
  return fmt::format("(int){}.{}", kind == 'g' ? "group" : kind == 'l' ? "item" : "position", "xyz"[dimension]);
}

std::string kernel(const Launch& launch) {
  if (!launch.has_items) return "kernel void ";
  return fmt::format("[[max_total_threads_per_threadgroup({})]] kernel void ", launch.items_of_group());
}

std::string vector_name(const DType& t) {
  return t.scalar == Scalar::BFloat16 ? fmt::format("bfloat{}", t.count) : plain_vector_name(t);
}

/// The 32 threads of a simdgroup hold two elements each of an 8 x 8 matrix.
std::string simdgroup_matrix(CPrelude& prelude, const WmmaArg& arg, const DType& a, const DType& b, const DType& c) {
  if (arg.dims != std::array<int32_t, 3>{8, 8, 8} || a.count != 2 || b.count != 2 || c.count != 2)
    throw InternalError("Metal has no form for tensor core " + arg.name);
  std::string_view in = prelude.type(arg.dtype_in), out = prelude.type(arg.dtype_out), result = prelude.type(c);
  return prelude.function(arg.name, result, fmt::format("{} a, {} b, {} c", prelude.type(a), prelude.type(b), result),
                          fmt::format("\n  simdgroup_{0}8x8 ma, mb;\n  simdgroup_{1}8x8 mc;\n"
                                      "  ma.thread_elements()[0] = a.x;\n  ma.thread_elements()[1] = a.y;\n"
                                      "  mb.thread_elements()[0] = b.x;\n  mb.thread_elements()[1] = b.y;\n"
                                      "  mc.thread_elements()[0] = c.x;\n  mc.thread_elements()[1] = c.y;\n"
                                      "  simdgroup_multiply_accumulate(mc, ma, mb, mc);\n"
                                      "  return {2}(mc.thread_elements()[0], mc.thread_elements()[1]);\n",
                                      in, out, result));
}

CDialect make_metal() {
  CDialect d;
  d.language = "Metal";
  d.types = short_types({"half", "half", "", ""}, {"bfloat", "bfloat", "", ""}, {});
  d.direct = scalar_bit(Scalar::Half);
  d.long_suffix = "L";
  d.ulong_suffix = "UL";
  d.math_float = {"precise::sqrt", "precise::exp2", "precise::log2", "precise::sin", "NAN", "INFINITY"};
  d.bitcast = "as_type<{0}>({1})";
  d.vector = "{0}({1})";
  d.vector_name = vector_name;
  d.vector_declaration = no_vector_declaration;
  d.header = "#include <metal_stdlib>\nusing namespace metal;\n";
  d.no_contraction = "#pragma METAL fp contract(off)\n";
  d.function = "static inline ";
  d.kernel = kernel;
  d.buffer = "device {0}{1}* {2}";
  d.variable = "constant {0}& {1}";
  d.work_item = work_item;
  d.work_item_parameters = {"uint3 group [[threadgroup_position_in_grid]]",
                            "uint3 item [[thread_position_in_threadgroup]]",
                            "uint3 position [[thread_position_in_grid]]"};
  d.global_space = "device ";
  d.local_space = "threadgroup ";
  d.local = "threadgroup {0} {1}[{2}] __attribute__((aligned(16)));";
  d.barrier = "threadgroup_barrier(mem_flags::mem_threadgroup);";
  d.wmma = simdgroup_matrix;
  return d;
}

}  // namespace

const CDialect& metal_dialect() {
  static const CDialect dialect = make_metal();
  return dialect;
}

}  // namespace quern
