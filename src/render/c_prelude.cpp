#include "render/c_prelude.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "quern/error.h"

#include "ir/eval.h"
#include "render/append.h"
#include "render/facts.h"

namespace quern {

namespace {

template <class T>
std::string shortest(T value, std::string_view suffix) {
  char text[40];
  auto [end, error] = std::to_chars(text, text + sizeof text, value);
  std::string_view digits(text, static_cast<size_t>(end - text));
  bool whole = digits.find_first_of(".e") == std::string_view::npos;
  return concat(digits, whole ? ".0" : "", suffix);
}

std::string float_literal(const CDialect& d, double value, bool single) {
  const CMath& math = single ? d.math_float : d.math_double;
  if (std::isnan(value)) return concat(std::signbit(value) ? "-" : "", math.nan);
  if (std::isinf(value)) return concat(value < 0 ? "-" : "", math.infinity);
  return single ? shortest(static_cast<float>(value), "f") : shortest(value, "");
}

std::string long_min(const CDialect& d) { return concat("(-9223372036854775807", d.long_suffix, " - 1)"); }

std::string int_literal(const CDialect& d, Scalar s, Int128 value) {
  switch (s) {
    case Scalar::Int32: return value == min_value(s) ? "(-2147483647 - 1)" : to_string(value);
    case Scalar::Int64: return value == min_value(s) ? long_min(d) : concat(to_string(value), d.long_suffix);
    case Scalar::UInt32: return to_string(value) + "u";
    case Scalar::UInt64: return concat(to_string(value), d.ulong_suffix);
    default: return to_string(value);
  }
}

// Rounding to nearest, ties to even, in integers: a half's denormals are what the addition of 0.5 leaves in the low bits.
constexpr std::string_view kHalfOfFloat =
    "{uint} bits = {bits_of_x}, sign = bits >> 16 & 0x8000, a = bits & 0x7fffffff; "
    "if (a > 0x7f800000) return ({half})(sign | 0x7e00 | (a >> 13 & 0x3ff)); "
    "if (a >= 0x477ff000) return ({half})(sign | 0x7c00); "
    "if (a < 0x38800000) {{ float f = {float_of_a} + 0.5f; return ({half})(sign | ({bits_of_f} - 0x3f000000)); }} "
    "return ({half})(sign | (a + 0xfff + (a >> 13 & 1) - 0x38000000) >> 13);";
constexpr std::string_view kFloatOfHalf =
    "{uint} sign = ({uint})(x & 0x8000) << 16, a = ({uint})(x & 0x7fff) << 13; "
    "if (a >= 0x0f800000) return {float_of_special}; "
    "float f = {float_of_a} * 5192296858534827628530496329220096.0f; return sign != 0 ? -f : f;";  // 2^112

// Two bits of the root's square a step; a root is never half way between two floats.
constexpr std::string_view kSquareRoot =
    "{ulong} bits = {bits_of_x}, q = 0, r = 0; "
    "if (!(x > 0) || bits >= {infinity}) return x == 0 || x > 0 ? x : {nan}; "
    "int e = (int)(bits >> {mantissa}); {ulong} m = bits & {mask}; "
    "if (e == 0) {{ for (e = 1; m < {one}; e--) m <<= 1; }} else m |= {one}; "
    "e -= {bias}; if (e & 1) m <<= 1, e--; "
    "for (int i = {top}; i >= {bottom}; i -= 2) {{ "
    "r = r << 2 | ((i >= 0 ? m >> i : m << -i) & 3); q <<= 1; "
    "if (r >= (q << 1 | 1)) {{ r -= q << 1 | 1; q |= 1; }} }} "
    "{ulong} root = ((q + 1) >> 1) + (({ulong})(e / 2 + {bias} - 1) << {mantissa}); return {result};";

}  // namespace

std::string plain_vector_name(const DType& t) {
  Scalar s = t.is_bool() ? Scalar::UInt8 : t.scalar;
  return concat(to_string(s), s == Scalar::BFloat16 ? "x" : "", t.count);
}

std::string no_vector_declaration(const CDialect&, const DType&) { return {}; }

std::string lane_name(int lanes, int lane) {
  if (lanes <= 4) return std::string(1, "xyzw"[lane]);
  return fmt::format("s{:x}", lane);
}

CTypeTable c_types(std::string_view bool_type, CTypes half, CTypes bfloat16) {
  constexpr std::string_view kInt = "unsigned int", kLong = "unsigned long long";
  return {{{"void", "void", "", ""},
           {bool_type, "unsigned char", kInt, ""},
           {"signed char", "signed char", kInt, ""},
           {"unsigned char", "unsigned char", kInt, ""},
           {"short", "short", kInt, ""},
           {"unsigned short", "unsigned short", kInt, ""},
           {"int", "int", kInt, ""},
           {kInt, kInt, kInt, ""},
           {"long long", "long long", kLong, ""},
           {kLong, kLong, kLong, ""},
           half,
           bfloat16,
           {"float", "float", "", ""},
           {"double", "double", "", ""},
           {}}};
}

CTypeTable short_types(CTypes half, CTypes bfloat16, CTypes double_type) {
  return {{{"void", "void", "", ""},
           {"bool", "uchar", "uint", ""},
           {"char", "char", "uint", ""},
           {"uchar", "uchar", "uint", ""},
           {"short", "short", "uint", ""},
           {"ushort", "ushort", "uint", ""},
           {"int", "int", "uint", ""},
           {"uint", "uint", "uint", ""},
           {"long", "long", "ulong", ""},
           {"ulong", "ulong", "ulong", ""},
           half,
           bfloat16,
           {"float", "float", "", ""},
           double_type,
           {}}};
}

std::string CPrelude::literal(UOp constant) {
  Scalar s = constant.dtype().scalar;
  declare(s);
  if (!constant.dtype().is_float()) return int_literal(dialect_, s, constant.const_int());
  double value = round_to(s, constant.const_float());
  if (dialect_.is_bits(s))
    return fmt::format("({})0x{:04x}", dialect_.type(s).value, memory_bits(s, const_of_float(s, value)));
  if (s == Scalar::Half || s == Scalar::BFloat16)
    return concat('(', dialect_.type(s).value, ')', float_literal(dialect_, value, true));
  return float_literal(dialect_, value, s == Scalar::Float);
}

bool CPrelude::known(std::string_view name) const {
  return std::any_of(items_.begin(), items_.end(), [&](const Item& i) { return i.first == name; });
}

std::string_view CPrelude::add(std::string name, std::string declaration) {
  for (const Item& item : items_)
    if (item.first == name) return item.first;
  return items_.emplace_back(std::move(name), std::move(declaration)).first;
}

std::string CPrelude::function(std::string name, std::string_view result, std::string_view parameters,
                               std::string_view body) {
  if (!known(name)) add(name, concat(dialect_.function, result, ' ', name, '(', parameters, ") { ", body, " }\n"));
  return name;
}

void CPrelude::declare(Scalar s) {
  if (declared_ & scalar_bit(s)) return;
  declared_ |= scalar_bit(s);
  if (s == Scalar::Index) throw InternalError("an index-typed value in a linear program");
  if (dialect_.type(s).value.empty()) throw InvalidKernel(concat(dialect_.language, " has no ", to_string(s)));
  scalar_declarations_ += dialect_.type(s).declaration;
}

std::string_view CPrelude::memory_type(Scalar s) {
  declare(s);
  return dialect_.type(s).memory;
}

std::string_view CPrelude::type(const DType& t) {
  declare(t.scalar);
  if (t.count == 1) return dialect_.type(t.scalar).value;
  std::string name = dialect_.vector_name(t);
  for (const Item& item : items_)
    if (item.first == name) return item.first;
  if (!std::has_single_bit(unsigned{t.count}))
    throw InternalError(concat("a vector of ", t.count, " lanes in ", dialect_.language));
  return add(name, dialect_.vector_declaration(dialect_, t));
}

std::string CPrelude::vector(const DType& t, std::string_view lanes) {
  std::string_view name = type(t);
  if (!dialect_.vector_maker.empty() && !dialect_.vector_declaration(dialect_, t).empty()) {
    std::string parameters, values;
    for (int i = 0; i < t.count; ++i) {
      std::string lane = lane_name(t.count, i), separator = i == 0 ? "" : ", ";
      parameters += concat(separator, dialect_.type(t.scalar).memory, ' ', lane);
      values += separator + lane;
    }
    function(concat("make_", name), name, parameters,
             concat("return ", fmt::format(fmt::runtime(dialect_.vector_maker), name, values), ';'));
  }
  return fmt::format(fmt::runtime(dialect_.vector), name, lanes);
}

std::string CPrelude::division(Op op, Scalar s) {
  bool is_div = op == Op::Idiv;
  std::string name = concat(is_div ? "idiv" : "mod", '_', to_string(s));
  std::string_view t = type(s), wrapping = wrapping_type(s);
  std::string body;
  if (scalar_bit(s) & kUnsignedInts) {
    body = concat("return b == 0 ? 0 : a ", is_div ? '/' : '%', " b;");
  } else if (is_div) {
    body = concat("return b == 0 ? 0 : b == -1 ? (", t, ")(0 - (", wrapping, ")a) : a / b;");
  } else {
    body = "return b == 0 || b == -1 ? 0 : a % b;";
  }
  return function(name, t, concat(t, " a, ", t, " b"), body);
}

std::string CPrelude::shift(Op op, Scalar s) {
  int bits = bits_of(s);
  std::string_view t = type(s);
  std::string name = concat(op == Op::Shl ? "shl" : "shr", '_', to_string(s));
  // A negative distance is a large one in `n`.
  std::string body;
  if (op == Op::Shl) {
    body = concat("return n < ", bits, " ? (", t, ")((", wrapping_type(s), ")a << n) : 0;");
  } else if (scalar_bit(s) & kSignedInts) {
    body = concat("return a >> (n < ", bits, " ? n : ", bits - 1, ");");
  } else {
    body = concat("return n < ", bits, " ? a >> n : 0;");
  }
  return function(name, t, concat(t, " a, ", type(Scalar::UInt64), " n"), body);
}

std::string CPrelude::maximum(Scalar s) {
  std::string name = concat("max_", to_string(s));
  std::string_view t = type(s);
  std::string parameters = concat(t, " a, ", t, " b");
  // NaN wins, and 0 over -0: the sum of two zeros is that.
  if (scalar_bit(s) & kFloats)
    return function(name, t, parameters, "return a == 0 && b == 0 ? a + b : a != a || a > b ? a : b;");
  return function(name, t, parameters, "return a < b ? b : a;");
}

std::string CPrelude::to_long(Scalar from) {
  std::string_view t = type(Scalar::Int64), f = from == Scalar::Float ? "f" : "";
  return function(concat("long_from_", to_string(from)), t, concat(type(from), " x"),
                  fmt::format("return x >= -9223372036854775808.0{0} && x < 9223372036854775808.0{0} ? ({1})x : {2};",
                              f, t, long_min(dialect_)));
}

std::string CPrelude::to_ulong(Scalar from) {
  std::string signed_version = to_long(from);
  std::string_view t = type(Scalar::UInt64), f = from == Scalar::Float ? "f" : "";
  return function(
      concat("ulong_from_", to_string(from)), t, concat(type(from), " x"),
      fmt::format(
          "return x >= 9223372036854775808.0{0} ? ({1}){2}(x - 9223372036854775808.0{0}) | 1{3} << 63 : ({1}){2}(x);",
          f, t, signed_version, dialect_.ulong_suffix));
}

std::string CPrelude::bitcast(Scalar from, Scalar to, std::string_view text) {
  if (!dialect_.bitcast.empty()) return fmt::format(fmt::runtime(dialect_.bitcast), type(to), text);
  const auto is_half = [&](Scalar s) { return s == Scalar::Half && !dialect_.is_bits(s); };
  if (is_half(from) || is_half(to))  // not all of C's compilers pass them to functions
    return concat("((union { ", memory_type(from), " from; ", memory_type(to), " to; }){ ", text, " }).to");
  std::string name = concat(to_string(to), "_bits_of_", to_string(from));
  function(name, type(to), concat(type(from), " x"),
           concat("union { ", memory_type(from), " from; ", memory_type(to), " to; } u = { x }; return u.to;"));
  return concat(name, '(', text, ')');
}

std::string CPrelude::float_from(Scalar narrow) {
  std::string name = concat("float_from_", to_string(narrow));
  if (known(name)) return name;
  std::string parameter = concat(type(narrow), " x");
  std::string_view word = type(Scalar::UInt32);
  if (narrow == Scalar::BFloat16)
    return function(name, "float", parameter,
                    concat("return ", bitcast(Scalar::UInt32, Scalar::Float, fmt::format("({})x << 16", word)), ';'));
  if (!dialect_.float_of_half.empty()) return function(name, "float", parameter, dialect_.float_of_half);
  auto as_float = [&](std::string_view text) { return bitcast(Scalar::UInt32, Scalar::Float, text); };
  return function(name, "float", parameter,
                  fmt::format(kFloatOfHalf, fmt::arg("uint", word), fmt::arg("float_of_a", as_float("a")),
                              fmt::arg("float_of_special", as_float("sign | 0x7f800000 | a"))));
}

/// Rounds to odd: rounding the result once more, to fewer bits, gives what rounding the double itself would.
std::string CPrelude::odd_float_from_double() {
  if (known("odd_float_from_double")) return "odd_float_from_double";
  std::string bits = bitcast(Scalar::Float, Scalar::UInt32, "f");
  std::string value = bitcast(Scalar::UInt32, Scalar::Float, "bits");
  return function("odd_float_from_double", "float", concat(type(Scalar::Double), " x"),
                  fmt::format("float f = (float)x; if (x != x || f == x) return f; {} bits = {}; "
                              "if (x > 0 ? f > x : f < x) bits--; bits |= 1; return {};",
                              type(Scalar::UInt32), bits, value));
}

/// A float expression rounded to half or bfloat16.
std::string CPrelude::rounded_to(Scalar narrow, const std::string& text) {
  if (!dialect_.is_bits(narrow)) return concat('(', type(narrow), ")(", text, ')');
  return concat(to_narrow(Scalar::Float, narrow), '(', text, ')');
}

std::string CPrelude::bfloat16_from_int(Scalar from) {
  std::string name = concat("bfloat16_from_", to_string(from));
  if (known(name)) return name;
  std::string result = rounded_to(Scalar::BFloat16, "negative ? -f * scale : f * scale");
  std::string_view word = type(Scalar::UInt64);
  bool is_signed = (scalar_bit(from) & kSignedInts) != 0;
  // Bits too low to matter but as a whole (is there anything) are gathered in one, so that the float is exact.
  return function(name, type(Scalar::BFloat16), concat(type(from), " x"),
                  fmt::format("int negative = {0}; {1} a = negative ? 0 - ({1})x : ({1})x; float scale = 1.0f; "
                              "if (a >> 40) a = a >> 24 | ((a & 0xffffff) != 0), scale = 16777216.0f; "
                              "if (a >> 32) a = a >> 16 | ((a & 0xffff) != 0), scale *= 65536.0f; "
                              "else if (a >> 24) a = a >> 8 | ((a & 0xff) != 0), scale *= 256.0f; "
                              "float f = (float)a; return {2};",
                              is_signed ? "x < 0" : "0", word, result));
}

std::string CPrelude::to_narrow(Scalar from, Scalar to) {
  std::string name = concat(to_string(to), "_from_", to_string(from));
  if (known(name)) return name;
  std::string_view t = type(to);
  std::string parameter = concat(type(from), " x");
  if (from == Scalar::Double) {
    if (!dialect_.is_bits(to)) return concat('(', t, ')', odd_float_from_double());
    return function(name, t, parameter, concat("return ", rounded_to(to, odd_float_from_double() + "(x)"), ';'));
  }
  std::string_view word = type(Scalar::UInt32);
  std::string bits = bitcast(Scalar::Float, Scalar::UInt32, "x");
  if (to == Scalar::BFloat16)
    return function(name, t, parameter,
                    fmt::format("{0} bits = {1}; if (x != x) return ({2})(bits >> 16 | 0x40); "
                                "return ({2})((bits + 0x7fff + (bits >> 16 & 1)) >> 16);",
                                word, bits, t));
  if (!dialect_.half_of_float.empty()) return function(name, t, parameter, dialect_.half_of_float);
  return function(name, t, parameter,
                  fmt::format(kHalfOfFloat, fmt::arg("uint", word), fmt::arg("half", t), fmt::arg("bits_of_x", bits),
                              fmt::arg("float_of_a", bitcast(Scalar::UInt32, Scalar::Float, "a")),
                              fmt::arg("bits_of_f", bitcast(Scalar::Float, Scalar::UInt32, "f"))));
}

std::string CPrelude::square_root(Scalar s) {
  std::string name = concat("sqrt_", to_string(s));
  if (known(name)) return name;
  bool single = s == Scalar::Float;
  Scalar word = single ? Scalar::UInt32 : Scalar::UInt64;
  int mantissa = single ? 23 : 52, bias = single ? 127 : 1023;
  auto constant = [&](uint64_t bits) { return fmt::format("0x{:x}{}", bits, dialect_.ulong_suffix); };
  uint64_t one = uint64_t{1} << mantissa;
  // The root of m * 2^(mantissa + 2) has a bit more than the result.
  std::string_view t = type(s);
  std::string bits = bitcast(s, word, "x"), result = bitcast(word, s, concat('(', type(word), ")root"));
  return function(name, t, concat(t, " x"),
                  fmt::format(kSquareRoot, fmt::arg("ulong", type(Scalar::UInt64)), fmt::arg("bits_of_x", bits),
                              fmt::arg("infinity", constant(uint64_t(2 * bias + 1) << mantissa)),
                              fmt::arg("nan", single ? dialect_.math_float.nan : dialect_.math_double.nan),
                              fmt::arg("mantissa", mantissa), fmt::arg("mask", constant(one - 1)),
                              fmt::arg("one", constant(one)), fmt::arg("bias", bias), fmt::arg("top", mantissa),
                              fmt::arg("bottom", -(mantissa + 2)), fmt::arg("result", result)));
}

std::string CPrelude::text() const {
  std::string all = scalar_declarations_;
  for (const Item& item : items_) all += item.second;
  return all;
}

}  // namespace quern
