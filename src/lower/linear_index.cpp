#include "lower/linear_index.h"

#include <utility>
#include <vector>

#include "ir/graph.h"

namespace quern {

namespace {

constexpr Int128 kMaxFactor = Int128{1} << 62;
constexpr int kMaxDepth = 16;

bool holds(Scalar type, UOp x) { return x.vmin() >= min_value(type) && x.vmax() <= max_value(type); }

UOp as_index(UOp x, int depth) {
  Graph& g = x.graph();
  const DType type = x.dtype();
  if (type.is_ptr() || type.lanes() != 1) return UOp();
  if (type.is_index()) return x;
  if (!type.is_in(kMachineInts) || x.vmin() < INT64_MIN || x.vmax() > INT64_MAX) return UOp();
  if (x.is_const()) return g.const_int(Scalar::Index, x.const_int());
  if (x.is(Op::Cast) && x.src(0).dtype().is_int() && holds(type.scalar, x.src(0)) && depth < kMaxDepth) {
    if (UOp inner = as_index(x.src(0), depth + 1)) return inner;
  }
  if (x.is({Op::Add, Op::Mul}) && depth < kMaxDepth) {
    UOp a = as_index(x.src(0), depth + 1), b = as_index(x.src(1), depth + 1);
    UOp exact = a && b ? a.alu(x.op(), b) : UOp();
    if (exact && holds(type.scalar, exact)) return exact;
  }
  return x.cast(Scalar::Index);
}

}  // namespace

UOp as_index(UOp x) { return as_index(x, 0); }

std::optional<LinearIndex> linear_in(UOp x, UOp variable) {
  LinearIndex result{0, UOp()};
  std::vector<std::pair<UOp, Int128>> open{{x, 1}};
  while (!open.empty()) {
    auto [node, factor] = open.back();
    open.pop_back();
    if (factor > kMaxFactor || factor < -kMaxFactor) return {};
    if (node == variable) {
      result.factor += factor;
    } else if (!depends_on(node, variable)) {
      UOp term = factor == 1 ? node : node * static_cast<int64_t>(factor);
      result.rest = result.rest ? result.rest + term : term;
    } else if (node.is({Op::Add, Op::Sub})) {
      open.emplace_back(node.src(1), node.is(Op::Sub) ? -factor : factor);
      open.emplace_back(node.src(0), factor);
    } else if (node.is(Op::Mul) && (node.src(0).is_const() || node.src(1).is_const())) {
      const size_t at = node.src(1).is_const() ? 1 : 0;
      open.emplace_back(node.src(1 - at), factor * node.src(at).const_int());
    } else {
      return {};
    }
  }
  if (!result.rest) result.rest = x.graph().const_index(0);
  return result;
}

}  // namespace quern
