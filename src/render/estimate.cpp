#include <algorithm>
#include <limits>
#include <optional>

#include "ir/node_map.h"
#include "render/facts.h"
#include "shape/sint.h"

namespace quern {

namespace {

/// A product of a number and symbolic factors (nodes of the graph, ordered by number).
struct Factor {
  Int128 number = 1;
  std::vector<UOp> symbols;
};

/// A sum of products; numbers saturate far beyond 64 bits, so estimates of absurd sizes stay harmless.
class Sum {
 public:
  void add(const Factor& f, Int128 times) {
    Int128 amount = saturated(f.number, times);
    for (auto& [symbols, number] : terms_)
      if (symbols == f.symbols) {
        number = std::min(number + amount, kLimit);
        return;
      }
    terms_.emplace_back(f.symbols, amount);
  }

  static Int128 saturated(Int128 a, Int128 b) {
    Int128 r;
    return __builtin_mul_overflow(a, b, &r) ? kLimit : std::min(r, kLimit);
  }

  SInt value() const {
    SInt total = 0;
    for (const auto& [symbols, number] : terms_) {
      SInt count = static_cast<int64_t>(std::min<Int128>(number, std::numeric_limits<int64_t>::max()));
      SInt term = symbols.empty() ? count : SInt(symbols[0]);
      for (size_t i = 1; i < symbols.size(); ++i) term = term * SInt(symbols[i]);
      if (!symbols.empty() && !(count == 1)) term = term * count;
      total = total == 0 ? term : total + term;
    }
    return total;
  }

 private:
  static constexpr Int128 kLimit = Int128{1} << 100;
  std::vector<std::pair<std::vector<UOp>, Int128>> terms_;
};

/// The same expression in index arithmetic: a linear program's sizes are machine ints.
UOp as_index(UOp u) {
  Graph& graph = u.graph();
  NodeScratch<UOp> made;
  for (UOp n : toposort(u)) {
    if (n.is_const()) {
      made.set(n, graph.const_index(static_cast<int64_t>(n.const_int())));
    } else if (n.is(Op::Cast)) {
      made.set(n, made.get(n.src(0)));
    } else {
      std::vector<UOp> src;
      for (UOp s : n.src()) src.push_back(made.get(s));
      made.set(n, graph.node(n.op(), n.dtype().is_bool() ? n.dtype() : DType(Scalar::Index), src, n.arg()));
    }
  }
  return made.get(u);
}

void multiply(Factor& f, const SInt& size) {
  if (size.is_int()) {
    f.number = Sum::saturated(f.number, std::max<int64_t>(size.value(), 0));
    return;
  }
  f.symbols.push_back(size.expr());
  std::sort(f.symbols.begin(), f.symbols.end(), [](UOp a, UOp b) { return a.id() < b.id(); });
}

SInt length_of(UOp range) {
  UOp start = range.src(0), end = range.src(1);
  if (start.is_const() && end.is_const()) return static_cast<int64_t>(end.const_int() - start.const_int());
  SInt from = SInt(as_index(start)), to = SInt(as_index(end));
  return from == 0 ? to : simplified(to - from);
}

/// Marks what addresses, gates and conditions are computed from.
class IndexArithmetic {
 public:
  explicit IndexArithmetic(const LinearProgram& linear) {
    for (UOp u : linear.uops) {
      if (u.is({Op::Load, Op::Store})) {
        mark(u.src(0));
        if (u.num_src() > 2) mark(u.src(2));
      } else if (u.is(Op::If)) {
        mark(u.src(0));
      }
    }
  }
  bool contains(UOp u) const { return marked_.get(u) != 0; }

 private:
  void mark(UOp root) {
    stack_.push_back(root);
    while (!stack_.empty()) {
      UOp u = stack_.back();
      stack_.pop_back();
      if (marked_.get(u)) continue;
      marked_.set(u, 1);
      for (UOp s : u.src()) stack_.push_back(s);
    }
  }
  NodeScratch<uint8_t> marked_;
  std::vector<UOp> stack_;
};

}  // namespace

Estimates estimate(const LinearProgram& linear) {
  IndexArithmetic indexing(linear);
  Sum ops, bytes;
  Factor now;
  std::vector<Factor> outside;
  for (UOp u : linear.uops) {
    switch (u.op()) {
      case Op::Range:
        outside.push_back(now);
        multiply(now, length_of(u));
        break;
      case Op::Endrange:
        now = std::move(outside.back());
        outside.pop_back();
        break;
      case Op::Special: multiply(now, std::get<const SpecialArg*>(u.arg())->size); break;
      case Op::Load: bytes.add(now, u.dtype().itemsize()); break;
      case Op::Store: bytes.add(now, u.src(1).dtype().itemsize()); break;
      case Op::Wmma: {
        const WmmaArg& w = *std::get<const WmmaArg*>(u.arg());
        if (!indexing.contains(u)) ops.add(now, Int128{2} * w.dims[0] * w.dims[1] * w.dims[2] / w.threads);
        break;
      }
      default:
        if (u.is(kAluOps) && !indexing.contains(u)) ops.add(now, (u.is(Op::Mulacc) ? 2 : 1) * u.dtype().count);
    }
  }
  return {ops.value(), bytes.value(), 0};
}

}  // namespace quern
