#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "quern/error.h"

#include "ir/eval.h"
#include "ir/node_map.h"
#include "lower/arith.h"
#include "lower/legalize_parts.h"
#include "lower/rebuild.h"

namespace quern {

namespace {

constexpr ScalarSet kWordInts =
    scalar_bit(Scalar::Int32) | scalar_bit(Scalar::UInt32) | scalar_bit(Scalar::Int64) | scalar_bit(Scalar::UInt64);

/// k of a positive int constant 2^k.
std::optional<int> log2_of(UOp c) {
  if (!c.is_const() || !c.dtype().is_in(kMachineInts)) return {};
  Int128 value = c.const_int();
  if (value <= 0 || (value & (value - 1)) != 0) return {};
  return std::countr_zero(static_cast<uint64_t>(value));
}

bool is_minus_one(UOp c) {
  if (!c.is_const()) return false;
  if (c.dtype().is_float()) return c.const_float() == -1.0;
  return c.dtype().is_in(kMachineInts) && c.const_int() == wrap(c.dtype().scalar, -1);
}

/// True if the value is known not to be NaN.
bool is_number(UOp u) {
  if (!u.dtype().is_float()) return true;
  if (u.is_const()) return !std::isnan(u.const_float());
  return u.is(Op::Cast) && !u.src(0).dtype().is_float();
}

bool is_positive_zero(UOp u) {
  return u.is_const() && u.dtype().is_float() && u.const_float() == 0.0 && !std::signbit(u.const_float());
}

double smallest_positive(Scalar s) {
  FloatFormat f = float_format(s);
  return std::ldexp(1.0, 2 - (1 << (f.exponent_bits - 1)) - f.mantissa_bits);
}

class FormLegalizer {
 public:
  explicit FormLegalizer(const Target& target, std::span<const UOp> nodes) : ops_(target.native_ops) {
    if (has(Op::Mulacc)) mark_accumulates(nodes);
  }

  UOp legal(UOp u, std::span<const UOp> src, bool same) const {
    const bool is_value = !u.dtype().is_ptr() && !u.dtype().is_void();
    switch (u.op()) {
      case Op::Const:
      case Op::Vconst: return is_value && u.dtype().count > 1 ? lanes_of(u, u.dtype().count) : u;
      case Op::Gep: return gep(u, src[0]);
      case Op::Vectorize:
        if (src.size() == 1) return src[0];
        break;
      case Op::Mul:
        if (UOp other = multiply(src[0], src[1])) return other;
        break;
      case Op::Idiv:
      case Op::Mod:
        if (UOp simple = divide(u.op(), src[0], src[1])) return simple;
        break;
      case Op::Max:
        if (u.dtype().is_bool()) return src[0] | src[1];
        if (!has(Op::Max)) return select_max(src[0], src[1], src[0], src[1]);
        break;
      case Op::Neg:
        if (!has(Op::Neg)) return src[0] * minus_one(src[0]);
        break;
      case Op::Sub:
        if (!has(Op::Sub)) return src[0] + negative(src[1]);
        break;
      case Op::Add:
        if (UOp other = add(u, src[0], src[1])) return other;
        break;
      case Op::Mulacc:
        if (!has(Op::Mulacc)) return src[0] * src[1] + src[2];
        break;
      case Op::Recip:
        if (!has(Op::Recip) && has(Op::Fdiv)) return src[0].const_like_float(1.0).alu(Op::Fdiv, src[0]);
        break;
      case Op::Fdiv:
        if (!has(Op::Fdiv)) return src[0] * src[1].alu(Op::Recip);
        break;
      case Op::Cast:
        if (is_value && u.dtype().is_bool() && !src[0].dtype().is_bool()) return src[0].ne(zero_like(src[0]));
        break;
      default: break;
    }
    return on_sources(u, src, same);
  }

 private:
  bool has(Op op) const { return ops_.contains(op); }

  static UOp zero_like(UOp x) { return x.graph().constant(x.dtype(), 0); }
  static UOp minus_one(UOp x) { return x.graph().constant(x.dtype(), -1); }

  UOp negative(UOp x) const {
    if (x.is_const())
      return x.dtype().is_float() ? x.const_like_float(-x.const_float())
                                  : x.graph().const_int(x.dtype(), -x.const_int());
    return has(Op::Neg) ? x.alu(Op::Neg) : x * minus_one(x);
  }

