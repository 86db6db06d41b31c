#include "render/ptx_ops.h"

#include <bit>

#include <fmt/format.h>

#include "quern/error.h"

#include "ir/eval.h"
#include "render/facts.h"

namespace quern {

namespace {

constexpr std::array<PtxType, kNumScalars> kTypes = {{
    {0, "", "", "", ""},
    {'p', "pred", "", "u8", "pred"},
    {'h', "s16", "s8", "s8", "b16"},
    {'h', "u16", "u8", "u8", "b16"},
    {'h', "s16", "s16", "s16", "b16"},
    {'h', "u16", "u16", "u16", "b16"},
    {'r', "s32", "s32", "s32", "b32"},
    {'r', "u32", "u32", "u32", "b32"},
    {'l', "s64", "s64", "s64", "b64"},
    {'l', "u64", "u64", "u64", "b64"},
    {'h', "f16", "f16", "b16", "b16"},
    {'h', "bf16", "bf16", "b16", "b16"},
    {'f', "f32", "f32", "f32", "b32"},
    {'d', "f64", "f64", "f64", "b64"},
    {0, "", "", "", ""},
}};

bool is_real(Scalar s) { return s == Scalar::Float || s == Scalar::Double; }
bool is_narrow_float(Scalar s) { return s == Scalar::Half || s == Scalar::BFloat16; }
bool is_machine_int(Scalar s) { return (scalar_bit(s) & kMachineInts) != 0; }
bool is_register(std::string_view value) { return value.starts_with('%'); }

std::string float_immediate(Scalar s, double value) {
  if (s == Scalar::Double) return fmt::format("0d{:016X}", std::bit_cast<uint64_t>(value));
  return fmt::format("0f{:08X}", std::bit_cast<uint32_t>(static_cast<float>(value)));
}

}  // namespace

const PtxType& ptx_type(Scalar s) {
  const PtxType& type = kTypes[static_cast<size_t>(s)];
  if (type.bank == 0) throw InternalError(fmt::format("PTX has no registers for {}", to_string(s)));
  return type;
}

PtxValue ptx_literal(UOp constant) {
  Scalar s = constant.dtype().scalar;
  if (!constant.dtype().is_float()) return to_string(constant.const_int());
  double value = round_to(s, constant.const_float());
  if (is_narrow_float(s)) return fmt::format("0x{:04X}", memory_bits(s, const_of_float(s, value)));
  return float_immediate(s, value);
}

// --- instructions ---

PtxValue PtxOps::fresh_in(char bank) { return fmt::format("%{}{}", bank, used_[static_cast<unsigned char>(bank)]++); }

void PtxOps::line(std::string_view text) {
  lines_ += "  ";
  lines_ += text;
  lines_ += '\n';
}

void PtxOps::label(std::string_view name) {
  lines_ += name;
  lines_ += ":\n";
}

PtxValue PtxOps::emit(char bank, std::string_view instruction, std::initializer_list<std::string_view> operands) {
  PtxValue result = fresh_in(bank);
  lines_ += "  ";
  lines_ += instruction;
  lines_ += ' ';
  lines_ += result;
  for (std::string_view operand : operands) {
    lines_ += ", ";
    lines_ += operand;
  }
  lines_ += ";\n";
  return result;
}

void PtxOps::move(Scalar s, std::string_view to, std::string_view from) {
  line(fmt::format("mov.{} {}, {};", ptx_type(s).bits, to, from));
}

PtxValue PtxOps::in_register(Scalar s, const PtxValue& x) {
  if (is_register(x)) return x;
  PtxValue result = fresh(s);
  if (s == Scalar::Bool) {
    line(fmt::format("setp.ne.b32 {}, {}, 0;", result, x));
  } else {
    move(s, result, x);
  }
  return result;
}

std::string PtxOps::registers() const {
  constexpr std::pair<char, std::string_view> kBanks[] = {{'p', "pred"}, {'h', "b16"}, {'r', "b32"},
                                                          {'l', "b64"},  {'f', "f32"}, {'d', "f64"}};
  std::string text;
  for (auto [bank, type] : kBanks)
    if (int count = used_[static_cast<unsigned char>(bank)])
      text += fmt::format("  .reg .{} %{}<{}>;\n", type, bank, count);
  return text;
}

PtxValue PtxOps::select(Scalar s, const PtxValue& condition, const PtxValue& yes, const PtxValue& no) {
  const PtxType& t = ptx_type(s);
  if (s != Scalar::Bool)
    return emit(t.bank, fmt::format("selp.{}", is_real(s) ? t.arithmetic : t.bits), {yes, no, condition});
  PtxValue otherwise = emit('p', "not.pred", {condition});
  return emit('p', "or.pred", {both(condition, yes), both(otherwise, no)});
}

PtxValue PtxOps::compare(std::string_view how, Scalar s, const PtxValue& a, const PtxValue& b) {
  return emit('p', fmt::format("setp.{}.{}", how, ptx_type(s).arithmetic), {a, b});
}

/// A result of 16-bit arithmetic as a value of its type again.
PtxValue PtxOps::wrapped(Scalar s, const PtxValue& x) {
  if (bytes_of(s) != 1) return x;
  return emit('h', fmt::format("cvt.{}.{}", ptx_type(s).arithmetic, ptx_type(s).convert), {x});
}

PtxValue PtxOps::constant(Scalar s, Int128 value) { return to_string(int_of_const(s, const_of_int(s, value))); }

// --- operations ---

PtxValue PtxOps::bool_op(UOp u, const std::vector<PtxValue>& src) {
  auto inverted = [&](const PtxValue& p) { return emit('p', "not.pred", {p}); };
  switch (u.op()) {
    case Op::Mul:
    case Op::Idiv:
    case Op::And: return both(src[0], src[1]);
    case Op::Add:
    case Op::Max:
    case Op::Or: return emit('p', "or.pred", {src[0], src[1]});
    case Op::Sub:
    case Op::Xor:
    case Op::Cmpne: return emit('p', "xor.pred", {src[0], src[1]});
    case Op::Cmplt: return both(inverted(src[0]), src[1]);
    case Op::Neg: return src[0];
    case Op::Mod: return in_register(Scalar::Bool, "0");
    case Op::Shl:
    case Op::Shr: return both(src[0], inverted(src[1]));
    case Op::Mulacc: return emit('p', "or.pred", {both(src[0], src[1]), src[2]});
    default: cannot_render(u, "PTX");
  }
}

PtxValue PtxOps::division(UOp u, const PtxValue& a, const PtxValue& b) {
  Scalar s = u.dtype().scalar;
  const PtxType& t = ptx_type(s);
  std::string instruction = fmt::format("{}.{}", u.is(Op::Idiv) ? "div" : "rem", t.arithmetic);
  if (division_is_plain(u)) return emit(t.bank, instruction, {a, b});
  // Where the quotient would not be defined it is taken by 1; then the remainder is the 0 that it has to be.
  PtxValue by_zero = compare("eq", s, b, "0");
  bool is_signed = !u.dtype().is_unsigned();
  PtxValue by_minus_one = is_signed ? compare("eq", s, b, "-1") : PtxValue();
  PtxValue odd = is_signed ? emit('p', "or.pred", {by_zero, by_minus_one}) : by_zero;
  PtxValue result = emit(t.bank, instruction, {a, select(s, odd, "1", b)});
  if (u.is(Op::Mod)) return result;
  if (is_signed) {
    PtxValue negated = wrapped(s, emit(t.bank, fmt::format("neg.{}", t.arithmetic), {in_register(s, a)}));
    result = select(s, by_minus_one, negated, result);
  }
  return select(s, by_zero, "0", result);
}

/// PTX's shifts take an unsigned distance of 32 bits, and one past the width as the width: what is asked for.
PtxValue PtxOps::shift(UOp u, const PtxValue& a, const PtxValue& n) {
  Scalar s = u.dtype().scalar;
  const PtxType& t = ptx_type(s);
  const PtxType& of_distance = ptx_type(u.src(1).dtype().scalar);
  PtxValue distance = n;
  if (u.src(1).is_const()) {
    Int128 bits = u.src(1).const_int();
    distance = to_string(bits < 0 || bits > 255 ? Int128{255} : bits);
  } else if (of_distance.bank == 'l') {
    distance = emit('r', "cvt.u32.u64", {emit('l', "min.u64", {n, "255"})});
  } else if (of_distance.bank == 'h') {
    distance = emit('r', fmt::format("cvt.{}32.{}", of_distance.arithmetic[0], of_distance.arithmetic), {n});
  }
  PtxValue value = in_register(s, a);
  if (u.is(Op::Shl)) return wrapped(s, emit(t.bank, fmt::format("shl.{}", t.bits), {value, distance}));
  return emit(t.bank, fmt::format("shr.{}", t.arithmetic), {value, distance});
}

PtxValue PtxOps::int_op(UOp u, const std::vector<PtxValue>& src) {
  Scalar s = u.dtype().scalar;
  const PtxType& t = ptx_type(s);
  auto binary = [&](std::string_view name) {
    return wrapped(s, emit(t.bank, fmt::format("{}.{}", name, t.arithmetic), {src[0], src[1]}));
  };
  auto bitwise = [&](std::string_view name) {
    return emit(t.bank, fmt::format("{}.{}", name, t.bits), {src[0], src[1]});
  };
  switch (u.op()) {
    case Op::Add: return binary("add");
    case Op::Sub: return binary("sub");
    case Op::Mul: return binary("mul.lo");
    case Op::Max: return binary("max");
    case Op::Neg: return wrapped(s, emit(t.bank, fmt::format("sub.{}", t.arithmetic), {"0", src[0]}));
    case Op::And: return bitwise("and");
    case Op::Or: return bitwise("or");
    case Op::Xor: return bitwise("xor");
    case Op::Idiv:
    case Op::Mod: return division(u, src[0], src[1]);
    case Op::Shl:
    case Op::Shr: return shift(u, src[0], src[1]);
    case Op::Mulacc: return wrapped(s, emit(t.bank, fmt::format("mad.lo.{}", t.arithmetic), {src[0], src[1], src[2]}));
    default: cannot_render(u, "PTX");
  }
}

/// Each rounds as IEEE says; ".rn" also keeps ptxas from joining a product and a sum.
PtxValue PtxOps::float_op(UOp u, const std::vector<PtxValue>& src) {
  Scalar s = u.dtype().scalar;
  if (!is_real(s)) cannot_render(u, "PTX", "it is computed in float");
  const PtxType& t = ptx_type(s);
  auto named = [&](std::string_view name) { return fmt::format("{}.{}", name, t.arithmetic); };
  switch (u.op()) {
    case Op::Add: return emit(t.bank, named("add.rn"), {src[0], src[1]});
    case Op::Sub: return emit(t.bank, named("sub.rn"), {src[0], src[1]});
    case Op::Mul: return emit(t.bank, named("mul.rn"), {src[0], src[1]});
    case Op::Fdiv: return emit(t.bank, named("div.rn"), {src[0], src[1]});
    case Op::Mulacc: return emit(t.bank, named("fma.rn"), {src[0], src[1], src[2]});
    case Op::Recip: return emit(t.bank, named("rcp.rn"), {src[0]});
    case Op::Sqrt: return emit(t.bank, named("sqrt.rn"), {src[0]});
    case Op::Neg: return emit(t.bank, named("neg"), {src[0]});
    case Op::Max: {
      // NaN wins, and 0 over -0: the sum of two zeros is that.
      PtxValue greater = select(s, compare("gt", s, src[0], src[1]), src[0], src[1]);
      PtxValue zero = float_immediate(s, 0.0);
      PtxValue left = compare("eq", s, src[0], zero), right = compare("eq", s, src[1], zero);
      PtxValue zeros = both(left, right);
      PtxValue result = select(s, zeros, emit(t.bank, named("add.rn"), {src[0], src[1]}), greater);
      return select(s, compare("nan", s, src[0], src[0]), src[0], result);
    }
    default: cannot_render(u, "PTX");
  }
}

// --- conversions ---

/// The truncated 64-bit value; NaN and what does not fit give the smallest.
PtxValue PtxOps::to_long(Scalar from, const PtxValue& x) {
  PtxValue not_below = compare("ge", from, x, float_immediate(from, -0x1p63));
  PtxValue fits = both(not_below, compare("lt", from, x, float_immediate(from, 0x1p63)));
  PtxValue whole = emit('l', fmt::format("cvt.rzi.s64.{}", ptx_type(from).convert), {x});
  return select(Scalar::Int64, fits, whole, "0x8000000000000000");
}

PtxValue PtxOps::to_ulong(Scalar from, const PtxValue& x) {
  const PtxType& t = ptx_type(from);
  PtxValue large = compare("ge", from, x, float_immediate(from, 0x1p63));
  PtxValue rest = emit(t.bank, fmt::format("sub.rn.{}", t.arithmetic), {x, float_immediate(from, 0x1p63)});
  PtxValue upper = emit('l', "or.b64", {to_long(from, rest), "0x8000000000000000"});
  return select(Scalar::UInt64, large, upper, to_long(from, x));
}

PtxValue PtxOps::cast(UOp u, const PtxValue& source) {
  Scalar from = u.src(0).dtype().scalar, to = u.dtype().scalar;
  if (from == to) return source;
  if (from == Scalar::BFloat16 || to == Scalar::BFloat16) cannot_render(u, "PTX", "bfloat16 is converted bit by bit");
  const PtxType& t = ptx_type(to);
  if (from == Scalar::Bool) {
    PtxValue one = is_real(to) ? float_immediate(to, 1) : to == Scalar::Half ? "0x3C00" : "1";
    return select(to, source, one, is_real(to) ? float_immediate(to, 0) : "0");
  }
  PtxValue x = in_register(from, source);
  if (from == Scalar::Half && to != Scalar::Float && to != Scalar::Double) {
    x = emit('f', "cvt.f32.f16", {x});
    from = Scalar::Float;
  }
  if (to == Scalar::Bool)
    return compare(is_real(from) ? "neu" : "ne", from, x, is_real(from) ? float_immediate(from, 0) : "0");
  if (is_real(from) && is_machine_int(to)) {
    if (to == Scalar::UInt64) return to_ulong(from, x);
    x = to_long(from, x);
    from = Scalar::Int64;
    if (to == Scalar::Int64) return x;
  }
  if (is_machine_int(to)) {
    // Small ints fill 16 bits: their convert type says what is kept.
    return wrapped(to, emit(t.bank, fmt::format("cvt.{}.{}", t.arithmetic, ptx_type(from).convert), {x}));
  }
  bool exact = from == Scalar::Half || (from == Scalar::Float && to == Scalar::Double);
  return emit(t.bank, fmt::format("cvt{}.{}.{}", exact ? "" : ".rn", t.convert, ptx_type(from).convert), {x});
}

PtxValue PtxOps::bitcast(UOp u, const PtxValue& source) {
  Scalar from = u.src(0).dtype().scalar, to = u.dtype().scalar;
  if (from == to) return source;
  if (from == Scalar::Bool) return select(to, source, "1", "0");
  PtxValue x = in_register(from, source);
  if (to == Scalar::Bool) return compare("ne", from, x, "0");
  if (bytes_of(to) == 1) return emit('h', fmt::format("cvt.{}.{}", ptx_type(to).arithmetic, ptx_type(to).convert), {x});
  return emit(ptx_type(to).bank, fmt::format("mov.{}", ptx_type(to).bits), {x});
}

PtxValue PtxOps::compute(UOp u, const std::vector<PtxValue>& src) {
  Scalar s = u.dtype().scalar, of = u.src(0).dtype().scalar;
  switch (u.op()) {
    case Op::Cast: return cast(u, src[0]);
    case Op::Bitcast: return bitcast(u, src[0]);
    case Op::Where: return select(s, src[0], src[1], src[2]);
    case Op::Cmplt:
    case Op::Cmpne:
      if (of == Scalar::Bool) return bool_op(u, src);
      if (is_narrow_float(of)) cannot_render(u, "PTX", "it is computed in float");
      return compare(u.is(Op::Cmplt) ? "lt" : is_real(of) ? "neu" : "ne", of, src[0], src[1]);
    default: break;
  }
  if (s == Scalar::Bool) return bool_op(u, src);
  return u.dtype().is_float() ? float_op(u, src) : int_op(u, src);
}

}  // namespace quern
