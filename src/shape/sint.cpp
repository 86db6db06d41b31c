#include "shape/sint.h"

#include <algorithm>

#include "quern/error.h"

#include "ir/graph.h"
#include "symbolic/simplify.h"

namespace quern {

namespace sint_detail {

SInt symbolic(Op op, const SInt& a, const SInt& b) {
  Graph& graph = (a.is_int() ? b : a).expr().graph();
  return graph.index_of(a).alu(op, graph.index_of(b));
}

bool resolved(Op op, const SInt& a, const SInt& b, bool otherwise) {
  Graph& graph = (a.is_int() ? b : a).expr().graph();
  UOp condition = graph.index_of(a).alu(op, graph.index_of(b));
  if (condition.vmin() == condition.vmax()) return condition.vmin() != 0;  // no need to simplify
  return resolve(condition, otherwise);
}

void overflow(char op, int64_t a, int64_t b) {
  throw InvalidKernel("[shape] " + std::to_string(a) + " " + op + " " + std::to_string(b) + " does not fit 64 bits");
}

}  // namespace sint_detail

SInt floor_div(const SInt& a, const SInt& b) {
  if (a.is_int() && b.is_int()) return floor_div(a.value(), b.value());
  return sint_detail::symbolic(Op::Idiv, a, b);
}

SInt floor_mod(const SInt& a, const SInt& b) {
  if (a.is_int() && b.is_int()) return floor_mod(a.value(), b.value());
  return sint_detail::symbolic(Op::Mod, a, b);
}

// The expression comes before the number, and the minimum is spelled -max(-a, -b), as the reference does.
SInt smax(const SInt& a, const SInt& b) {
  if (a.is_int() && b.is_int()) return std::max(a.value(), b.value());
  return simplified(a.is_int() ? sint_detail::symbolic(Op::Max, b, a) : sint_detail::symbolic(Op::Max, a, b));
}

SInt smin(const SInt& a, const SInt& b) {
  if (a.is_int() && b.is_int()) return std::min(a.value(), b.value());
  SInt na = -a, nb = -b;
  return simplified(-(a.is_int() ? sint_detail::symbolic(Op::Max, nb, na) : sint_detail::symbolic(Op::Max, na, nb)));
}

SInt prod(std::span<const SInt> values) {
  SInt product = 1;
  for (const SInt& v : values) product *= v;
  return product;
}

SInt simplified(const SInt& a) { return a.is_int() ? a : SInt(simplify(a.expr())); }

Int128 min_of(const SInt& a) { return a.is_int() ? Int128{a.value()} : a.expr().vmin(); }
Int128 max_of(const SInt& a) { return a.is_int() ? Int128{a.value()} : a.expr().vmax(); }

bool all_int(std::span<const SInt> values) {
  return std::all_of(values.begin(), values.end(), [](const SInt& v) { return v.is_int(); });
}

}  // namespace quern
