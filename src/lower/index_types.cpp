#include "lower/index_types.h"

#include <algorithm>
#include <map>
#include <string>

#include "quern/error.h"

#include "lower/rebuild.h"

namespace quern {

namespace {

bool fits(Scalar type, Int128 low, Int128 high) { return low >= min_value(type) && high <= max_value(type); }
Scalar machine_type(Int128 low, Int128 high) { return fits(Scalar::Int32, low, high) ? Scalar::Int32 : Scalar::Int64; }
Scalar machine_type(UOp u) { return machine_type(u.vmin(), u.vmax()); }
Scalar wider(Scalar a, Scalar b) { return a == Scalar::Int32 ? b : a; }

/// `u` in another width; constants are made anew.
UOp in_type(UOp u, Scalar type) {
  if (u.dtype().scalar == type) return u;
  if (u.is_const()) return u.graph().const_int(DType(type, u.dtype().count), u.const_int());
  return u.cast(DType(type, u.dtype().count));
}

UOp added(UOp x, Int128 value) { return value == 0 ? x : x + x.graph().const_int(x.dtype(), value); }

/// Floor division and modulo on machine ints.
struct FloorDivision {
  UOp old_x, old_y;  ///< index-typed: their bounds hold
  UOp x, y;          ///< as machine ints
  Scalar own;        ///< holds the result

  UOp divide() const { return result(Op::Idiv); }
  UOp modulo() const { return result(Op::Mod); }

 private:
  Scalar type() const { return wider(own, wider(x.dtype().scalar, y.dtype().scalar)); }

  UOp result(Op op) const {
    const Int128 low = old_x.vmin(), high = old_x.vmax();
    const bool is_const = old_y.vmin() == old_y.vmax();
    if (low >= 0 && old_y.vmin() > 0) return in_type(x, type()).alu(op, in_type(y, type()));
    if (is_const && old_y.vmin() > 0) return by_positive(op, old_y.vmin(), low, high);
    return corrected(op);
  }

  /// A power of two shifts or masks; else as many multiples of the divisor are added first as make the dividend positive.
  UOp by_positive(Op op, Int128 divisor, Int128 low, Int128 high) const {
    Graph& g = x.graph();
    if ((divisor & (divisor - 1)) == 0) {
      int bits = 0;
      while ((Int128{1} << bits) < divisor) ++bits;
      UOp wide = bits > 31 ? in_type(x, Scalar::Int64) : x;
      if (op == Op::Idiv) return wide.alu(Op::Shr, g.const_int(wide.dtype(), bits));
      return wide & g.const_int(wide.dtype(), divisor - 1);
    }
    const Int128 times = ceil_div(-low, divisor), offset = times * divisor;
    if (!fits(Scalar::Int64, low, high + offset) || !fits(Scalar::Int64, 0, offset)) return corrected(op);
    Scalar t = wider(type(), machine_type(0, std::max(high + offset, offset)));
    UOp shifted = added(in_type(x, t), offset);
    UOp by = g.const_int(t, divisor);
    return op == Op::Mod ? shifted.mod(by) : added(shifted.idiv(by), -times);
  }

  /// Truncates, then steps down where the signs of the remainder and the divisor differ.
  UOp corrected(Op op) const {
    UOp a = in_type(x, type()), b = in_type(y, type());
    UOp rest = a.mod(b), zero = a.const_like(0);
    UOp differs = rest.ne(zero) & rest.lt(zero).ne(b.lt(zero));
    if (op == Op::Mod) return differs.where(rest + b, rest);
    UOp quotient = a.idiv(b);
    return differs.where(quotient + quotient.const_like(-1), quotient);
  }
};

class IndexTypes {
 public:
  explicit IndexTypes(UOp sink) : graph_(sink.graph()), nodes_(toposort(sink)) {}

  UOp run() {
    bool any = false;
    for (UOp u : nodes_) {
      any |= u.dtype().is_index();
      if (u.is(Op::DefineVar) && !u.dtype().is_index())
        if (auto* var = std::get_if<const VarArg*>(&u.arg())) typed_variables_[(*var)->name] = u;
    }
    if (!any) return nodes_.back();
    return rebuild(nodes_, [this](UOp u, std::span<const UOp> src, bool same) { return lowered(u, src, same); });
  }

 private:
  UOp lowered(UOp u, std::span<const UOp> src, bool same) {
    if (u.is({Op::Cmplt, Op::Cmpne}) && u.src(0).dtype().is_index()) {
      Scalar t = wider(src[0].dtype().scalar, src[1].dtype().scalar);
      return in_type(src[0], t).alu(u.op(), in_type(src[1], t));
    }
    if (!u.dtype().is_index() || u.dtype().is_ptr()) return on_sources(u, src, same);
    const Scalar own = machine_type(u);
    UOp made = value(u, src, own);
    return in_type(made, own);
  }

  /// The value of an index-typed node, in 32 or 64 bits.
  UOp value(UOp u, std::span<const UOp> src, Scalar own) {
    const DType typed(own, u.dtype().count);
    switch (u.op()) {
      case Op::Const: return graph_.const_int(typed, u.const_int());
      case Op::Vconst: return graph_.const_vector(typed, *std::get<const ConstVector*>(u.arg()));
      case Op::DefineVar: return variable(u, typed);
      case Op::Special: return graph_.node(Op::Special, Scalar::Int32, {}, u.arg());
      case Op::Bind: return src[0];
      case Op::Range: {
        Scalar t = wider(own, machine_type(u.src(1)));
        return graph_.node(Op::Range, t, {in_type(src[0], t), in_type(src[1], t)}, u.arg());
      }
      case Op::Cast: return src[0].dtype().is_float() ? src[0].cast(Scalar::Int64) : src[0].cast(typed);
      case Op::Idiv: return FloorDivision{u.src(0), u.src(1), src[0], src[1], own}.divide();
      case Op::Mod: return FloorDivision{u.src(0), u.src(1), src[0], src[1], own}.modulo();
      default: break;
    }
    Scalar t = u.is({Op::Vectorize, Op::Gep}) ? Scalar::Int32 : own;
    const size_t first = u.is(Op::Where) ? 1 : 0;
    for (size_t i = first; i < src.size(); ++i) t = wider(t, src[i].dtype().scalar);
    if (!u.is(kAluOps | OpSet{Op::Vectorize, Op::Gep, Op::Load, Op::Assign, Op::DefineAcc}))
      throw InternalError("index arithmetic by " + std::string(to_string(u.op())));
    operands_.assign(src.begin(), src.end());
    for (size_t i = first; i < operands_.size(); ++i) operands_[i] = in_type(operands_[i], t);
    return graph_.node(u.op(), DType(t, u.dtype().count), operands_, u.arg());
  }

  UOp variable(UOp u, DType typed) {
    const VarArg& var = *std::get<const VarArg*>(u.arg());
    auto at = typed_variables_.find(var.name);
    if (at != typed_variables_.end()) return at->second;
    return graph_.node(Op::DefineVar, typed, {}, u.arg());
  }

  Graph& graph_;
  std::vector<UOp> nodes_;
  std::vector<UOp> operands_;                   ///< of the node being made
  std::map<std::string, UOp> typed_variables_;  ///< those that the kernel also uses as data: one argument, one type
};

}  // namespace

UOp lower_index_types(UOp sink) { return IndexTypes(sink).run(); }

}  // namespace quern
