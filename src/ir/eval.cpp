#include "ir/eval.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "quern/error.h"

#include "ir/graph.h"

namespace quern {

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr uint64_t kSignBit = uint64_t{1} << 63;

bool is_float(Scalar s) { return (scalar_bit(s) & kFloats) != 0; }
ConstBits of_double(double v) { return {std::bit_cast<uint64_t>(v)}; }

[[noreturn]] void undefined(Op op, Scalar s) {
  throw InternalError(std::string(to_string(op)) + " has no value on dtypes." + std::string(to_string(s)));
}

// ---- rounding ----

double largest(FloatFormat f) {
  return std::ldexp(2.0 - std::ldexp(1.0, -f.mantissa_bits), (1 << (f.exponent_bits - 1)) - 1);
}

/// To nearest even in a format narrower than float.
double round_to_format(FloatFormat f, double value) {
  const int min_exponent = 2 - (1 << (f.exponent_bits - 1));
  const auto bits = std::bit_cast<uint64_t>(value);
  const int exponent = static_cast<int>(bits >> 52 & 0x7FF) - 1023;
  double rounded;
  if (exponent >= min_exponent) {
    const int dropped = 52 - f.mantissa_bits;
    const uint64_t half_less_one = (uint64_t{1} << (dropped - 1)) - 1, odd = bits >> dropped & 1;
    // A carry out of the mantissa moves on into the exponent, which is right.
    rounded = std::bit_cast<double>((bits + half_less_one + odd) >> dropped << dropped);
  } else {
    // Subnormal: a multiple of the smallest value. Adding and taking away 1.5 * 2^52 steps rounds to one.
    const double step = std::ldexp(1.0, min_exponent - f.mantissa_bits), shift = 6755399441055744.0 * step;
    rounded = std::copysign((std::fabs(value) + shift) - shift, value);
  }
  return std::fabs(rounded) > largest(f) ? std::copysign(std::numeric_limits<double>::infinity(), value) : rounded;
}

/// An integer as a double whose lowest bit says if anything below it was cut off: rounding that to fewer bits is exact.
double sticky_double(Int128 value) {
  Int128 magnitude = value < 0 ? -value : value;
  int shift = 0;
  bool lost = false;
  while (magnitude >= (Int128{1} << 53)) {
    lost |= (magnitude & 1) != 0;
    magnitude >>= 1;
    ++shift;
  }
  if (lost) magnitude |= 1;
  double v = std::ldexp(static_cast<double>(magnitude), shift);
  return value < 0 ? -v : v;
}

// ---- integers ----

/// Keeps the low 128 bits, all that wrapping to a dtype looks at.
Int128 low_product(Int128 a, Int128 b) {
  __extension__ typedef unsigned __int128 Unsigned;
  return static_cast<Int128>(static_cast<Unsigned>(a) * static_cast<Unsigned>(b));
}

Int128 truncated_div(Int128 a, Int128 b) { return b == 0 ? 0 : a / b; }
Int128 truncated_mod(Int128 a, Int128 b) { return b == 0 ? 0 : a % b; }

int width_of(Scalar s) { return s == Scalar::Index ? 64 : s == Scalar::Bool ? 1 : bytes_of(s) * 8; }

Int128 shifted(Op op, Scalar s, Int128 value, ConstBits distance) {
  // Read as signed whatever its type: a distance of 2^63 and more is as much out of range as a negative one.
  const auto n = static_cast<int64_t>(distance.bits);
  if (n < 0 || n >= width_of(s)) return op == Op::Shr && value < 0 ? -1 : 0;
  const int by = static_cast<int>(n);
  return op == Op::Shl ? low_product(value, Int128{1} << by) : value >> by;
}

/// Threefry-2x32 with 20 rounds: counter and key are the low and high halves of their 64 bits.
uint64_t threefry(uint64_t counter, uint64_t key) {
  constexpr std::array<std::array<int, 4>, 2> kRotations = {{{13, 15, 26, 6}, {17, 29, 16, 24}}};
  constexpr uint32_t kParity = 0x1BD11BDA;
  const auto key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  const std::array<uint32_t, 3> schedule = {key1, key0 ^ key1 ^ kParity, key0};
  uint32_t low = static_cast<uint32_t>(counter) + key0, high = static_cast<uint32_t>(counter >> 32) + key1;
  for (uint32_t group = 0; group < 5; ++group) {
    for (int r : kRotations[group % 2]) {
      low += high;
      high = low ^ std::rotl(high, r);
    }
    low += schedule[group % 3];
    high += schedule[(group + 1) % 3] + group + 1;
  }
  return uint64_t{high} << 32 | low;
}

Int128 int_binary(Op op, Scalar s, Int128 a, Int128 b) {
  const bool index = s == Scalar::Index;
  switch (op) {
    case Op::Add: return a + b;
    case Op::Sub: return a - b;
    case Op::Mul: return low_product(a, b);
    case Op::Idiv: return index && b != 0 ? floor_div(a, b) : truncated_div(a, b);
    case Op::Mod: return index && b != 0 ? floor_mod(a, b) : truncated_mod(a, b);
    case Op::Max: return a < b ? b : a;
    case Op::And: return a & b;
    case Op::Or: return a | b;
    case Op::Xor: return a ^ b;
    default: undefined(op, s);
  }
}

ConstBits int_alu(Op op, Scalar s, std::span<const ConstBits> args) {
  const Int128 a = int_of_const(s, args[0]);
  switch (op) {
    case Op::Neg: return const_of_int(s, -a);
    case Op::Shl:
    case Op::Shr: return const_of_int(s, shifted(op, s, a, args[1]));
    case Op::Threefry:
      if (s != Scalar::UInt64) undefined(op, s);
      return {threefry(args[0].bits, args[1].bits)};
    case Op::Cmplt: return {a < int_of_const(s, args[1])};
    case Op::Cmpne: return {a != int_of_const(s, args[1])};
    case Op::Mulacc:
      return int_alu(Op::Add, s, std::array{const_of_int(s, low_product(a, int_of_const(s, args[1]))), args[2]});
    default: break;
  }
  if (args.size() != 2) undefined(op, s);
  return const_of_int(s, int_binary(op, s, a, int_of_const(s, args[1])));
}

// ---- floats ----

double float_unary(Op op, Scalar s, double x) {
  // A wider type's function, rounded once more, is right but for values extremely near the middle of two results.
  const bool wide = s == Scalar::Double;
  switch (op) {
    case Op::Exp2: return wide ? static_cast<double>(exp2l(x)) : std::exp2(x);
    case Op::Log2: return wide ? static_cast<double>(log2l(x)) : std::log2(x);
    case Op::Sin: return wide ? static_cast<double>(sinl(x)) : std::sin(x);
    case Op::Sqrt: return std::sqrt(x);
    case Op::Recip: return 1.0 / x;
    case Op::Neg: return -x;
    default: undefined(op, s);
  }
}

double float_max(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return kNan;
  if (a == b) return std::signbit(a) ? b : a;  // 0 over -0, whichever comes first
  return a < b ? b : a;
}

ConstBits float_alu(Op op, Scalar s, std::span<const ConstBits> args) {
  const double a = float_of_const(args[0]);
  if (args.size() == 1) return const_of_float(s, float_unary(op, s, a));
  const double b = float_of_const(args[1]);
  // Double has more than twice the bits of the narrower types: computing in it and rounding rounds but once.
  switch (op) {
    case Op::Add: return const_of_float(s, a + b);
    case Op::Sub: return const_of_float(s, a - b);
    case Op::Mul: return const_of_float(s, a * b);
    case Op::Fdiv: return const_of_float(s, a / b);
    case Op::Max: return const_of_float(s, float_max(a, b));
    case Op::Cmplt: return {a < b};
    case Op::Cmpne: return {a != b};
    case Op::Mulacc: return const_of_float(s, round_to(s, a * b) + float_of_const(args[2]));
    default: undefined(op, s);
  }
}

// ---- bits in memory ----

/// Bits of a value of a narrow float format (half, bfloat16).
uint64_t encode(FloatFormat f, double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  const uint64_t sign = bits >> 63 << (f.exponent_bits + f.mantissa_bits);
  const uint64_t infinity = ((uint64_t{1} << f.exponent_bits) - 1) << f.mantissa_bits;
  const uint64_t mantissa = (bits & ((uint64_t{1} << 52) - 1)) >> (52 - f.mantissa_bits);
  if (std::isnan(value)) return sign | infinity | uint64_t{1} << (f.mantissa_bits - 1) | mantissa;
  if (std::isinf(value)) return sign | infinity;
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> 52 & 0x7FF) - 1023;
  if (exponent >= 1 - bias) return sign | static_cast<uint64_t>(exponent + bias) << f.mantissa_bits | mantissa;
  return sign | static_cast<uint64_t>(std::ldexp(std::fabs(value), bias - 1 + f.mantissa_bits));
}