  static UOp lanes_of(UOp vector, int count) {
    std::vector<UOp> lanes;
    for (int i = 0; i < count; ++i) lanes.push_back(vector.gep(i));
    return vector.graph().vectorize(lanes);
  }

  static UOp gep(UOp u, UOp vector) {
    const Lanes& lanes = *std::get<const Lanes*>(u.arg());
    std::vector<UOp> taken;
    for (int32_t lane : lanes) taken.push_back(vector.dtype().lanes() == 1 ? vector : vector.gep(lane));
    return taken.size() == 1 ? taken[0] : u.graph().vectorize(taken);
  }

  // Each of these: another form, or empty where the plain one is the best.

  UOp multiply(UOp a, UOp b) const {
    const bool turned = a.is_const() && !b.is_const();
    if (turned) std::swap(a, b);
    if (a.dtype().is_bool()) return a & b;
    if (is_minus_one(b) && has(Op::Neg)) return a.alu(Op::Neg);
    if (int bits = log2_of(b).value_or(0); bits > 0 && has(Op::Shl)) return shl(a, bits);
    return turned ? a * b : UOp();
  }

  /// Shifts and masks are right for dividends that are not negative only: division truncates.
  UOp divide(Op op, UOp x, UOp by) const {
    auto bits = log2_of(by);
    if (!bits || x.vmin() < 0) return UOp();
    if (op == Op::Idiv) return !has(Op::Shr) ? UOp() : *bits == 0 ? x : shr(x, *bits);
    return has(Op::And) ? mask(x, (uint64_t{1} << *bits) - 1) : UOp();
  }

  UOp add(UOp old, UOp a, UOp b) const {
    if (a.dtype().is_bool()) return a | b;
    bool turned = false;
    if (has(Op::Mulacc)) {
      const bool contracts = accumulates_.get(old) != 0 || a.dtype().is_in(kWordInts);
      turned = contracts && b.is(Op::Mul);
      if (turned) std::swap(a, b);
      if (contracts && a.is(Op::Mul)) return a.graph().node(Op::Mulacc, a.dtype(), {a.src(0), a.src(1), b});
    }
    if (has(Op::Sub)) {
      if (b.is(Op::Neg)) return sub(a, b.src(0));
      if (a.is(Op::Neg)) return sub(b, a.src(0));
    }
    return turned ? a + b : UOp();
  }

  /// The float additions by which reductions accumulate: those may be contracted with a product.
  void mark_accumulates(std::span<const UOp> nodes) {
    std::vector<UOp> stack;
    for (UOp u : nodes) {
      if (!u.is(Op::Assign) || !u.src(0).is(Op::DefineAcc) || !u.dtype().is_float()) continue;
      stack.push_back(u.src(1));
      while (!stack.empty()) {
        UOp sum = stack.back();
        stack.pop_back();
        if (!sum.is(Op::Add) || accumulates_.get(sum)) continue;
        accumulates_.set(sum, 1);
        stack.insert(stack.end(), sum.src().begin(), sum.src().end());
      }
    }
  }

  OpSet ops_;
  NodeScratch<uint8_t> accumulates_;
};

}  // namespace

UOp select_max(UOp a, UOp b, UOp a_key, UOp b_key) {
  // What is selected where the comparison is false has to be the side that may be NaN.
  if (is_number(a_key) && !is_number(b_key)) std::swap(a, b), std::swap(a_key, b_key);
  if (is_number(b_key)) {
    // x < the smallest number above 0: 0 wins over -0 too.
    UOp limit = is_positive_zero(b_key) ? b_key.const_like_float(smallest_positive(b_key.dtype().scalar)) : b_key;
    return a_key.lt(limit).where(b, a);
  }
  return (a_key.lt(b_key) | b_key.ne(b_key)).where(b, a);
}

UOp legalize_forms(UOp sink, const Target& target) {
  std::vector<UOp> nodes = toposort(sink);
  const FormLegalizer legalizer(target, nodes);
  return rebuild(nodes, [&](UOp u, std::span<const UOp> src, bool same) { return legalizer.legal(u, src, same); });
}

}  // namespace quern
