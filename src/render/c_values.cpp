// Values of C-style languages: operations, conversions, vectors.
#include <algorithm>
#include <cctype>
#include <variant>

#include <fmt/format.h>

#include "render/append.h"
#include "render/c_writer.h"
#include "render/facts.h"

namespace quern {

namespace {

bool is_narrow_float(Scalar s) { return s == Scalar::Half || s == Scalar::BFloat16; }

}  // namespace

/// The text of a source to stand in a place that takes what binds at least as tightly as `loosest`.
std::string CWriter::take(UOp u, Binding loosest) {
  Expr& e = expr(u);
  if (e.text.empty()) cannot_render(u, dialect_.language, "it is used before it is computed");
  e.consumed = true;
  depth_ = std::max<uint16_t>(depth_, e.depth);
  accumulators_ |= e.accumulators;
  if (e.binding <= loosest) return e.text;
  depth_ = std::max<uint16_t>(depth_, static_cast<uint16_t>(e.depth + 1));
  return "(" + e.text + ")";
}

/// A source in float, for types that are computed in it.
std::string CWriter::in_float(UOp u) {
  Scalar s = u.dtype().scalar;
  return is_narrow_float(s) ? widened(s, take(u, dialect_.is_bits(s) ? kLoose : kPrefix)) : take(u, kPrefix);
}

std::string CWriter::widened(Scalar s, const std::string& text) {
  return dialect_.is_bits(s) ? concat(prelude_.float_from(s), '(', text, ')') : "(float)" + text;
}

CWriter::Expr CWriter::narrowed(Scalar to, const std::string& text, Binding binding) {
  if (dialect_.is_bits(to)) return {concat(prelude_.to_narrow(Scalar::Float, to), '(', text, ')')};
  return {binding <= kPrefix ? concat('(', type(to), ')', text) : concat('(', type(to), ")(", text, ')'), kPrefix};
}

CWriter::Expr CWriter::infix(UOp u, std::string_view sign, Binding binding, Binding left, Binding right) {
  std::string a = take(u.src(0), left), b = take(u.src(1), right);
  if (u.is(Op::Add) && u.src(1).is_const() && b.size() > 1 && b[0] == '-' &&
      std::isdigit(static_cast<unsigned char>(b[1])))
    return {concat(a, " - ", b.substr(1)), binding};
  return {concat(a, ' ', sign, ' ', b), binding};
}

/// ADD, SUB, MUL, NEG of ints: as written where the bounds prove that nothing overflows, else in unsigned arithmetic.
CWriter::Expr CWriter::int_arithmetic(UOp u) {
  Scalar s = u.dtype().scalar;
  std::string_view sign = u.is(Op::Add) ? "+" : u.is(Op::Mul) ? "*" : "-";
  std::string_view wrapping = prelude_.wrapping_type(s);
  bool plain = cannot_overflow(u) || s == Scalar::UInt32 || s == Scalar::UInt64;
  if (u.is(Op::Neg)) {
    if (plain && !u.dtype().is_unsigned()) return {"-" + take(u.src(0), kAtom), kPrefix};
    return {concat('(', type(s), ")(0 - (", wrapping, ')', take(u.src(0), kPrefix), ')'), kPrefix};
  }
  if (plain) return u.is(Op::Mul) ? infix(u, sign, kProduct, kProduct, kPrefix) : infix(u, sign, kSum, kSum, kProduct);
  return {concat('(', type(s), ")((", wrapping, ')', take(u.src(0), kPrefix), ' ', sign, " (", wrapping, ')',
                 take(u.src(1), kPrefix), ')'),
          kPrefix};
}

/// + - * and - of half or bfloat16 where the language rounds each as its own.
CWriter::Expr CWriter::direct_arithmetic(UOp u) {
  if (u.is(Op::Neg)) return {"-" + take(u.src(0), kAtom), kPrefix};
  std::string_view call = dialect_.direct_calls[u.is(Op::Add) ? 0 : u.is(Op::Sub) ? 1 : 2];
  if (!call.empty()) return {concat(call, '(', call_argument(u.src(0)), ", ", call_argument(u.src(1)), ')')};
  if (u.is(Op::Mul)) return infix(u, "*", kProduct, kProduct, kPrefix);
  return infix(u, u.is(Op::Add) ? "+" : "-", kSum, kSum, kProduct);
}

CWriter::Expr CWriter::float_arithmetic(UOp u) {
  Scalar s = u.dtype().scalar;
  bool narrow = is_narrow_float(s);
  if (narrow && dialect_.is_direct(s) && u.is({Op::Add, Op::Sub, Op::Mul, Op::Neg})) return direct_arithmetic(u);
  std::string_view one = s == Scalar::Double ? "1.0" : "1.0f";
  auto arg = [&](size_t i) { return narrow ? in_float(u.src(i)) : take(u.src(i), kPrefix); };
  auto result = [&](std::string text, Binding b) { return narrow ? narrowed(s, text, b) : Expr{std::move(text), b}; };
  switch (u.op()) {
    case Op::Add:
      return narrow ? narrowed(s, concat(arg(0), " + ", arg(1)), kSum) : infix(u, "+", kSum, kSum, kProduct);
    case Op::Sub:
      return narrow ? narrowed(s, concat(arg(0), " - ", arg(1)), kSum) : infix(u, "-", kSum, kSum, kProduct);
    case Op::Mul:
      return narrow ? narrowed(s, concat(arg(0), " * ", arg(1)), kProduct) : infix(u, "*", kProduct, kProduct, kPrefix);
    case Op::Fdiv:
      return narrow ? narrowed(s, concat(arg(0), " / ", arg(1)), kProduct) : infix(u, "/", kProduct, kProduct, kPrefix);
    case Op::Recip: return result(concat(one, " / ", arg(0)), kProduct);
    case Op::Neg:
      return narrow ? narrowed(s, concat("-(", arg(0), ')'), kPrefix) : Expr{"-" + take(u.src(0), kAtom), kPrefix};
    case Op::Sqrt:
    case Op::Exp2:
    case Op::Log2:
    case Op::Sin: return math_call(u);
    case Op::Mulacc: {
      std::string product = concat(arg(0), " * ", arg(1));
      if (!narrow) return {concat(product, " + ", arg(2)), kSum};
      return narrowed(s, concat(widened(s, narrowed(s, product, kProduct).text), " + ", arg(2)), kSum);
    }
    case Op::Max:
      if (narrow) return narrowed(s, concat(prelude_.maximum(Scalar::Float), '(', arg(0), ", ", arg(1), ')'), kAtom);
      return {concat(prelude_.maximum(s), '(', call_argument(u.src(0)), ", ", call_argument(u.src(1)), ')')};
    default: cannot_render(u, dialect_.language);
  }
}

CWriter::Expr CWriter::math_call(UOp u) {
  Scalar s = u.dtype().scalar;
  const CMath& math = s == Scalar::Double ? dialect_.math_double : dialect_.math_float;
  std::string name(u.is(Op::Sqrt) ? math.sqrt : u.is(Op::Exp2) ? math.exp2 : u.is(Op::Log2) ? math.log2 : math.sin);
  if (name.empty()) {
    if (!u.is(Op::Sqrt)) cannot_render(u, dialect_.language, "it has no such function");
    name = prelude_.square_root(s == Scalar::Double ? s : Scalar::Float);
  }
  if (is_narrow_float(s)) return narrowed(s, concat(name, '(', in_float(u.src(0)), ')'), kAtom);
  return {concat(name, '(', call_argument(u.src(0)), ')')};
}

CWriter::Expr CWriter::int_op(UOp u) {
  Scalar s = u.dtype().scalar;
  auto call = [&](const std::string& f) {
    return Expr{concat(f, '(', call_argument(u.src(0)), ", ", call_argument(u.src(1)), ')')};
  };
  switch (u.op()) {
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Neg: return int_arithmetic(u);
    case Op::Idiv:
    case Op::Mod:
      if (division_is_plain(u)) return infix(u, u.is(Op::Idiv) ? "/" : "%", kProduct, kProduct, kPrefix);
      return call(prelude_.division(u.op(), s));
    case Op::Shr:
      if (shift_is_plain(u)) return infix(u, ">>", kLoose, kPrefix, kPrefix);
      return call(prelude_.shift(u.op(), s));
    case Op::Shl:
      if (!shift_is_plain(u)) return call(prelude_.shift(u.op(), s));
      if (cannot_overflow(u)) return infix(u, "<<", kLoose, kPrefix, kPrefix);
      return {concat('(', type(s), ")((", prelude_.wrapping_type(s), ')', take(u.src(0), kPrefix), " << ",
                     take(u.src(1), kPrefix), ')'),
              kPrefix};
    case Op::Max: return call(prelude_.maximum(s));
    case Op::And: return infix(u, "&", kLoose, kPrefix, kPrefix);
    case Op::Or: return infix(u, "|", kLoose, kPrefix, kPrefix);
    case Op::Xor: return infix(u, "^", kLoose, kPrefix, kPrefix);
    case Op::Mulacc: {
      std::string a = take(u.src(0), kPrefix), b = take(u.src(1), kPrefix), c = take(u.src(2), kPrefix);
      return {fmt::format("({0})(({1}){2} * ({1}){3} + ({1}){4})", type(s), prelude_.wrapping_type(s), a, b, c),
              kPrefix};
    }
    default: cannot_render(u, dialect_.language);
  }
}

// What is left of & and | stands in brackets if it is a negation: gcc takes "!a & b" for a slip.
CWriter::Expr CWriter::bool_op(UOp u) {
  switch (u.op()) {
    case Op::Mul:
    case Op::Idiv:
    case Op::And: return infix(u, "&", kLoose, kAtom, kPrefix);
    case Op::Add:
    case Op::Max:
    case Op::Or: return infix(u, "|", kLoose, kAtom, kPrefix);
    case Op::Sub:
    case Op::Xor: return infix(u, "^", kLoose, kPrefix, kPrefix);
    case Op::Neg: return {take(u.src(0), kPrefix), kPrefix};
    case Op::Mod: return {"0"};
    case Op::Shl:
    case Op::Shr: return {concat(take(u.src(0), kAtom), " & (", take(u.src(1), kSum), " == 0)"), kLoose};
    case Op::Mulacc:
      return {concat('(', take(u.src(0), kAtom), " & ", take(u.src(1), kPrefix), ") | ", take(u.src(2), kPrefix)),
              kLoose};
    default: cannot_render(u, dialect_.language);
  }
}

CWriter::Expr CWriter::comparison(UOp u) {
  UOp a = u.src(0), b = u.src(1);
  if (a.dtype().is_bool()) {
    if (u.is(Op::Cmplt)) return {concat(take(b, kAtom), " & !", take(a, kAtom)), kLoose};
    if (b.is_const_int(1)) return {"!" + take(a, kAtom), kPrefix};
  }
  std::string_view sign = u.is(Op::Cmplt) ? "<" : "!=";
  if (is_narrow_float(a.dtype().scalar) && !dialect_.is_direct(a.dtype().scalar))
    return {concat(in_float(a), ' ', sign, ' ', in_float(b)), kLoose};
  return infix(u, sign, kLoose, kSum, kSum);
}

CWriter::Expr CWriter::float_to_float(UOp x, Scalar to) {
  Scalar from = x.dtype().scalar;
  if (is_narrow_float(to) && from != Scalar::Double) return narrowed(to, in_float(x), kPrefix);
  if (is_narrow_float(to))
    return {concat(prelude_.to_narrow(from, to), '(', call_argument(x), ')'), dialect_.is_bits(to) ? kAtom : kPrefix};
  if (to == Scalar::Float && is_narrow_float(from)) return {in_float(x), dialect_.is_bits(from) ? kAtom : kPrefix};
  return {concat('(', type(to), ')', in_float(x)), kPrefix};
}

CWriter::Expr CWriter::cast(UOp u) {
  UOp x = u.src(0);
  Scalar from = x.dtype().scalar, to = u.dtype().scalar;
  if (from == to) return {take(x, kPrefix), kPrefix};
  if (to == Scalar::Bool) return {concat(x.dtype().is_float() ? in_float(x) : take(x, kSum), " != 0"), kLoose};
  auto as = [&](const std::string& text) { return Expr{concat('(', type(to), ')', text), kPrefix}; };
  if (!x.dtype().is_float()) {
    // Exact in float up to the largest half; and for ints of two bytes.
    if (to == Scalar::Half || (to == Scalar::BFloat16 && bytes_of(from) <= 2))
      return narrowed(to, "(float)" + take(x, kPrefix), kPrefix);
    if (to == Scalar::BFloat16) return {concat(prelude_.bfloat16_from_int(from), '(', call_argument(x), ')')};
    return as(take(x, kPrefix));
  }
  if (u.dtype().is_float()) return float_to_float(x, to);
  Scalar wide = from == Scalar::Double ? Scalar::Double : Scalar::Float;
  bool unsigned_long = to == Scalar::UInt64;
  std::string whole = concat(unsigned_long ? prelude_.to_ulong(wide) : prelude_.to_long(wide), '(', in_float(x), ')');
  return to == Scalar::Int64 || unsigned_long ? Expr{whole} : as(whole);
}

CWriter::Expr CWriter::bitcast(UOp u) {
  Scalar from = u.src(0).dtype().scalar, to = u.dtype().scalar;
  if (from == to) return {take(u.src(0), kPrefix), kPrefix};
  if (to == Scalar::Bool) return {take(u.src(0), kSum) + " != 0", kLoose};
  auto is_int = [&](Scalar s) { return (scalar_bit(s) & (kMachineInts | kBoolOnly)) != 0 || dialect_.is_bits(s); };
  if (is_int(from) && is_int(to)) return {concat('(', type(to), ')', take(u.src(0), kPrefix)), kPrefix};
  return {prelude_.bitcast(from, to, call_argument(u.src(0)))};
}

CWriter::Expr CWriter::vector(UOp u) {
  std::string lanes;
  for (size_t i = 0; i < u.num_src(); ++i) lanes += (i == 0 ? "" : ", ") + take(u.src(i), kLoose);
  return {prelude_.vector(u.dtype(), lanes), kPrefix};
}

CWriter::Expr CWriter::lane(UOp u) {
  const Lanes& lanes = *std::get<const Lanes*>(u.arg());
  if (lanes.size() != 1) cannot_render(u, dialect_.language, "it takes several lanes");
  int count = u.src(0).dtype().count;
  if (count == 1) return {take(u.src(0), kPrefix), kPrefix};
  std::string vector = take(u.src(0), kAtom);
  if (!dialect_.named_lanes) return {concat(vector, '[', lanes[0], ']')};
  return {concat(vector, '.', lane_name(count, lanes[0]))};
}

CWriter::Expr CWriter::expression(UOp u) {
  if (u.is(Op::Vectorize)) return vector(u);
  if (u.is(Op::Gep)) return lane(u);
  if (u.dtype().count != 1) cannot_render(u, dialect_.language, "it is computed on several lanes at once");
  has_product_ |= u.dtype().is_float() && u.is({Op::Mul, Op::Mulacc});
  has_sum_ |= u.dtype().is_float() && u.is({Op::Add, Op::Sub, Op::Mulacc});
  switch (u.op()) {
    case Op::Cast: return cast(u);
    case Op::Bitcast: return bitcast(u);
    case Op::Cmplt:
    case Op::Cmpne: return comparison(u);
    case Op::Where:
      return {concat(take(u.src(0), kPrefix), " ? ", take(u.src(1), kSum), " : ", take(u.src(2), kSum)), kLoose};
    default: break;
  }
  if (u.dtype().is_bool()) return bool_op(u);
  return u.dtype().is_float() ? float_arithmetic(u) : int_op(u);
}

}  // namespace quern