double decode(FloatFormat f, uint64_t bits) {
  const uint64_t mantissa = bits & ((uint64_t{1} << f.mantissa_bits) - 1);
  const int exponent = static_cast<int>(bits >> f.mantissa_bits & ((uint64_t{1} << f.exponent_bits) - 1));
  const uint64_t sign = (bits >> (f.exponent_bits + f.mantissa_bits) & 1) << 63;
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const uint64_t wide_mantissa = mantissa << (52 - f.mantissa_bits);
  if (exponent == (1 << f.exponent_bits) - 1)
    return std::bit_cast<double>(sign | uint64_t{0x7FF} << 52 | wide_mantissa);
  if (exponent == 0) {
    double magnitude = std::ldexp(static_cast<double>(mantissa), 1 - bias - f.mantissa_bits);
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<double>(sign | static_cast<uint64_t>(exponent - bias + 1023) << 52 | wide_mantissa);
}

/// Toward zero, as 64 bits: signed, or unsigned from 2^63 up for ulong; what fits neither gives the top bit alone.
uint64_t truncate(Scalar to, double value) {
  constexpr double k63 = 9223372036854775808.0;
  if (value >= -k63 && value < k63) return static_cast<uint64_t>(static_cast<int64_t>(value));
  if (to == Scalar::UInt64 && value >= k63 && value < 2 * k63) return static_cast<uint64_t>(value - k63) | kSignBit;
  return kSignBit;
}

}  // namespace

