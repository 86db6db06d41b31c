#include "lower/loop_collapse.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "ir/graph.h"
#include "ir/node_map.h"
#include "lower/linear_index.h"
#include "symbolic/simplify.h"

namespace quern {

namespace {

UOp zero_like(UOp x) { return x.graph().constant(x.dtype(), 0); }
bool is_zero(UOp u) {
  if (!u.is_const()) return false;
  return u.dtype().is_float() ? u.const_float() == 0.0 : u.const_int() == 0;
}
bool is_one(UOp u) {
  if (!u.is_const()) return false;
  return u.dtype().is_float() ? u.const_float() == 1.0 : u.const_int() == 1;
}
bool is_finite_const(UOp u) { return u.is_const() && (!u.dtype().is_float() || std::isfinite(u.const_float())); }
bool is_bool_cast(UOp u) { return u.is(Op::Cast) && u.src(0).dtype().is_bool(); }

UOp greater_of(UOp a, UOp b) { return a.vmin() >= b.vmax() ? a : b.vmin() >= a.vmax() ? b : a.max(b); }
UOp lesser_of(UOp a, UOp b) { return a.vmax() <= b.vmin() ? a : b.vmax() <= a.vmin() ? b : -(-a).max(-b); }
UOp quotient(UOp x, Int128 by) { return by == 1 ? x : x.idiv(x.const_like(static_cast<int64_t>(by))); }

/// A term of a sum: `value` where all conditions hold, else 0.
struct Term {
  std::vector<UOp> conditions;
  UOp value;
  bool is_product = false;  ///< of 0 or 1 and the value, rather than a selection
};

/// The conditions of nested selections and products with bools, and what is selected.
Term dissect(UOp u) {
  Term term;
  std::vector<DType> casts;
  auto require = [&](UOp condition) {
    for (UOp c : split(condition, Op::And)) term.conditions.push_back(c);
  };
  for (;;) {
    if (u.dtype().lanes() != 1) break;
    if (u.is(Op::Where) && is_zero(u.src(2))) {
      require(u.src(0));
      u = u.src(1);
    } else if (u.is(Op::Where) && is_zero(u.src(1))) {
      require(u.src(0).logical_not());
      u = u.src(2);
    } else if (u.is(Op::Mul) && (is_bool_cast(u.src(0)) || is_bool_cast(u.src(1)))) {
      const size_t at = is_bool_cast(u.src(0)) ? 0 : 1;
      require(u.src(at).src(0));
      term.is_product = true;
      u = u.src(1 - at);
    } else if (is_bool_cast(u)) {
      require(u.src(0));
      u = u.graph().constant(u.dtype(), 1);
    } else if (u.is(Op::Cast) && u.src(0).is(Op::Where) && (is_zero(u.src(0).src(1)) || is_zero(u.src(0).src(2)))) {
      casts.push_back(u.dtype());
      u = u.src(0);
    } else {
      break;
    }
  }
  while (!casts.empty()) {
    u = u.cast(casts.back());
    casts.pop_back();
  }
  term.value = u;
  return term;
}

/// What a condition says about the loop's variable.
struct Clause {
  enum class Kind : uint8_t { Below, From, Equal } kind;
  UOp limit;     ///< r < limit, r >= limit, r == limit
  UOp provided;  ///< Equal: a condition besides, if any
};

std::optional<Clause> clause_of(UOp condition, UOp r) {
  bool holds = true;
  while (condition.is(Op::Cmpne) && condition.src(0).dtype().is_bool() && condition.src(1).is_const_int(1)) {
    holds = !holds;
    condition = condition.src(0);
  }
  const bool less = condition.is(Op::Cmplt);
  if (!less && !(condition.is(Op::Cmpne) && !holds)) return {};
  if (condition.src(0).dtype().is_bool()) return {};
  UOp left = as_index(condition.src(0)), right = as_index(condition.src(1));
  if (!left || !right) return {};
  auto linear = linear_in(left - right, r);
  if (!linear || linear->factor == 0) return {};
  // factor * r + rest is below 0, not below 0, or 0.
  const bool positive = linear->factor > 0;
  const Int128 step = positive ? linear->factor : -linear->factor;
  UOp rest = simplify(linear->rest);
  if (less) {
    UOp limit = positive ? -quotient(rest, step) : quotient(rest, step) + 1;
    return Clause{positive == holds ? Clause::Kind::Below : Clause::Kind::From, simplify(limit), UOp()};
  }
  UOp at = positive ? simplify(-rest) : rest;
  UOp divides;
  if (step != 1) divides = at.mod(at.const_like(static_cast<int64_t>(step))).eq(at.const_like(0));
  return Clause{Clause::Kind::Equal, simplify(quotient(at, step)), divides};
}

/// `u` at r = v, reading memory only where the gate holds. Empty if something other than values depends on r.
UOp at_value(UOp u, UOp r, UOp v, UOp gate) {
  if (!depends_on(u, r)) return u;
  NodeScratch<UOp> done;
  std::vector<UOp> src;
  for (UOp n : toposort(u)) {
    if (n == r) {
      done.set(n, v);
      continue;
    }
    src.clear();
    bool same = true;
    for (UOp s : n.src()) {
      src.push_back(done.get(s));
      same &= src.back() == s;
    }
    if (!same && n.is({Op::DefineAcc, Op::Barrier, Op::Store, Op::If, Op::Range})) return UOp();
    if (!same && n.is(Op::Index)) {
      if (src.size() > 2)
        src[2] = src[2] & gate;
      else
        src.push_back(gate);
    }
    done.set(n, same ? n : n.with_src(src));
  }
  return done.get(u);
}

bool is_gated_by(UOp load, UOp gate) {
  if (load.is(Op::Cast)) load = load.src(0);
  return load.is(Op::Load) && load.src(0).is(Op::Index) && load.src(0).num_src() == 3 && load.src(0).src(2) == gate;
}

/// One loop of a sum.
struct Loop {
  UOp r, start, end;

