#include "lower/transcendental.h"

#include <cmath>
#include <limits>

#include "quern/error.h"

#include "lower/transcendental_parts.h"

namespace quern {

namespace {

// 2^r = 1 + r ln 2 + r^2 Q(r) on [-1/2, 1/2]; each coefficient is rounded to its type.
constexpr double kExp2Float[] = {0.24022650718688965, 0.055503811687231064, 0.009618103504180908, 0.0013381302123889327,
                                 0.00015444883320014924};
constexpr double kExp2Double[] = {0.24022650695910072,    0.0555041086648216,     0.009618129107628479,
                                  0.0013333558146416936,  0.00015403530393375914, 1.525273382983612e-05,
                                  1.3215486802903931e-06, 1.0178062445845774e-07, 7.054899956372649e-09,
                                  4.4549605981865186e-10, 2.572508057683636e-11};
// log(1 + f) = f - f^2/2 + s (f^2/2 + z L(z)), s = f / (2 + f), z = s^2, for 1 + f in [sqrt(1/2), sqrt(2)].
constexpr double kLogFloat[] = {0.6666666865348816, 0.4000012278556824, 0.28550779819488525, 0.23331613838672638};
constexpr double kLogDouble[] = {0.666666666666667,  0.3999999999989889,  0.28571428626253836, 0.22222211089379496,
                                 0.1818289243253687, 0.15331611722055008, 0.14617807153417325};

/// A constant as the sum of a short head and the rest.
struct Split {
  double head;
  double tail;
};
// NOLINTBEGIN(modernize-use-std-numbers): heads with few bits, and what is left
constexpr Split kLn2Float{0.693115234375, 3.194618329871446e-05};
constexpr Split kLn2Double{0.6931471675634384, 1.2996506893889889e-08};
constexpr Split kLog2eFloat{1.4423828125, 0.00031222839606925845};
constexpr Split kLog2eDouble{1.4426950216293335, 1.9259629911266175e-08};
// NOLINTEND(modernize-use-std-numbers)

bool is_wide(UOp x) { return x.dtype().scalar == Scalar::Double; }

UOp through_float(UOp x, UOp (*expand)(UOp)) { return expand(x.cast(Scalar::Float)).cast(x.dtype()); }
bool is_narrow(UOp x) { return x.dtype().scalar == Scalar::Half || x.dtype().scalar == Scalar::BFloat16; }

}  // namespace

// x = n + r with an integer n; 2^x = 2^r * 2^(n/2) * 2^(n - n/2), so that neither factor leaves the normal range and only the last
// multiply rounds into the denormals or overflows. What is clamped gives 0 and infinity anyway; NaN passes through r.
UOp expand_exp2(UOp x) {
  if (is_narrow(x)) return through_float(x, expand_exp2);
  const FloatParts& p = parts_of(x.dtype().scalar);
  const Split ln2 = is_wide(x) ? kLn2Double : kLn2Float;
  const double lowest = -(p.bias + p.mantissa + 3), highest = p.bias + 2;
  x = less(x, lowest).where(x.const_like_float(lowest), x);
  x = x.const_like_float(highest).lt(x).where(x.const_like_float(highest), x);

  UOp shifted = plus(x, p.to_integer);
  UOp r = sub(x, minus(shifted, p.to_integer));
  UOp r_head = head(r, p);
  UOp linear = times(r_head, ln2.head);
  UOp sum = plus(linear, 1.0);
  UOp lost = sub(linear, minus(sum, 1.0));
  UOp q = is_wide(x) ? polynomial(r, kExp2Double) : polynomial(r, kExp2Float);
  UOp tail = times(sub(r, r_head), ln2.head) + times(r, ln2.tail) + r * r * q;
  UOp mantissa = sum + (lost + tail);

  // The low bits of `shifted` are n; both biased exponents together are n + 2 * bias.
  uint64_t magic = is_wide(x) ? 0x4338000000000000u : 0x4B400000u;
  UOp exponents =
      shifted.bitcast(p.bits) + word_like(shifted.bitcast(p.bits), static_cast<uint64_t>(2 * p.bias) - magic);
  UOp half = shr(exponents, 1);
  UOp first = shl(half, p.mantissa).bitcast(p.type), second = shl(sub(exponents, half), p.mantissa).bitcast(p.type);
  return mantissa * first * second;
}

// x = m * 2^e with m in [sqrt(1/2), sqrt(2)); log2(x) = e + log(m) * log2(e), the leading terms summed exactly.
UOp expand_log2(UOp x) {
  if (is_narrow(x)) return through_float(x, expand_log2);
  const FloatParts& p = parts_of(x.dtype().scalar);
  const Split log2e = is_wide(x) ? kLog2eDouble : kLog2eFloat;
  const int lift = p.mantissa + 2;
  UOp tiny = less(x, std::ldexp(1.0, 1 - p.bias));
  UOp normal = tiny.where(times(x, std::ldexp(1.0, lift)), x);

  UOp bits = normal.bitcast(p.bits);
  const uint64_t one = is_wide(x) ? 0x3FF0000000000000u : 0x3F800000u;
  const uint64_t root_half = is_wide(x) ? 0x3FE6A09E667F3BCDu : 0x3F3504F3u;
  bits = bits + word_like(bits, one - root_half);
  UOp m = (mask(bits, (uint64_t{1} << p.mantissa) - 1) + word_like(bits, root_half)).bitcast(p.type);
  // The biased exponent as a float: it is put into the low bits of 2^mantissa.
  const uint64_t unit = is_wide(x) ? 0x4330000000000000u : 0x4B000000u;
  UOp biased = (shr(bits, p.mantissa) | word_like(bits, unit)).bitcast(p.type);
  UOp e = minus(biased, std::ldexp(1.0, p.mantissa) + p.bias);
  e = sub(e, tiny.where(x.const_like_float(lift), x.const_like_float(0.0)));

  UOp f = minus(m, 1.0);
  UOp s = f * plus(f, 2.0).alu(Op::Recip);
  UOp z = s * s;
  UOp series = z * (is_wide(x) ? polynomial(z, kLogDouble) : polynomial(z, kLogFloat));
  UOp half_square = times(f * f, 0.5);
  UOp log_head = head(sub(f, half_square), p);
  UOp log_tail = sub(sub(f, log_head), half_square) + s * (half_square + series);
  UOp product = times(log_head, log2e.head);
  UOp rest = times(log_tail + log_head, log2e.tail) + times(log_tail, log2e.head);
  UOp sum = e + product;
  UOp result = sum + (rest + (sub(e, sum) + product));

  constexpr double kInf = std::numeric_limits<double>::infinity();
  result = less(x, kInf).where(result, x);
  result = less(x, 0.0).where(x.const_like_float(std::numeric_limits<double>::quiet_NaN()), result);
  return x.ne(x.const_like_float(0.0)).where(result, x.const_like_float(-kInf));
}

bool expands_transcendental(const Target& target, Op op) {
  bool on_cpu = target.dialect == Dialect::C || target.dialect == Dialect::Dsp || target.dialect == Dialect::Llvm;
  return on_cpu || !target.native_ops.contains(op);
}

UOp expand_transcendental(Op op, UOp x) {
  switch (op) {
    case Op::Exp2: return expand_exp2(x);
    case Op::Log2: return expand_log2(x);
    case Op::Sin: return expand_sin(x);
    default: throw InternalError("no expansion of " + std::string(to_string(op)));
  }
}

}  // namespace quern
