#include <algorithm>

#include "ir/fold.h"
#include "symbolic/simplify.h"
#include "symbolic/terms.h"

namespace quern {

namespace {

/// What an AND of constraints says of one expression.
struct Range {
  UOp expr;
  std::optional<Int128> min, max;
};

/// Nothing if a clause is not understood.
std::optional<std::vector<Range>> parse_ranges(UOp valid) {
  std::vector<Range> ranges;
  std::vector<UOp> clauses = terms_of(valid, Op::And);
  if (clauses.empty()) return std::nullopt;
  for (UOp clause : clauses) {
    std::optional<Constraint> c = parse_constraint(clause);
    if (!c) return std::nullopt;
    auto at = std::find_if(ranges.begin(), ranges.end(), [&](const Range& r) { return r.expr == c->expr; });
    if (at == ranges.end()) at = ranges.insert(ranges.end(), Range{c->expr, {}, {}});
    std::optional<Int128>& side = c->upper ? at->max : at->min;
    if (!side)
      side = c->limit;
    else
      side = c->upper ? std::min(*side, c->limit) : std::max(*side, c->limit);
  }
  return ranges;
}

constexpr size_t kMaxClauses = 64;  // each is simplified under all before it

/// No variable of a kernel has this name.
constexpr std::string_view kStandIn = "fake\x01";

/// A variable with the bounds; empty if they do not fit 64 bits.
UOp stand_in(UOp expr, Int128 low, Int128 high) {
  if (!fits_const(low) || !fits_const(high)) return UOp();
  return expr.graph().variable(kStandIn, static_cast<int64_t>(low), static_cast<int64_t>(high), expr.dtype());
}

UOp replaced(UOp x, UOp from, UOp to) {
  std::pair<UOp, UOp> pair{from, to};
  return substitute(x, std::span(&pair, 1));
}

/// `x` simplified while `expr` stays between the bounds.
UOp simplified_within(UOp x, UOp expr, UOp variable) {
  UOp narrowed = simplify(replaced(x, expr, variable));
  return simplify(replaced(narrowed, variable, expr));
}

/// Ways to narrow `x`: of each set, one at least holds, so if all give the same result that is `x`.
using Ways = std::vector<std::pair<UOp, UOp>>;  // an expression and the variable that stands for it

std::vector<Ways> ways_of(const Range& r, Int128 low, Int128 high, UOp x) {
  std::vector<Ways> all;
  // A sum of atoms above 0 has an atom above 0.
  if (r.expr.is(Op::Add) && r.expr.dtype().is_index() && r.min == Int128{1}) {
    std::vector<UOp> atoms = terms_of(r.expr);
    Ways ways;
    for (UOp atom : atoms) {
      if (!atom.is(kIrreducibleOps)) {
        ways.clear();
        break;
      }
      if (atom.vmax() < 1) continue;
      if (UOp v = stand_in(atom, 1, atom.vmax()))
        ways.emplace_back(atom, v);
      else {
        ways.clear();
        break;
      }
    }
    if (!ways.empty()) all.push_back(std::move(ways));
  }
  if (depends_on(x, r.expr))
    if (UOp v = stand_in(r.expr, low, high)) all.push_back({{r.expr, v}});
  return all;
}

bool all_same(const std::vector<UOp>& nodes) {
  return std::all_of(nodes.begin(), nodes.end(), [&](UOp n) { return n == nodes.front(); });
}

UOp narrowed_by(UOp x, const Ways& ways) {
  std::vector<UOp> results;
  for (auto [expr, variable] : ways) {
    UOp made = simplified_within(x, expr, variable);
    // A pair of image coordinates may be narrowed one by one.
    bool pair = x.is(Op::Vectorize) && x.num_src() == 2;
    if (!results.empty() && made != results.front() && !pair) return x;
    results.push_back(made);
  }
  if (all_same(results)) return results.front();
  if (!x.is(Op::Vectorize) || x.num_src() != 2) return x;
  std::vector<UOp> lanes(x.src().begin(), x.src().end());
  for (size_t lane = 0; lane < 2; ++lane) {
    std::vector<UOp> made;
    for (UOp r : results)
      if (r.is(Op::Vectorize) && r.num_src() == 2) made.push_back(r.src(lane));
    if (made.size() == results.size() && all_same(made)) lanes[lane] = made.front();
  }
  return x.with_src(lanes);
}

}  // namespace

std::optional<Constraint> parse_constraint(UOp valid) {
  auto is_limit = [](UOp lt) { return lt.is(Op::Cmplt) && lt.src(1).is_const() && lt.src(0).dtype().is_int(); };
  if (valid.is(Op::Cmpne) && valid.src(1).is_const_int(1) && valid.src(1).dtype().is_bool() && is_limit(valid.src(0)))
    return Constraint{valid.src(0).src(0), false, valid.src(0).src(1).const_int()};
  if (is_limit(valid)) return Constraint{valid.src(0), true, valid.src(1).const_int() - 1};
  return std::nullopt;
}

std::optional<UOp> simplify_given(UOp valid, UOp x) {
  std::optional<std::vector<Range>> ranges = parse_ranges(valid);
  if (!ranges) return x;
  for (const Range& r : *ranges) {
    Int128 low = std::max(r.min.value_or(r.expr.vmin()), r.expr.vmin());
    Int128 high = std::min(r.max.value_or(r.expr.vmax()), r.expr.vmax());
    if (low > high) return std::nullopt;
    for (const Ways& ways : ways_of(r, low, high, x)) x = narrowed_by(x, ways);
  }
  return x;
}

std::optional<UOp> simplify_valid(UOp valid) {
  std::vector<UOp> clauses = terms_of(valid, Op::And);
  if (clauses.size() < 2 || clauses.size() > kMaxClauses) return std::nullopt;
  // Clauses on what is part of other clauses come first: they may simplify those.
  struct Ranked {
    int priority;
    size_t position;
  };
  std::vector<Ranked> order;
  for (size_t i = 0; i < clauses.size(); ++i) {
    int priority = 0;
    if (std::optional<Constraint> c = parse_constraint(clauses[i]))
      for (UOp other : clauses) priority -= other != c->expr && depends_on(other, c->expr);
    order.push_back({priority, i});
  }
  std::sort(order.begin(), order.end(), [](const Ranked& a, const Ranked& b) {
    return a.priority != b.priority ? a.priority < b.priority : a.position < b.position;
  });
  UOp kept;
  bool changed = false;
  for (const Ranked& r : order) {
    UOp clause = clauses[r.position], next = clause;
    if (kept)
      if (std::optional<UOp> given = simplify_given(kept, clause)) next = *given;
    changed |= next != clause;
    kept = kept ? kept & next : next;
  }
  return changed ? std::optional(kept) : std::nullopt;
}

}  // namespace quern