  explicit Loop(UOp range) : r(range), start(range.src(0)), end(range.src(1)) {}
  UOp rounds() const { return is_zero(start) ? end : simplify(end - start); }
  bool runs() const { return end.vmin() > start.vmax(); }

  /// The sum of a term over the loop without it, or empty.
  UOp sum_of(UOp u) const {
    Term term = dissect(u);
    std::vector<UOp> fixed, moving;
    for (UOp c : term.conditions) (depends_on(c, r) ? moving : fixed).push_back(c);
    UOp sum;
    if (moving.empty()) {
      if (depends_on(term.value, r)) return UOp();
      return repeated(u, rounds(), false);
    }
    std::vector<Clause> clauses;
    for (size_t i = 0; i < moving.size(); ++i) {
      auto clause = clause_of(moving[i], r);
      if (clause && clause->kind == Clause::Kind::Equal) {
        moving.erase(moving.begin() + static_cast<std::ptrdiff_t>(i));
        moving.insert(moving.end(), fixed.begin(), fixed.end());
        return selected(term.value, *clause, moving);
      }
      if (clause) clauses.push_back(*clause);
    }
    if (clauses.size() != moving.size() || depends_on(term.value, r)) return UOp();
    if (term.is_product && !is_finite_const(term.value) && term.value.dtype().is_float()) return UOp();
    sum = repeated(term.value, simplify(count(clauses)), true);
    if (!sum) return sum;
    for (UOp c : fixed) sum = c.where(sum, zero_like(sum));
    return sum;
  }

 private:
  /// For how many r all clauses hold.
  UOp count(std::span<const Clause> clauses) const {
    UOp low = start, high = end;
    for (const Clause& c : clauses) {
      if (c.kind == Clause::Kind::Below)
        high = lesser_of(high, c.limit);
      else
        low = greater_of(low, c.limit);
    }
    UOp length = simplify(high - low);
    return greater_of(length, length.const_like(0));
  }

  /// `times` times the value; `maybe_never`: the number may be 0.
  UOp repeated(UOp value, UOp times, bool maybe_never) const {
    const DType type = value.dtype();
    if (type.is_bool()) return UOp();
    if (!maybe_never && !runs()) maybe_never = true;
    if (type.lanes() != 1 && !times.is_const()) return UOp();
    UOp number = times.is_const() && fits_exactly(type.scalar, times.const_int())
                     ? times.graph().constant(type, static_cast<int64_t>(times.const_int()))
                     : times.cast(type);
    if (is_one(value)) return number;
    if (is_one(number)) return value;
    // 0 times infinity would be NaN.
    if (maybe_never && type.is_float() && !is_finite_const(value))
      value = times.const_like(0).lt(times).where(value, zero_like(value));
    return value * number;
  }
  static bool fits_exactly(Scalar s, Int128 v) {
    return (scalar_bit(s) & (kFloats | kAllInts)) != 0 && v >= INT64_MIN && v <= INT64_MAX;
  }

