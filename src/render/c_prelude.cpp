#include "render/c_prelude.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "ir/eval.h"
#include "quern/error.h"
#include "render/facts.h"

namespace quern {

namespace {

struct CTypes {
  std::string_view value;
  std::string_view memory;
  std::string_view wrapping;
};
constexpr std::array<CTypes, kNumScalars> kTypes = {{
    {"void", "void", ""},
    {"_Bool", "unsigned char", "unsigned int"},
    {"signed char", "signed char", "unsigned int"},
    {"unsigned char", "unsigned char", "unsigned int"},
    {"short", "short", "unsigned int"},
    {"unsigned short", "unsigned short", "unsigned int"},
    {"int", "int", "unsigned int"},
    {"unsigned int", "unsigned int", "unsigned int"},
    {"long long", "long long", "unsigned long long"},
    {"unsigned long long", "unsigned long long", "unsigned long long"},
    {"half", "half", ""},
    {"bfloat16", "bfloat16", ""},
    {"float", "float", ""},
    {"double", "double", ""},
    {"", "", ""},
}};
const CTypes& types(Scalar s) {
  if (s == Scalar::Index) throw InternalError("an index-typed value in a linear program");
  return kTypes[static_cast<size_t>(s)];
}

template <class T>
std::string shortest(T value, std::string_view suffix) {
  char text[40];
  auto [end, error] = std::to_chars(text, text + sizeof text, value);
  std::string_view digits(text, static_cast<size_t>(end - text));
  bool whole = digits.find_first_of(".e") == std::string_view::npos;
  return fmt::format("{}{}{}", digits, whole ? ".0" : "", suffix);
}

std::string float_literal(double value, bool single) {
  std::string_view f = single ? "f" : "";
  if (std::isnan(value)) return fmt::format("{}__builtin_nan{}(\"\")", std::signbit(value) ? "-" : "", f);
  if (std::isinf(value)) return fmt::format("{}__builtin_inf{}()", value < 0 ? "-" : "", f);
  return single ? shortest(static_cast<float>(value), "f") : shortest(value, "");
}

std::string int_literal(Scalar s, Int128 value) {
  switch (s) {
    case Scalar::Int32: return value == min_value(s) ? "(-2147483647 - 1)" : to_string(value);
    case Scalar::Int64: return value == min_value(s) ? "(-9223372036854775807LL - 1)" : to_string(value) + "LL";
    case Scalar::UInt32: return to_string(value) + "u";
    case Scalar::UInt64: return to_string(value) + "ULL";
    default: return to_string(value);
  }
}

}  // namespace

std::string_view c_type(Scalar s) { return types(s).value; }
std::string_view c_memory_type(Scalar s) { return types(s).memory; }
std::string_view c_wrapping_type(Scalar s) { return types(s).wrapping; }

std::string c_literal(UOp constant) {
  Scalar s = constant.dtype().scalar;
  if (!constant.dtype().is_float()) return int_literal(s, constant.const_int());
  double value = round_to(s, constant.const_float());
  if (s == Scalar::Half) return "(half)" + float_literal(value, true);
  if (s == Scalar::BFloat16) return fmt::format("(bfloat16)0x{:04x}", memory_bits(s, const_of_float(s, value)));
  return float_literal(value, s == Scalar::Float);
}

bool CPrelude::known(std::string_view name) const {
  return std::any_of(items_.begin(), items_.end(), [&](const Item& i) { return i.first == name; });
}

std::string_view CPrelude::add(std::string name, std::string declaration) {
  for (const Item& item : items_)
    if (item.first == name) return item.first;
  return items_.emplace_back(std::move(name), std::move(declaration)).first;
}

std::string CPrelude::function(std::string name, std::string_view result, std::string_view parameters, std::string_view body) {
  if (!known(name)) add(name, fmt::format("static inline {} {}({}) {{ {} }}\n", result, name, parameters, body));
  return name;
}

std::string_view CPrelude::type(const DType& t) {
  if (t.scalar == Scalar::Half) add("half", "typedef _Float16 half;\n");
  if (t.scalar == Scalar::BFloat16) add("bfloat16", "typedef unsigned short bfloat16;\n");
  if (t.count == 1) return c_type(t.scalar);
  std::string name = fmt::format("{}{}", to_string(t.scalar), t.count);
  for (const Item& item : items_)
    if (item.first == name) return item.first;
  if (!std::has_single_bit(unsigned{t.count})) throw InternalError("a vector of " + std::to_string(t.count) + " lanes in C");
  // Buffers are only aligned to their elements where a vector may start.
  return add(name, fmt::format("typedef {} {} __attribute__((vector_size({}), aligned({}), may_alias));\n", c_memory_type(t.scalar),
                               name, t.itemsize(), bytes_of(t.scalar)));
}

std::string CPrelude::division(Op op, Scalar s) {
  bool is_div = op == Op::Idiv;
  std::string name = fmt::format("{}_{}", is_div ? "idiv" : "mod", to_string(s));
  std::string_view t = c_type(s), wrapping = c_wrapping_type(s);
  std::string body;
  if (scalar_bit(s) & kUnsignedInts) {
    body = fmt::format("return b == 0 ? 0 : a {} b;", is_div ? '/' : '%');
  } else if (is_div) {
    body = fmt::format("return b == 0 ? 0 : b == -1 ? ({})(0 - ({})a) : a / b;", t, wrapping);
  } else {
    body = "return b == 0 || b == -1 ? 0 : a % b;";
  }
  return function(name, t, fmt::format("{} a, {} b", t, t), body);
}

std::string CPrelude::shift(Op op, Scalar s) {
  int bits = bits_of(s);
  std::string_view t = c_type(s);
  std::string name = fmt::format("{}_{}", op == Op::Shl ? "shl" : "shr", to_string(s));
  // A negative distance is a large one in `n`.
  std::string body;
  if (op == Op::Shl) {
    body = fmt::format("return n < {} ? ({})(({})a << n) : 0;", bits, t, c_wrapping_type(s));
  } else if (scalar_bit(s) & kSignedInts) {
    body = fmt::format("return a >> (n < {} ? n : {});", bits, bits - 1);
  } else {
    body = fmt::format("return n < {} ? a >> n : 0;", bits);
  }
  return function(name, t, fmt::format("{} a, unsigned long long n", t), body);
}

std::string CPrelude::maximum(Scalar s) {
  std::string name = fmt::format("max_{}", to_string(s));
  std::string_view t = c_type(s);
  std::string parameters = fmt::format("{} a, {} b", t, t);
  // NaN wins, and 0 over -0: the sum of two zeros is that.
  if (scalar_bit(s) & kFloats)
    return function(name, t, parameters, "return a == 0 && b == 0 ? a + b : a != a || a > b ? a : b;");
  return function(name, t, parameters, "return a < b ? b : a;");
}

std::string CPrelude::to_long(Scalar from) {
  bool single = from == Scalar::Float;
  std::string_view f = single ? "f" : "";
  return function(fmt::format("long_from_{}", to_string(from)), "long long", fmt::format("{} x", c_type(from)),
                  fmt::format("return x >= -0x1p63{0} && x < 0x1p63{0} ? (long long)x : -9223372036854775807LL - 1;", f));
}

std::string CPrelude::to_ulong(Scalar from) {
  std::string t(c_type(from)), signed_version = to_long(from), two63 = from == Scalar::Float ? "0x1p63f" : "0x1p63";
  return function(fmt::format("ulong_from_{}", to_string(from)), "unsigned long long", t + " x",
                  fmt::format("return x >= {0} ? (unsigned long long){1}(x - {0}) | 1ULL << 63 : (unsigned long long){1}(x);", two63,
                              signed_version));
}

std::string CPrelude::bitcast(Scalar from, Scalar to) {
  return function(fmt::format("{}_bits_of_{}", to_string(to), to_string(from)), type(to), fmt::format("{} x", type(from)),
                  fmt::format("union {{ {} from; {} to; }} u = {{ x }}; return u.to;", c_memory_type(from), c_memory_type(to)));
}

std::string CPrelude::float_from_bfloat16() {
  type(Scalar::BFloat16);
  return function("float_from_bfloat16", "float", "bfloat16 x",
                  "union { unsigned int bits; float value; } u = { (unsigned int)x << 16 }; return u.value;");
}

/// Rounds to odd: rounding the result once more, to fewer bits, gives what rounding the double itself would.
std::string CPrelude::odd_float_from_double() {
  return function("odd_float_from_double", "float", "double x",
                  "union { float value; unsigned int bits; } u = { (float)x }; "
                  "if (x != x || u.value == x || __builtin_isinf(x)) return u.value; "
                  "if (__builtin_fabs(u.value) > __builtin_fabs(x)) u.bits--; u.bits |= 1; return u.value;");
}

std::string CPrelude::bfloat16_from_int(Scalar from) {
  std::string narrow = to_narrow(Scalar::Double, Scalar::BFloat16);
  if (bytes_of(from) < 8) return narrow;
  // Past 2^53 the low bits only matter as a whole: is there anything below.
  return function(fmt::format("bfloat16_from_{}", to_string(from)), "bfloat16", fmt::format("{} x", c_type(from)),
                  fmt::format("double d = (double)x; if (d >= 0x1p53 || d <= -0x1p53) d = (double)((x | ((x & 2047) != 0) * 2048) & ~2047LL); "
                              "return {}(d);", narrow));
}

std::string CPrelude::to_narrow(Scalar from, Scalar to) {
  std::string name = fmt::format("{}_from_{}", to_string(to), to_string(from));
  if (known(name)) return name;
  type(to);
  if (from == Scalar::Double) {
    std::string odd = odd_float_from_double();
    if (to == Scalar::Half) return function(name, "half", "double x", fmt::format("return (half){}(x);", odd));
    std::string narrow = to_narrow(Scalar::Float, to);
    return function(name, "bfloat16", "double x", fmt::format("return {}({}(x));", narrow, odd));
  }
  return function(name, "bfloat16", "float x",
                  "union { float value; unsigned int bits; } u = { x }; "
                  "if (x != x) return (bfloat16)(u.bits >> 16 | 0x40); "
                  "return (bfloat16)((u.bits + 0x7fff + (u.bits >> 16 & 1)) >> 16);");
}

std::string CPrelude::wmma(const WmmaArg& arg, const DType& a, const DType& b, const DType& c) {
  auto [n, m, k] = arg.dims;
  if (arg.threads != 1 || k != 1 || a.count != m || b.count != n || c.count != n * m)
    throw InternalError("C has no form for tensor core " + arg.name);
  // The vectors are passed by address: by value, their size would decide the calling convention.
  std::string parameters = fmt::format("const {}* a, const {}* b, {}* d", type(a), type(b), type(c));
  return function(arg.name, "void", parameters,
                  fmt::format("for (int m = 0; m < {}; m++) for (int n = 0; n < {}; n++) (*d)[m * {} + n] += (*a)[m] * (*b)[n];", m, n, n));
}

std::string CPrelude::text() const {
  std::string all;
  for (const Item& item : items_) all += item.second;
  return all;
}

}  // namespace quern
