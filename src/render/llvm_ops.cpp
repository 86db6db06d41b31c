#include "render/llvm_ops.h"

#include <algorithm>
#include <array>
#include <variant>

#include <fmt/format.h>

#include "quern/error.h"

#include "ir/eval.h"
#include "render/facts.h"

namespace quern {

namespace {

std::string_view scalar_name(Scalar s) {
  constexpr std::array<std::string_view, kNumScalars> kNames = {
      "void", "i1", "i8", "i8", "i16", "i16", "i32", "i32", "i64", "i64", "half", "i16", "float", "double", ""};
  if (s == Scalar::Index) throw InternalError("an index-typed value in a linear program");
  return kNames[static_cast<size_t>(s)];
}

bool is_signed(Scalar s) { return (scalar_bit(s) & kSignedInts) != 0; }

constexpr std::string_view kLongMin = "-9223372036854775808";
constexpr std::string_view kTwo63 = "0x43E0000000000000", kMinusTwo63 = "0xC3E0000000000000";

}  // namespace

std::string llvm_type(const DType& t) {
  std::string_view element = scalar_name(t.scalar);
  return t.count == 1 ? std::string(element) : fmt::format("<{} x {}>", t.count, element);
}

std::string llvm_memory_type(const DType& t) { return llvm_type(t.is_bool() ? DType(Scalar::UInt8, t.count) : t); }

std::string llvm_lanes_suffix(const DType& t) {
  const bool is_float = t.is_float() && t.scalar != Scalar::BFloat16;
  return fmt::format("v{}{}{}", t.count, is_float ? 'f' : 'i', 8 * bytes_of(t.scalar));
}

std::string llvm_literal(UOp constant) {
  Scalar s = constant.dtype().scalar;
  if (s == Scalar::Bool) return constant.const_int() != 0 ? "true" : "false";
  if (!constant.dtype().is_float()) return to_string(constant.const_int());
  ConstBits value = const_of_float(s, constant.const_float());
  if (s == Scalar::Half) return fmt::format("0xH{:04X}", memory_bits(s, value));
  if (s == Scalar::BFloat16) return fmt::format("{}", memory_bits(s, value));
  return fmt::format("0x{:016X}", value.bits);
}

std::string LlvmOps::declarations() const {
  std::string text;
  for (const std::string& d : declared_) text += d;
  return text;
}

std::string LlvmOps::type_of_lanes(std::string_view type) const {
  return lanes_ == 1 ? std::string(type) : fmt::format("<{} x {}>", lanes_, type);
}

/// A value, or a literal for every lane.
LlvmValue LlvmOps::of_lanes(std::string_view type, std::string_view value) const {
  const bool literal = value.front() != '%' && value.front() != '<' && !value.starts_with("splat");
  return lanes_ > 1 && literal ? fmt::format("splat ({} {})", type, value) : std::string(value);
}

LlvmValue LlvmOps::binary(std::string_view instruction, std::string_view type, const LlvmValue& a, const LlvmValue& b) {
  return emit(instruction, ' ', type_of_lanes(type), ' ', of_lanes(type, a), ", ", of_lanes(type, b));
}

LlvmValue LlvmOps::select(const LlvmValue& condition, std::string_view type, const LlvmValue& yes,
                          const LlvmValue& no) {
  const std::string lanes = type_of_lanes(type);
  return emit("select ", type_of_lanes("i1"), ' ', of_lanes("i1", condition), ", ", lanes, ' ', of_lanes(type, yes),
              ", ", lanes, ' ', of_lanes(type, no));
}

LlvmValue LlvmOps::convert(std::string_view instruction, std::string_view from, const LlvmValue& x,
                           std::string_view to) {
  return emit(instruction, ' ', type_of_lanes(from), ' ', of_lanes(from, x), " to ", type_of_lanes(to));
}

LlvmValue LlvmOps::intrinsic(std::string_view name, std::string_view type, const std::vector<LlvmValue>& args) {
  std::string suffix(type == "float" ? "f32" : type == "double" ? "f64" : type == "half" ? "f16" : type);
  if (lanes_ > 1) suffix = concat('v', lanes_, suffix);
  const std::string lanes = type_of_lanes(type);
  std::string types, values;
  for (const LlvmValue& a : args) {
    types += concat(types.empty() ? "" : ", ", lanes);
    values += concat(values.empty() ? "" : ", ", lanes, ' ', of_lanes(type, a));
  }
  declare(concat("declare ", lanes, " @llvm.", name, '.', suffix, '(', types, ")\n"));
  return emit("call ", lanes, " @llvm.", name, '.', suffix, '(', values, ')');
}

void LlvmOps::declare(std::string declaration) {
  if (std::find(declared_.begin(), declared_.end(), declaration) == declared_.end())
    declared_.push_back(std::move(declaration));
}

LlvmValue LlvmOps::compute(UOp u, const std::vector<LlvmValue>& src, bool contract) {
  lanes_ = u.dtype().count;
  Scalar s = u.dtype().scalar;
  switch (u.op()) {
    case Op::Cast: return cast(u, src[0]);
    case Op::Bitcast: return bitcast(u, src[0]);
    case Op::Cmplt:
    case Op::Cmpne: return comparison(u, src);
    case Op::Where: return select(src[0], scalar_name(s), src[1], src[2]);
    default: break;
  }
  if (s == Scalar::Bool) return bool_op(u, src);
  if (s == Scalar::BFloat16) {
    std::vector<LlvmValue> wide;
    for (const LlvmValue& x : src) wide.push_back(float_from_bfloat16(x));
    if (u.is(Op::Mulacc)) {
      LlvmValue product = bfloat16_from_float(binary("fmul", "float", wide[0], wide[1]));
      return bfloat16_from_float(binary("fadd", "float", float_from_bfloat16(product), wide[2]));
    }
    return bfloat16_from_float(float_op(u, Scalar::Float, wide, false));
  }
  return u.dtype().is_float() ? float_op(u, s, src, contract) : int_op(u, src);
}

LlvmValue LlvmOps::bool_op(UOp u, const std::vector<LlvmValue>& src) {
  switch (u.op()) {
    case Op::Mul:
    case Op::Idiv:
    case Op::And: return binary("and", "i1", src[0], src[1]);
    case Op::Add:
    case Op::Max:
    case Op::Or: return binary("or", "i1", src[0], src[1]);
    case Op::Sub:
    case Op::Xor: return binary("xor", "i1", src[0], src[1]);
    case Op::Neg: return src[0];
    case Op::Mod: return "false";
    case Op::Shl:
    case Op::Shr:
      return binary(
          "and", "i1", src[0],
          binary("icmp eq", scalar_name(u.src(1).dtype().scalar), src[1], u.src(1).dtype().is_bool() ? "false" : "0"));
    case Op::Mulacc: return binary("or", "i1", binary("and", "i1", src[0], src[1]), src[2]);
    default: cannot_render(u, "LLVM IR");
  }
}

LlvmValue LlvmOps::int_op(UOp u, const std::vector<LlvmValue>& src) {
  Scalar s = u.dtype().scalar;
  std::string_view t = scalar_name(s);
  bool sure = is_signed(s) && u.is({Op::Add, Op::Sub, Op::Mul, Op::Neg}) && cannot_overflow(u);
  switch (u.op()) {
    case Op::Add: return binary(sure ? "add nsw" : "add", t, src[0], src[1]);
    case Op::Sub: return binary(sure ? "sub nsw" : "sub", t, src[0], src[1]);
    case Op::Mul: return binary(sure ? "mul nsw" : "mul", t, src[0], src[1]);
    case Op::Neg: return binary(sure ? "sub nsw" : "sub", t, "0", src[0]);
    case Op::Mulacc: return binary("add", t, binary("mul", t, src[0], src[1]), src[2]);
    case Op::And: return binary("and", t, src[0], src[1]);
    case Op::Or: return binary("or", t, src[0], src[1]);
    case Op::Xor: return binary("xor", t, src[0], src[1]);
    case Op::Max: return intrinsic(is_signed(s) ? "smax" : "umax", t, src);
    case Op::Idiv:
    case Op::Mod: return division(u, src);
    case Op::Shl:
    case Op::Shr: return shift(u, src);
    default: cannot_render(u, "LLVM IR");
  }
}

/// Where the divisor may be 0, or -1 under the least number, 1 stands in for it: it gives MIN / -1 and both remainders their
/// wrapped value, and x / 0 is put right after.
LlvmValue LlvmOps::division(UOp u, const std::vector<LlvmValue>& src) {
  Scalar s = u.dtype().scalar;
  std::string_view t = scalar_name(s), one = "1";
  bool quotient = u.is(Op::Idiv), zero = may_be_zero(u.src(1));
  std::string_view instruction = is_signed(s) ? (quotient ? "sdiv" : "srem") : (quotient ? "udiv" : "urem");
  if (division_is_plain(u)) return binary(instruction, t, src[0], src[1]);
  LlvmValue is_zero = zero ? binary("icmp eq", t, src[1], "0") : LlvmValue();
  LlvmValue unsafe = is_zero;
  if (is_signed(s)) {
    LlvmValue least = binary("icmp eq", t, src[0], to_string(min_value(s)));
    LlvmValue wraps = binary("and", "i1", least, binary("icmp eq", t, src[1], "-1"));
    unsafe = zero ? binary("or", "i1", is_zero, wraps) : wraps;
  }
  LlvmValue result = binary(instruction, t, src[0], select(unsafe, t, std::string(one), src[1]));
  return quotient && zero ? select(is_zero, t, "0", result) : result;
}

LlvmValue LlvmOps::shift(UOp u, const std::vector<LlvmValue>& src) {
  Scalar s = u.dtype().scalar, distance_type = u.src(1).dtype().scalar;
  std::string_view t = scalar_name(s), from = scalar_name(distance_type);
  int bits = bits_of(s), distance_bits = bits_of(distance_type);
  LlvmValue n = src[1];
  bool arithmetic = u.is(Op::Shr) && is_signed(s);
  std::string_view instruction = u.is(Op::Shl) ? "shl" : arithmetic ? "ashr" : "lshr";
  bool plain = shift_is_plain(u);
  // Negative distances are large unsigned ones.
  LlvmValue inside = plain ? LlvmValue() : binary("icmp ult", from, n, std::to_string(bits));
  if (distance_bits != bits) n = convert(distance_bits > bits ? "trunc" : "zext", from, n, t);
  if (plain) return binary(instruction, t, src[0], n);
  if (arithmetic) return binary(instruction, t, src[0], select(inside, t, n, std::to_string(bits - 1)));
  return select(inside, t, binary(instruction, t, src[0], n), "0");
}

LlvmValue LlvmOps::float_op(UOp u, Scalar s, const std::vector<LlvmValue>& src, bool contract) {
  std::string_view t = scalar_name(s);
  std::string_view one = s == Scalar::Half ? "0xH3C00" : "1.0";
  switch (u.op()) {
    case Op::Add: return binary(contract ? "fadd contract" : "fadd", t, src[0], src[1]);
    case Op::Mul: return binary(contract ? "fmul contract" : "fmul", t, src[0], src[1]);
    case Op::Sub: return binary("fsub", t, src[0], src[1]);
    case Op::Fdiv: return binary("fdiv", t, src[0], src[1]);
    case Op::Recip: return binary("fdiv", t, std::string(one), src[0]);
    case Op::Mulacc: return binary("fadd", t, binary("fmul", t, src[0], src[1]), src[2]);
    case Op::Neg: return emit("fneg ", type_of_lanes(t), ' ', of_lanes(t, src[0]));
    case Op::Sqrt: return intrinsic("sqrt", t, src);
    case Op::Max: {
      if (s != Scalar::Half) return intrinsic("maximum", t, src);
      // LLVM 19 gives maximum.f16(0, NaN) = 0. The sum is right for zeros (0 over -0) and NaNs.
      LlvmValue left = binary("fcmp oeq", t, src[0], "0xH0000"), right = binary("fcmp oeq", t, src[1], "0xH0000");
      LlvmValue zeros = binary("and", "i1", left, right);
      LlvmValue special = binary("or", "i1", zeros, binary("fcmp uno", t, src[0], src[1]));
      LlvmValue larger = select(binary("fcmp ogt", t, src[0], src[1]), t, src[0], src[1]);
      return select(special, t, binary("fadd", t, src[0], src[1]), larger);
    }
    default: cannot_render(u, "LLVM IR");
  }
}

LlvmValue LlvmOps::comparison(UOp u, const std::vector<LlvmValue>& src) {
  Scalar s = u.src(0).dtype().scalar;
  bool less = u.is(Op::Cmplt);
  if (s == Scalar::BFloat16) {
    LlvmValue a = float_from_bfloat16(src[0]), b = float_from_bfloat16(src[1]);
    return binary(less ? "fcmp olt" : "fcmp une", "float", a, b);
  }
  if (u.src(0).dtype().is_float()) return binary(less ? "fcmp olt" : "fcmp une", scalar_name(s), src[0], src[1]);
  std::string_view predicate = !less ? "icmp ne" : is_signed(s) ? "icmp slt" : "icmp ult";
  return binary(predicate, scalar_name(s), src[0], src[1]);
}

// --- conversions ---

LlvmValue LlvmOps::float_from_bfloat16(const LlvmValue& x) {
  return convert("bitcast", "i32", binary("shl", "i32", convert("zext", "i16", x, "i32"), "16"), "float");
}

/// To nearest even; a NaN stays one.
LlvmValue LlvmOps::bfloat16_from_float(const LlvmValue& x) {
  LlvmValue bits = convert("bitcast", "float", x, "i32"), high = binary("lshr", "i32", bits, "16");
  LlvmValue bias = binary("add", "i32", binary("and", "i32", high, "1"), "32767");
  LlvmValue rounded = binary("lshr", "i32", binary("add", "i32", bits, bias), "16");
  LlvmValue nan = binary("fcmp uno", "float", x, x);
  return convert("trunc", "i32", select(nan, "i32", binary("or", "i32", high, "64"), rounded), "i16");
}

/// Rounds to odd: rounding the result once more, to fewer bits, gives what rounding the double itself would.
LlvmValue LlvmOps::odd_float_from_double(const LlvmValue& x) {
  LlvmValue nearest = convert("fptrunc", "double", x, "float"), back = convert("fpext", "float", nearest, "double");
  LlvmValue bits = convert("bitcast", "float", nearest, "i32");
  LlvmValue size = intrinsic("fabs", "double", {back}), wanted = intrinsic("fabs", "double", {x});
  LlvmValue above = binary("fcmp ogt", "double", size, wanted);
  LlvmValue truncated = binary("sub", "i32", bits, convert("zext", "i1", above, "i32"));
  LlvmValue exact = binary("fcmp ueq", "double", back, x);
  return convert("bitcast", "i32", select(exact, "i32", bits, binary("or", "i32", truncated, "1")), "float");
}

/// A 64-bit int of which a double holds all that matters to rounding it to few bits.
LlvmValue LlvmOps::sticky_low_bits(const LlvmValue& x) {
  LlvmValue low = binary("icmp ne", "i64", binary("and", "i64", x, "2047"), "0");
  LlvmValue sticky = binary("or", "i64", x, binary("shl", "i64", convert("zext", "i1", low, "i64"), "11"));
  return binary("and", "i64", sticky, "-2048");
}

LlvmValue LlvmOps::int_to_float(Scalar from, Scalar to, const LlvmValue& x) {
  std::string_view instruction = is_signed(from) ? "sitofp" : "uitofp";
  if (to == Scalar::Half)
    return convert("fptrunc", "float", convert(instruction, scalar_name(from), x, "float"), "half");
  if (to != Scalar::BFloat16) return convert(instruction, scalar_name(from), x, scalar_name(to));
  LlvmValue wide = convert(instruction, scalar_name(from), x, "double");
  if (bits_of(from) == 64) {
    LlvmValue large = binary("fcmp oge", "double", intrinsic("fabs", "double", {wide}), "0x4340000000000000");
    wide = select(large, "double", convert(instruction, "i64", sticky_low_bits(x), "double"), wide);
  }
  return bfloat16_from_float(odd_float_from_double(wide));
}

LlvmValue LlvmOps::float_to_int(Scalar from, Scalar to, const LlvmValue& x) {
  if (from == Scalar::BFloat16) return float_to_int(Scalar::Float, to, float_from_bfloat16(x));
  if (from == Scalar::Half) return float_to_int(Scalar::Float, to, convert("fpext", "half", x, "float"));
  std::string_view t = scalar_name(from);
  std::string two63(kTwo63), least(kLongMin);
  auto to_long = [&](const LlvmValue& v) {
    LlvmValue not_below = binary("fcmp oge", t, v, std::string(kMinusTwo63)), below = binary("fcmp olt", t, v, two63);
    LlvmValue inside = binary("and", "i1", not_below, below);
    return select(inside, "i64", convert("fptosi", t, v, "i64"), least);
  };
  if (to != Scalar::UInt64) {
    LlvmValue wide = to_long(x);
    return bits_of(to) == 64 ? wide : convert("trunc", "i64", wide, scalar_name(to));
  }
  LlvmValue large = binary("fcmp oge", t, x, two63);
  LlvmValue low = to_long(select(large, t, binary("fsub", t, x, two63), x));
  return binary("or", "i64", low, select(large, "i64", least, "0"));
}

LlvmValue LlvmOps::float_to_float(Scalar from, Scalar to, const LlvmValue& x) {
  if (from == Scalar::BFloat16) {
    LlvmValue wide = float_from_bfloat16(x);
    return to == Scalar::Float ? wide : float_to_float(Scalar::Float, to, wide);
  }
  if (to == Scalar::BFloat16) {
    LlvmValue single = from == Scalar::Double ? odd_float_from_double(x)
                       : from == Scalar::Half ? convert("fpext", "half", x, "float")
                                              : x;
    return bfloat16_from_float(single);
  }
  if (from == Scalar::Double && to == Scalar::Half)
    return convert("fptrunc", "float", odd_float_from_double(x), "half");
  return convert(bytes_of(to) > bytes_of(from) ? "fpext" : "fptrunc", scalar_name(from), x, scalar_name(to));
}

LlvmValue LlvmOps::cast(UOp u, const LlvmValue& x) {
  const DType& source = u.src(0).dtype();
  Scalar from = source.scalar, to = u.dtype().scalar;
  if (from == to) return x;
  if (to == Scalar::Bool) {
    if (from == Scalar::BFloat16) return binary("fcmp une", "float", float_from_bfloat16(x), "0.0");
    return binary(source.is_float() ? "fcmp une" : "icmp ne", scalar_name(from), x,
                  from == Scalar::Half ? "0xH0000"
                  : source.is_float()  ? "0.0"
                                       : "0");
  }
  if (source.is_float()) return u.dtype().is_float() ? float_to_float(from, to, x) : float_to_int(from, to, x);
  if (u.dtype().is_float()) return int_to_float(from, to, x);
  int a = bits_of(from), b = bits_of(to);
  if (a == b) return x;
  return convert(b < a ? "trunc" : is_signed(from) ? "sext" : "zext", scalar_name(from), x, scalar_name(to));
}

LlvmValue LlvmOps::bitcast(UOp u, const LlvmValue& x) {
  Scalar from = u.src(0).dtype().scalar, to = u.dtype().scalar;
  std::string_view a = scalar_name(from), b = scalar_name(to);
  if (a == b) return x;
  if (to == Scalar::Bool) return binary("icmp ne", a, x, "0");
  if (from == Scalar::Bool) return convert("zext", a, x, b);
  return convert("bitcast", a, x, b);
}

}  // namespace quern
