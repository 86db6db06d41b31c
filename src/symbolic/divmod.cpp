#include <algorithm>

#include "symbolic/rules.h"
#include "symbolic/simplify.h"
#include "symbolic/terms.h"

namespace quern {

namespace {

Int128 gcd(Int128 a, Int128 b) {
  while (b != 0) std::swap(a = a % b, b);
  return a < 0 ? -a : a;
}

// ---- x // c and x % c for index values and c > 0, by floor: x = c*q + r gives x // c = q + r // c and x % c = r % c ----

/// The terms of x sorted into whole multiples of c and the rest.
struct Split {
  std::vector<UOp> quotient;   // terms of q
  std::vector<UOp> remainder;  // terms of r
  Int128 step = 1;             // divides c and what of r is not constant
  bool changed = false;
};

std::optional<Split> split_by(UOp x, Int128 c) {
  Split s;
  Int128 constant = 0, common = c, divisor = 1;
  std::vector<UOp> terms = terms_of(x);
  if (terms.empty()) return std::nullopt;
  for (UOp t : terms) {
    if (t.is_const()) {
      s.changed |= constant != 0;
      constant += t.const_int();
      continue;
    }
    Int128 factor = const_factor(t);
    if (factor % c == 0) {
      if (factor != 0) {
        std::optional<UOp> q = divides(t, c);
        if (!q) return std::nullopt;
        s.quotient.push_back(*q);
      }
      s.changed = true;
      continue;
    }
    // With nothing in common to all terms, the smallest divisor of c among the factors still lets one division become two.
    if (t.is(Op::Mul) && factor > 1 && c % factor == 0 && (divisor == 1 || divisor > factor)) divisor = factor;
    s.remainder.push_back(t);
    common = gcd(common, factor);
  }
  if (floor_mod(constant, c) != constant) {
    s.changed = true;
    UOp q = constant_like(x, floor_div(constant, c));
    if (!q) return std::nullopt;
    s.quotient.push_back(q);
    constant = floor_mod(constant, c);
  }
  if (constant != 0) s.remainder.push_back(constant_like(x, constant));
  s.step = common > 1 ? common : divisor;
  return s;
}

/// x // c simplified, or empty for no change.
UOp fold_div(UOp x, Int128 c) {
  if (x.vmin() >= 0 && x.vmax() < c) return x.const_like(0);
  std::optional<Split> s = split_by(x, c);
  if (!s) return UOp();
  auto rest = [&](UOp by_step) { return by_step.idiv(constant_like(x, c / s->step)); };
  if (!s->changed) {
    if (s->step <= 1 || s->step >= c) return UOp();
    UOp divided = fold_div(x, s->step);
    return divided ? rest(divided) : UOp();
  }
  if (s->remainder.empty()) return s->quotient.empty() ? x.const_like(0) : sum_of(s->quotient);
  UOp remainder = sum_of(s->remainder);
  UOp divided = fold_div(remainder, s->step);
  UOp r = divided ? rest(divided) : remainder.idiv(constant_like(x, c));
  return s->quotient.empty() ? r : r + sum_of(s->quotient);
}

/// x % c simplified, or empty for no change.
UOp fold_mod(UOp x, Int128 c) {
  if (x.vmin() >= 0 && x.vmax() < kUnbounded && x.vmin() / c == x.vmax() / c) {
    UOp whole = constant_like(x, -(x.vmin() / c) * c);
    return whole ? x + whole : UOp();
  }
  std::vector<UOp> remainder, terms = terms_of(x);
  bool changed = false;
  for (UOp t : terms) {
    Int128 factor = const_factor(t), reduced = floor_mod(factor, c);
    if (reduced != factor) {
      std::optional<UOp> unit = divides(t, factor);
      if (!unit) return UOp();
      remainder.push_back(*unit * constant_like(x, reduced));
      changed = true;
    } else if (t.is(Op::Mod) && t.src(1).is_const() && t.src(1).const_int() != 0 && t.src(1).const_int() % c == 0) {
      remainder.push_back(t.src(0));
      changed = true;
    } else {
      remainder.push_back(t);
    }
  }
  return changed ? sum_of(remainder).mod(constant_like(x, c)) : UOp();
}

/// x//d + (x+1)//d + ... + (x+d-1)//d is x. Terms that are 0 for every x may be missing.
UOp fold_unrolled_divs(const Match& m) {
  std::vector<UOp> terms = terms_of(m.root());
  if (terms.empty()) return UOp();
  UOp divisor, x;
  std::vector<Int128> seen;
  for (UOp t : terms) {
    if (!t.is(Op::Idiv) || !t.src(1).is_const() || (divisor && divisor != t.src(1))) return UOp();
    divisor = t.src(1);
    UOp base = t.src(0);
    Int128 shift = 0;
    if (base.is(Op::Add) && base.src(1).is_const()) {
      shift = base.src(1).const_int();
      base = base.src(0);
    }
    if (x && x != base) return UOp();
    x = base;
    seen.push_back(shift);
  }
  Int128 d = divisor.const_int(), missing = d - static_cast<Int128>(seen.size());
  if (d > static_cast<Int128>(kMaxTerms)) return UOp();
  for (Int128 i = 0; i < missing; ++i)
    if (x.vmin() >= 0 && x.vmax() + i < d) seen.push_back(i);
  std::sort(seen.begin(), seen.end());
  if (static_cast<Int128>(seen.size()) != d) return UOp();
  for (size_t i = 0; i < seen.size(); ++i)
    if (seen[i] != static_cast<Int128>(i)) return UOp();
  return x;
}

}  // namespace

std::vector<Rule> index_divmod_rules() {
  const Pat x = pat::var("x", kIndexOnly), c = pat::scalar_const("c"), c1 = pat::cvar("c1"), c2 = pat::cvar("c2");
  return {
      {"divide twice", pat::idiv(pat::idiv(x, c1), c2), pat::idiv(x, pat::lit(val("c1") * val("c2"))),
       val("c1") != 0 && val("c2") > 0},
      {"unrolled divisions", pat::op(Op::Add, {pat::any(), pat::op_any({Op::Idiv})}).of(kIndexOnly),
       with(fold_unrolled_divs)},
      {"fold div", pat::idiv(x, c), with([](const Match& m) { return fold_div(m["x"], m["c"].const_int()); }),
       val("c") > 0},
      {"fold mod", pat::mod(x, c), with([](const Match& m) { return fold_mod(m["x"], m["c"].const_int()); }),
       val("c") > 0},
  };
}

std::vector<Rule> data_divmod_rules() {
  const Pat x = pat::var("x", kMachineInts), c = pat::cvar("c"), c1 = pat::cvar("c1"), c2 = pat::cvar("c2");
  return {
      {"mod in range", pat::mod(x, c), x, vmin("x") >= 0 && vmax("x") < val("c")},
      {"divide ints twice", pat::idiv(pat::idiv(x, c1), c2), pat::idiv(x, pat::lit(val("c1") * val("c2"))),
       val("c1") > 0 && val("c2") > 0},
  };
}

}  // namespace quern
