#include <algorithm>
#include <vector>

#include "ir/eval.h"
#include "lower/legalize_parts.h"
#include "lower/narrow_types.h"
#include "lower/rebuild.h"
#include "lower/threefry.h"
#include "lower/transcendental.h"

namespace quern {

namespace {

constexpr ScalarSet kNarrowInts = kMachineInts & ~(scalar_bit(Scalar::Int64) | scalar_bit(Scalar::UInt64));

class ValueLegalizer {
 public:
  explicit ValueLegalizer(const Target& target) {
    for (Scalar s : target.emulated) emulated_ |= scalar_bit(s);
    for (Op op : {Op::Exp2, Op::Log2, Op::Sin})
      if (expands_transcendental(target, op)) expanded_.insert(op);
  }

  /// True if this node may have to change, whatever its sources become.
  bool concerns(UOp u) const {
    if (u.dtype().is_ptr() || u.dtype().is_void()) return false;
    if (u.is(Op::Threefry) || u.is(expanded_)) return true;
    if (u.is(Op::Cast)) return casts(u);
    return u.is(kAluOps) && !u.is(Op::Where) && is_emulated(u.src(0));
  }

  UOp legal(UOp u, std::span<const UOp> src, bool same) const {
    if (!concerns(u)) return on_sources(u, src, same);
    if (u.is(Op::Threefry)) return expand_threefry(src[0], src[1]);
    if (u.is(Op::Cast)) return converted(src[0], u.dtype().scalar);
    if (is_emulated(src[0])) return in_float(u, src);
    return expand_transcendental(u.op(), src[0]);
  }

 private:
  bool is_emulated(UOp u) const { return u.dtype().is_in(emulated_) && !u.dtype().is_ptr(); }
  bool casts(UOp u) const {
    return is_emulated(u) || is_emulated(u.src(0)) || (u.src(0).dtype().is_float() && u.dtype().is_in(kNarrowInts));
  }

  /// One operation on narrow floats: done in float, which is precise enough for the result to be rounded but once, and rounded.
  UOp in_float(UOp u, std::span<const UOp> src) const {
    Graph& g = u.graph();
    std::vector<UOp> wide;
    for (UOp s : src) wide.push_back(widened(s));
    if (u.is({Op::Cmplt, Op::Cmpne})) return g.node(u.op(), u.dtype(), wide);
    if (u.is(Op::Max)) return select_max(src[0], src[1], wide[0], wide[1]);
    const Scalar type = u.dtype().scalar;
    if (u.is(Op::Mulacc)) {
      UOp product = widened(round_to_narrow(wide[0] * wide[1], type));
      return round_to_narrow(product + wide[2], type);
    }
    UOp result = u.is(expanded_) ? expand_transcendental(u.op(), wide[0]) : g.node(u.op(), Scalar::Float, wide);
    return round_to_narrow(result, type);
  }

  /// A narrow float as a float.
  UOp widened(UOp x) const {
    if (x.is_const()) return x.graph().const_float(Scalar::Float, round_to(x.dtype().scalar, x.const_float()));
    return widen_to_float(x);
  }

  UOp converted(UOp x, Scalar to) const {
    if (is_emulated(x)) {
      if (x.dtype().scalar == to) return x;
      x = widened(x);
    }
    if (scalar_bit(to) & emulated_) return round_to_narrow(x, to);
    if (x.dtype().is_float() && (scalar_bit(to) & kNarrowInts)) return x.cast(Scalar::Int64).cast(to);
    return x.cast(to);
  }

  ScalarSet emulated_ = 0;
  OpSet expanded_;
};

}  // namespace

UOp legalize_values(UOp sink, const Target& target) {
  const ValueLegalizer legalizer(target);
  std::vector<UOp> nodes = toposort(sink);
  if (std::none_of(nodes.begin(), nodes.end(), [&](UOp u) { return legalizer.concerns(u); })) return sink;
  return rebuild(nodes, [&](UOp u, std::span<const UOp> src, bool same) { return legalizer.legal(u, src, same); });
}

}  // namespace quern