  UOp selected(UOp value, const Clause& at, std::span<const UOp> others) const {
    const UOp v = at.limit;
    if (v.vmin() < INT64_MIN || v.vmax() > INT64_MAX) return UOp();
    UOp gate;
    auto require = [&](UOp c) { gate = gate ? gate & c : c; };
    if (v.vmin() < start.vmax()) require(v.ge(start));
    if (v.vmax() >= end.vmin()) require(v.lt(end));
    if (at.provided) require(at.provided);
    for (UOp c : others) {
      UOp there = at_value(c, r, v, gate ? gate : c.graph().const_bool(true));
      if (!there) return UOp();
      require(there);
    }
    UOp there = gate ? at_value(value, r, v, gate) : substitute(value, std::vector<std::pair<UOp, UOp>>{{r, v}});
    if (!there || !gate || is_gated_by(there, gate)) return there;
    return gate.where(there, zero_like(there));
  }
};

/// True if the value is not -0.0, or is one that was read: adding it to 0 changes nothing that matters.
bool adds_to_zero_as_is(UOp u) {
  if (!u.dtype().is_float()) return true;
  auto counts = [](UOp x) { return x.is(Op::Cast) && !x.src(0).dtype().is_float() && x.src(0).vmin() >= 0; };
  auto positive = [](UOp x) { return x.is_const() && x.const_float() > 0; };
  auto simple = [&](UOp x) {
    if (x.is_const()) return !std::signbit(x.const_float());
    return x.is(Op::Load) || (x.is(Op::Cast) && (!x.src(0).dtype().is_float() || x.src(0).is(Op::Load)));
  };
  if (u.is(Op::Where)) return simple(u.src(1)) && simple(u.src(2));
  if (u.is(Op::Mul)) return (counts(u.src(0)) && positive(u.src(1))) || (counts(u.src(1)) && positive(u.src(0)));
  return simple(u);
}

bool is_identity(Op op, UOp init, UOp value) {
  if (!init.is_const()) return false;
  if (op == Op::Add) return is_zero(init) && adds_to_zero_as_is(value);
  if (init.dtype().is_float()) return init.const_float() == -std::numeric_limits<double>::infinity();
  return init.const_int() == min_value(init.dtype().scalar);
}

/// x and k of x * k with a small whole number k; any other value is itself, once.
std::pair<UOp, int64_t> multiple(UOp u) {
  constexpr int64_t kLimit = 1 << 20;
  if (!u.is(Op::Mul) || !u.src(1).is_const()) return {u, 1};
  const UOp by = u.src(1);
  if (by.dtype().is_float()) {
    const double k = by.const_float();
    return k != 0 && k == std::trunc(k) && std::fabs(k) < kLimit ? std::pair{u.src(0), static_cast<int64_t>(k)}
                                                                 : std::pair{u, int64_t{1}};
  }
  const Int128 k = by.const_int();
  return k > -kLimit && k < kLimit ? std::pair{u.src(0), static_cast<int64_t>(k)} : std::pair{u, int64_t{1}};
}

/// The reduction of all terms; what unrolling repeated is multiplied.
UOp joined(Op op, std::span<const UOp> terms) {
  std::vector<std::pair<UOp, int64_t>> different;
  for (UOp t : terms) {
    auto [x, k] = op == Op::Add ? multiple(t) : std::pair{t, int64_t{1}};
    auto same = std::find_if(different.begin(), different.end(), [&](const auto& d) { return d.first == x; });
    if (same == different.end())
      different.emplace_back(x, k);
    else
      same->second += k;
  }
  UOp all;
  for (auto [x, k] : different) {
    UOp term = k == 1 || op == Op::Max ? x : x * x.graph().constant(x.dtype(), k);
    all = all ? all.alu(op, term) : term;
  }
  return all;
}

/// The terms' value without the loop, or empty.
UOp without_loop(Op op, std::span<const UOp> terms, UOp range) {
  const Loop loop(range);
  if (op == Op::Max) {
    if (!loop.runs()) return UOp();
    for (UOp t : terms)
      if (depends_on(t, range)) return UOp();
    return joined(op, terms);
  }
  std::vector<UOp> sums;
  for (UOp t : terms) {
    UOp sum = loop.sum_of(t);
    if (!sum) return UOp();
    sums.push_back(sum);
  }
  return joined(op, sums);
}

}  // namespace

UOp collapse_reduction(UOp assign) {
  UOp acc = assign.src(0), next = assign.src(1);
  const Op op = next.op();
  if (!acc.is(Op::DefineAcc) || (op != Op::Add && op != Op::Max)) return UOp();
  std::vector<UOp> terms = split(next, op);
  auto end = std::remove(terms.begin(), terms.end(), acc);
  if (terms.end() - end != 1 || end == terms.begin()) return UOp();
  terms.erase(end, terms.end());
  for (size_t i = 1; i < acc.num_src(); ++i) {
    UOp value = without_loop(op, terms, acc.src(i));
    if (!value) continue;
    std::vector<UOp> src(acc.src().begin(), acc.src().end());
    src.erase(src.begin() + static_cast<std::ptrdiff_t>(i));
    if (src.size() == 1) return is_identity(op, src[0], value) ? value : src[0].alu(op, value);
    UOp left = acc.with_src(src);
    return assign.graph().node(Op::Assign, assign.dtype(), {left, left.alu(op, value)});
  }
  return UOp();
}

}  // namespace quern
