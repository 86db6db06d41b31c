#include "optimize/padding.h"

#include <algorithm>

#include "ir/node_map.h"

namespace quern {
namespace {

/// Ops that give 0 if all their sources are 0.
constexpr OpSet kZeroOfZeros = {Op::Cast, Op::Bitcast, Op::Sin, Op::Sqrt, Op::Neg,   Op::Add,   Op::Sub,
                                Op::Mul,  Op::Max,     Op::Mod, Op::Shl,  Op::Shr,   Op::Cmplt, Op::Cmpne,
                                Op::Xor,  Op::Or,      Op::And, Op::Idiv, Op::Mulacc};

bool is_zero_constant(UOp node) {
  if (!node.is_const()) return false;
  return node.dtype().is_float() ? node.const_float() == 0.0 : node.const_int() == 0;
}

bool is_zero(UOp node, const NodeScratch<uint8_t>& zero) {
  const auto source_is_zero = [&](size_t i) { return zero.get(node.src(i)) != 0; };
  switch (node.op()) {
    case Op::Load:
    case Op::Valid: return true;  // masked
    case Op::Const: return is_zero_constant(node);
    case Op::Where: return source_is_zero(2) && (source_is_zero(0) || source_is_zero(1));
    case Op::ReduceAxis:  // of other reduces the operand is the reduce's identity there
      return std::get<const ReduceArg*>(node.arg())->op == Op::Add && source_is_zero(0);
    case Op::And: return source_is_zero(0) || source_is_zero(1);
    case Op::Shl:
    case Op::Shr:
    case Op::Mod:
    case Op::Idiv: return source_is_zero(0);
    case Op::Mul:
      if (!node.dtype().is_float() && (source_is_zero(0) || source_is_zero(1))) return true;
      break;  // 0 times infinity is not 0
    default: break;
  }
  if (!node.is(kZeroOfZeros)) return false;
  return std::all_of(node.src().begin(), node.src().end(), [&](UOp source) { return zero.get(source) != 0; });
}

}  // namespace

bool is_zero_in_padding(UOp value) {
  NodeScratch<uint8_t> zero;
  for (UOp node : toposort(value)) zero.set(node, is_zero(node, zero) ? 1 : 0);
  return zero.get(value) != 0;
}

}  // namespace quern