double round_to(Scalar dtype, double value) {
  if (dtype == Scalar::Double) return value;
  if (!std::isfinite(value)) return value;
  return dtype == Scalar::Float ? static_cast<double>(static_cast<float>(value))
                                : round_to_format(float_format(dtype), value);
}

ConstBits const_of_int(Scalar dtype, Int128 value) {
  if (dtype == Scalar::Double) return of_double(static_cast<double>(value));
  if (is_float(dtype)) return of_double(round_to(dtype, sticky_double(value)));
  return {static_cast<uint64_t>(wrap(dtype, value))};
}

ConstBits const_of_float(Scalar dtype, double value) {
  // One NaN, so that results do not depend on which operand's NaN a machine passes on.
  return of_double(std::isnan(value) ? kNan : round_to(dtype, value));
}

Int128 int_of_const(Scalar dtype, ConstBits value) {
  return dtype == Scalar::UInt64 ? Int128{value.bits} : Int128{static_cast<int64_t>(value.bits)};
}

double float_of_const(ConstBits value) { return std::bit_cast<double>(value.bits); }

ConstBits eval_alu(Op op, Scalar dtype, std::span<const ConstBits> args) {
  const int arity = info(op).arity;
  if (!kAluOps.contains(op) || args.size() != static_cast<size_t>(arity))
    throw InternalError("eval of " + std::string(to_string(op)) + " with " + std::to_string(args.size()) + " values");
  if (op == Op::Where) return args[0].bits ? args[1] : args[2];
  return is_float(dtype) ? float_alu(op, dtype, args) : int_alu(op, dtype, args);
}

ConstBits eval_cast(Scalar from, Scalar to, ConstBits value) {
  if (is_float(from)) {
    const double v = float_of_const(value);
    if (is_float(to)) return of_double(round_to(to, v));
    if (to == Scalar::Bool) return {v != 0};
    return const_of_int(to, int_of_const(to == Scalar::UInt64 ? to : Scalar::Int64, {truncate(to, v)}));
  }
  return const_of_int(to, int_of_const(from, value));
}

ConstBits eval_bitcast(Scalar from, Scalar to, ConstBits value) {
  return from_memory_bits(to, memory_bits(from, value));
}

uint64_t memory_bits(Scalar dtype, ConstBits value) {
  switch (dtype) {
    case Scalar::Double: return value.bits;
    case Scalar::Float: return std::bit_cast<uint32_t>(static_cast<float>(float_of_const(value)));
    case Scalar::Half:
    case Scalar::BFloat16: return encode(float_format(dtype), float_of_const(value));
    default: {
      const int bytes = bytes_of(dtype);
      return bytes >= 8 ? value.bits : value.bits & ((uint64_t{1} << (bytes * 8)) - 1);
    }
  }
}

ConstBits from_memory_bits(Scalar dtype, uint64_t bits) {
  switch (dtype) {
    case Scalar::Double: return {bits};
    case Scalar::Float: return of_double(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    case Scalar::Half:
    case Scalar::BFloat16: return of_double(decode(float_format(dtype), bits));
    case Scalar::Bool: return {(bits & 0xFF) != 0};
    default: return {static_cast<uint64_t>(wrap(dtype, Int128{bits}))};
  }
}

}  // namespace quern
