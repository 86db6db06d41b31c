#include <algorithm>

#include "symbolic/rules.h"
#include "symbolic/simplify.h"
#include "symbolic/terms.h"

namespace quern {

namespace {

Int128 gcd_of_factors(const std::vector<UOp>& terms, Int128 start) {
  Int128 g = start;
  for (UOp t : terms) {
    Int128 a = g, b = const_factor(t);
    while (b != 0) std::swap(a = a % b, b);
    g = a < 0 ? -a : a;
  }
  return g;
}

/// d*A + p < d*k is A < k where 0 <= p < d.
UOp fold_less_than(const Match& m) {
  UOp x = m["x"], limit = m["c"];
  std::vector<UOp> scaled, rest;
  for (UOp t : terms_of(x)) (const_factor(t) == 1 ? rest : scaled).push_back(t);
  if (scaled.empty()) return UOp();
  Int128 d = gcd_of_factors(scaled, limit.const_int()), low = 0, high = 0;
  if (d <= 1) return UOp();
  for (UOp t : rest) {
    low += t.vmin();
    high += t.vmax();
  }
  if (low < 0 || high >= d) return UOp();
  std::optional<UOp> quotient = divides(sum_of(scaled), d);
  UOp bound = constant_like(limit, limit.const_int() / d);
  return quotient && bound ? quotient->lt(bound) : UOp();
}

/// a0*x0 + a1*x1 + ... > 0 is x0 + x1 + ... > 0 where all a > 0 and all x >= 0.
UOp drop_coefficients(const Match& m) {
  std::vector<UOp> terms = terms_of(m["x"]);
  if (terms.empty()) return UOp();
  bool changed = false;
  for (UOp& t : terms) {
    if (t.is(Op::Mul) && t.src(1).is_const() && t.src(1).const_int() > 0) {
      t = t.src(0);
      changed = true;
    }
    if (!t.is(kIrreducibleOps) || t.vmin() < 0) return UOp();
  }
  if (!changed) return UOp();
  UOp sum = sum_of(terms);
  return sum.lt(sum.const_like(1)).logical_not();
}

}  // namespace

std::vector<Rule> compare_rules() {
  const Pat x = pat::var("x"), y = pat::var("y"), c0 = pat::cvar("c0"), c1 = pat::cvar("c1");
  const Pat index = pat::var("x", kIndexOnly), c = pat::scalar_const("c");
  auto ints = [](const Pat& p) { return p.of(kAllInts).named("s"); };
  return {
      {"unshift lt", pat::lt((x + c0).of(kIndexOnly), c1), pat::lt(x, c1 + c0 * -1)},
      {"unshift lt of ints", pat::lt((x + c0).of(kMachineInts).named("s"), c1),
       pat::lt(x, pat::lit(val("c1") - val("c0"))), exact("s")},
      {"unscale lt", pat::lt(ints(x * c0), c1), pat::lt(x, pat::lit(ceil_div(val("c1"), val("c0")))),
       val("c0") > 0 && val("c1") > 0 && exact("s")},
      {"unscale lt by negative", pat::lt(ints(x * c0), c1),
       pat::lt(x * -1, pat::lit(0 - floor_div(0 - val("c1"), 0 - val("c0")))),
       val("c0") < -1 && val("c1") <= 0 && exact("s")},
      {"undivide lt", pat::lt(pat::idiv(x, c0).of(kIndexOnly), c1), pat::lt(x, pat::lit(val("c1") * val("c0"))),
       val("c0") > 0},
      {"undivide lt of ints", pat::lt(pat::idiv(x, c0).of(kMachineInts), c1),
       pat::lt(x, pat::lit(val("c1") * val("c0"))), val("c0") > 0 && val("c1") > 0},
      {"undivide lt of negative ints", pat::lt(pat::idiv(x, c0).of(kSignedInts), c1),
       pat::lt(x, pat::lit((val("c1") - 1) * val("c0") + 1)), val("c0") > 0 && val("c1") <= 0},
      {"drop remainder in lt", pat::lt(ints((x * c0).named("m") + y), c1),
       pat::lt(x, pat::lit(floor_div(val("c1"), val("c0")))),
       vmin("y") >= 0 && val("c0") > vmax("y") && floor_mod(val("c1"), val("c0")) == 0 && exact("m") && exact("s")},
      {"fold lt", pat::lt(index, c), with(fold_less_than), val("c") > 0},
      {"canonical simplex", pat::logical_not(pat::lt(index, 1)), with(drop_coefficients)},
  };
}

}  // namespace quern
