#include "ir/bounds.h"

#include <algorithm>

#include "ir/graph.h"
#include "ir/uop.h"

namespace quern {

namespace {

ValueBounds whole(Scalar s) {
  if (scalar_bit(s) & (kAllInts | kBoolOnly)) return {min_value(s), max_value(s)};
  return {0, 0};
}

/// What was computed without limits, as the dtype holds it.
ValueBounds fit(Scalar s, Int128 lo, Int128 hi) {
  if (s == Scalar::Index) return {std::clamp(lo, -kUnbounded, kUnbounded), std::clamp(hi, -kUnbounded, kUnbounded)};
  if (lo < min_value(s) || hi > max_value(s)) return whole(s);
  return {lo, hi};
}

bool unbounded(ValueBounds b) { return b.min <= -kUnbounded || b.max >= kUnbounded; }

ValueBounds sum(Scalar s, ValueBounds a, ValueBounds b) {
  Int128 lo = a.min + b.min, hi = a.max + b.max;
  if (a.min <= -kUnbounded || b.min <= -kUnbounded) lo = -kUnbounded;  // a clamped bound stays one
  if (a.max >= kUnbounded || b.max >= kUnbounded) hi = kUnbounded;
  return fit(s, lo, hi);
}

ValueBounds product(Scalar s, ValueBounds a, ValueBounds b) {
  // Products of two of at most 2^63 always fit 128 bits; beyond that give up.
  constexpr Int128 kSafe = Int128{1} << 63;
  auto small = [](ValueBounds v) { return v.min >= -kSafe && v.max <= kSafe; };
  auto zero_or_one = [](ValueBounds v) { return v.min >= 0 && v.max <= 1; };
  if (!(small(a) && small(b)) && !zero_or_one(a) && !zero_or_one(b)) return whole(s);
  Int128 p[] = {a.min * b.min, a.min * b.max, a.max * b.min, a.max * b.max};
  return fit(s, *std::min_element(p, p + 4), *std::max_element(p, p + 4));
}

/// Division of the range by a nonzero range of one sign; floor for index, truncation for machine ints (x / 0 = 0 widens to 0).
ValueBounds quotient(Scalar s, ValueBounds a, ValueBounds b) {
  bool index = s == Scalar::Index;
  if (unbounded(a)) return whole(s);
  auto div = [&](Int128 x, Int128 y) { return index ? floor_div(x, y) : x / y; };
  ValueBounds r{0, 0};
  bool first = true;
  auto add = [&](Int128 v) {
    r = first ? ValueBounds{v, v} : ValueBounds{std::min(r.min, v), std::max(r.max, v)};
    first = false;
  };
  // The extremes lie at the divisors nearest to and farthest from zero, on each side of it.
  auto corner = [&](Int128 y) {
    add(div(a.min, y));
    add(div(a.max, y));
  };
  if (b.max > 0) corner(std::max<Int128>(b.min, 1)), corner(b.max);
  if (b.min < 0) corner(std::min<Int128>(b.max, -1)), corner(b.min);
  if (b.min <= 0 && b.max >= 0) add(0);
  return fit(s, r.min, r.max);
}

ValueBounds remainder(Scalar s, ValueBounds a, ValueBounds b) {
  if (s == Scalar::Index) {
    if (b.min > 0) {
      if (b.min == b.max && a.min > -kUnbounded && a.max < kUnbounded &&
          floor_div(a.min, b.min) == floor_div(a.max, b.min))
        return {floor_mod(a.min, b.min), floor_mod(a.max, b.min)};
      return {0, b.max - 1};
    }
    return b.max < 0 ? ValueBounds{b.min + 1, 0} : whole(s);
  }
  Int128 magnitude = std::max(std::max(b.max, -b.min) - 1, Int128{0});
  return {a.min >= 0 ? Int128{0} : std::max(a.min, -magnitude), a.max <= 0 ? Int128{0} : std::min(a.max, magnitude)};
}

/// Smallest 2^k - 1 that is at least `v` (v >= 0).
Int128 ones_above(Int128 v) {
  Int128 m = 0;
  while (m < v) m = m * 2 + 1;
  return m;
}

ValueBounds bitwise(Op op, Scalar s, ValueBounds a, ValueBounds b) {
  if (s == Scalar::Bool) {
    if (op == Op::And) return {std::min(a.min, b.min), std::min(a.max, b.max)};
    if (op == Op::Or) return {std::max(a.min, b.min), std::max(a.max, b.max)};
    if (a.min == a.max && b.min == b.max) return {a.min ^ b.min, a.min ^ b.min};
    return {0, 1};
  }
  if (op == Op::And) {
    if (a.min >= 0 && b.min >= 0) return {0, std::min(a.max, b.max)};
    if (a.min >= 0) return {0, a.max};
    if (b.min >= 0) return {0, b.max};
    return whole(s);
  }
  if (a.min < 0 || b.min < 0 || unbounded(a) || unbounded(b)) return whole(s);
  return {op == Op::Or ? std::max(a.min, b.min) : Int128{0}, ones_above(std::max(a.max, b.max))};
}

ValueBounds shift(Op op, Scalar s, ValueBounds a, ValueBounds b) {
  int bits = s == Scalar::Index ? 62 : bytes_of(s) * 8;
  if (b.min < 0 || b.max >= bits || unbounded(a)) return whole(s);
  if (op == Op::Shl) return product(s, a, {Int128{1} << static_cast<int>(b.min), Int128{1} << static_cast<int>(b.max)});
  auto at = [&](Int128 v, Int128 n) { return v >> static_cast<int>(n); };
  return {std::min(at(a.min, b.min), at(a.min, b.max)), std::max(at(a.max, b.min), at(a.max, b.max))};
}

ValueBounds binary(const Node& n) {
  Scalar s = n.dtype.scalar;
  UOp x = n.sources[0], y = n.sources[1];
  ValueBounds a{x.vmin(), x.vmax()}, b{y.vmin(), y.vmax()};
  if (n.op == Op::Cmplt || n.op == Op::Cmpne) {
    if (!x.dtype().is_in(kAllInts | kBoolOnly)) return {0, 1};
    // A clamped bound says nothing of how far the values go.
    if (n.op == Op::Cmplt) return {a.max < b.min, a.min < b.max || a.min <= -kUnbounded || b.max >= kUnbounded};
    bool same = a.min == a.max && b.min == b.max && a.min == b.min && !unbounded(a);
    return {a.max < b.min || b.max < a.min, !same};
  }
  if (s == Scalar::Bool) {
    if (n.op == Op::Mul) return bitwise(Op::And, s, a, b);
    if (n.op == Op::Add || n.op == Op::Max) return bitwise(Op::Or, s, a, b);
    if (n.op == Op::And || n.op == Op::Or || n.op == Op::Xor) return bitwise(n.op, s, a, b);
    return {0, 1};
  }
  switch (n.op) {
    case Op::Add: return sum(s, a, b);
    case Op::Sub: return sum(s, a, {-b.max, -b.min});
    case Op::Mul: return product(s, a, b);
    case Op::Idiv: return quotient(s, a, b);
    case Op::Mod: return remainder(s, a, b);
    case Op::Max: return {std::max(a.min, b.min), std::max(a.max, b.max)};
    case Op::And:
    case Op::Or:
    case Op::Xor: return bitwise(n.op, s, a, b);
    case Op::Shl:
    case Op::Shr: return shift(n.op, s, a, b);
    default: return whole(s);
  }
}

ValueBounds hull(std::span<const UOp> src) {
  ValueBounds r{src[0].vmin(), src[0].vmax()};
  for (UOp s : src) r = {std::min(r.min, s.vmin()), std::max(r.max, s.vmax())};
  return r;
}

Int128 int_of(Scalar s, ConstBits c) {
  return s == Scalar::UInt64 ? Int128{c.bits} : Int128{static_cast<int64_t>(c.bits)};
}

ValueBounds cast(const Node& n) {
  UOp x = n.sources[0];
  if (!x.dtype().is_in(kAllInts | kBoolOnly)) return whole(n.dtype.scalar);
  if (n.dtype.is_bool()) {
    bool may_be_zero = x.vmin() <= 0 && x.vmax() >= 0;
    return {!may_be_zero, !(x.vmin() == 0 && x.vmax() == 0)};
  }
  return fit(n.dtype.scalar, x.vmin(), x.vmax());
}

}  // namespace

ValueBounds bounds_of(const Node& n) {
  Scalar s = n.dtype.scalar;
  if (n.dtype.is_ptr() || !n.dtype.is_in(kAllInts | kBoolOnly)) return {0, 0};
  std::span<const UOp> src{n.sources, n.num_src};
  if (kBinaryOps.contains(n.op) && src.size() == 2) return binary(n);
  switch (n.op) {
    case Op::Const: {
      Int128 v = int_of(s, std::get<ConstBits>(n.arg));
      return {v, v};
    }
    case Op::Vconst: {
      const ConstVector& lanes = *std::get<const ConstVector*>(n.arg);
      ValueBounds r{int_of(s, lanes[0]), int_of(s, lanes[0])};
      for (ConstBits c : lanes) r = {std::min(r.min, int_of(s, c)), std::max(r.max, int_of(s, c))};
      return r;
    }
    case Op::DefineVar:
      if (auto* v = std::get_if<const VarArg*>(&n.arg)) return {(*v)->min, (*v)->max};
      return whole(s);
    case Op::Range: return {src[0].vmin(), std::max(src[0].vmin(), src[1].vmax() - 1)};
    case Op::Special: {
      const SInt& size = std::get<const SpecialArg*>(n.arg)->size;
      return {0, size.is_int() ? Int128{size.value()} - 1 : size.expr().vmax() - 1};
    }
    case Op::Bind: return {src[0].vmin(), src[0].vmax()};
    case Op::Expand:
    case Op::Contract:
    case Op::Vectorize:
    case Op::Gep: return src.empty() ? whole(s) : hull(src);
    case Op::Where: return hull(src.subspan(1));
    case Op::Neg: return s == Scalar::Bool ? whole(s) : fit(s, -src[0].vmax(), -src[0].vmin());
    case Op::Cast: return cast(n);
    default: return whole(s);
  }
}

}  // namespace quern
