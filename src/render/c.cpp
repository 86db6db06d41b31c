// C11, with gcc's and clang's vectors.
#include <fmt/format.h>

#include "quern/error.h"

#include "render/c_dialect.h"
#include "render/c_writer.h"

namespace quern {

namespace {

// Buffers are only aligned to their elements where a vector may start.
std::string declare_vector(const CDialect& dialect, const DType& t) {
  return fmt::format("typedef {} {} __attribute__((vector_size({}), aligned({}), may_alias));\n",
                     dialect.type(t.scalar).memory, dialect.vector_name(t), t.itemsize(), bytes_of(t.scalar));
}

std::string plain_function(const Launch&) { return "void "; }

/// An outer product. The vectors are passed by address: by value, their size would decide the calling convention.
std::string outer_product(CPrelude& prelude, const WmmaArg& arg, const DType& a, const DType& b, const DType& c) {
  auto [n, m, k] = arg.dims;
  if (arg.threads != 1 || k != 1 || a.count != m || b.count != n || c.count != n * m)
    throw InternalError("C has no form for tensor core " + arg.name);
  std::string parameters =
      fmt::format("const {}* a, const {}* b, {}* d", prelude.type(a), prelude.type(b), prelude.type(c));
  return prelude.function(
      arg.name, "void", parameters,
      fmt::format("for (int m = 0; m < {}; m++) for (int n = 0; n < {}; n++) (*d)[m * {} + n] += (*a)[m] * (*b)[n];", m,
                  n, n));
}

// Before version 15 clang knew halfs of x86 by another name, and passed them to no function.
constexpr std::string_view kHalf =
    "#if defined(__clang__) && __clang_major__ < 15\ntypedef __fp16 half;\n#else\ntypedef _Float16 half;\n#endif\n";

CDialect make_c11() {
  CDialect d;
  d.language = "C";
  d.types =
      c_types("_Bool", {"half", "half", "", kHalf}, {"bfloat16", "bfloat16", "", "typedef unsigned short bfloat16;\n"});
  d.bits = scalar_bit(Scalar::BFloat16);
  d.long_suffix = "LL";
  d.ulong_suffix = "ULL";
  d.math_float = {"__builtin_sqrtf", "", "", "", "__builtin_nanf(\"\")", "__builtin_inff()"};
  d.math_double = {"__builtin_sqrt", "", "", "", "__builtin_nan(\"\")", "__builtin_inf()"};
  d.vector = "({0}){{{1}}}";
  d.named_lanes = false;
  d.vector_name = plain_vector_name;
  d.vector_declaration = declare_vector;
  d.no_contraction =
      "#ifdef __clang__\n#pragma STDC FP_CONTRACT OFF\n#else\n#pragma GCC optimize(\"fp-contract=off\")\n#endif\n";
  d.function = "static inline ";
  d.kernel = plain_function;
  d.buffer = "{0}{1}* restrict {2}";
  d.variable = "const {0} {1}";
  d.no_arguments = "void";
  d.local = "_Alignas(64) {0} {1}[{2}];";
  d.wmma = outer_product;
  d.wmma_by_address = true;
  return d;
}

}  // namespace

const CDialect& c11_dialect() {
  static const CDialect dialect = make_c11();
  return dialect;
}

std::string c_entry(const Program& program, const std::string& entry) {
  std::string arguments;
  for (size_t i = 0; i < program.globals.size(); ++i) arguments += fmt::format("{}buffers[{}]", i == 0 ? "" : ", ", i);
  for (size_t i = 0; i < program.vars.size(); ++i)
    arguments += fmt::format("{}({})vars[{}]", arguments.empty() ? "" : ", ",
                             c11_dialect().type(program.vars[i].dtype().scalar).value, i);
  return fmt::format(
      "\nvoid {}(void* const* buffers, const long long* vars) {{ (void)buffers; (void)vars; {}({}); }}\n", entry,
      program.name, arguments);
}

}  // namespace quern
