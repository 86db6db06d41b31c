#include "ir/fold.h"
#include "symbolic/rules.h"
#include "symbolic/terms.h"

namespace quern {

namespace {

constexpr ScalarSet kExact = kAllInts | kBoolOnly;  // types without NaN and -0.0

UOp fold_root(const Match& m) {
  UOp root = m.root();
  return fold_constants(m.graph(), root.op(), root.dtype(), root.src());
}

/// True if the bounds leave one value. Not for what is left of an index modulo but for % 1: its source may be a variable of
/// one value, which stands for an axis of one element and stays what it is, as in the reference.
bool has_one_value(UOp u) {
  if (u.vmin() != u.vmax() || !u.dtype().is_in(kExact) || u.dtype().is_ptr()) return false;
  return !u.is(Op::Mod) || !u.dtype().is_index() || u.src(1).vmax() == 1;
}
UOp only_value(const Match& m) { return constant_like(m.root(), m.root().vmin()); }

}  // namespace

std::vector<Rule> identity_rules() {
  const Pat x = pat::var("x"), y = pat::var("y"), c = pat::cvar("c"), base = pat::var("base");
  const Pat zero = 0, one = 1;
  auto exactly = [](const Pat& p) { return p.of(kExact); };
  return {
      {"add zero", exactly(x + 0), x},
      {"multiply by one", x * 1, x},
      {"divide by itself", pat::idiv(x, x), one, vmin("x") > 0 || vmax("x") < 0},
      {"divide by one", pat::idiv(x, 1), x},
      {"divide by minus one", pat::idiv(x, -1), x * -1},
      {"mod twice", pat::mod(pat::mod(pat::any(), y).named("base"), y), base},
      {"rejoin divmod", pat::mod(x, c) + pat::idiv(x, c) * c, x, val("c") != 0},
      {"max with itself", pat::max(x, x), x},
      {"and with itself", x & x, x},
      {"or with itself", x | x, x},
      {"xor with itself", exactly(x ^ x), zero},
      {"xor zero", x ^ 0, x},
      {"or zero", x | 0, x},
      {"and zero", exactly(x & 0), zero},
      {"shift by zero", pat::op(Op::Shl, {x, 0}), x},
      {"shift right by zero", pat::op(Op::Shr, {x, 0}), x},
      {"less than itself", pat::lt(x, x), pat::boolean(false)},
      {"differs from itself", pat::ne(x.of(kExact), x), pat::boolean(false)},
      {"multiply by zero", exactly(x * 0), zero},
  };
}

std::vector<Rule> constant_rules() {
  const Pat constant = pat::op_any({Op::Const, Op::Vconst});
  const Pat x = pat::var("x", kBoolOnly), y = pat::var("y", kBoolOnly);
  return {
      {"fold constants", pat::op_all(kAluOps, constant), with(fold_root)},
      {"bool product is and", x * y, x & y},
      {"bool sum is or", x + y, x | y},
      {"bool max is or", pat::max(x, y), x | y},
      {"cast constant", pat::cast(constant), with(fold_root)},
  };
}

std::vector<Rule> choice_rules() {
  const Pat x = pat::var("x"), y = pat::var("y"), c1 = pat::cvar("c1"), c2 = pat::cvar("c2");
  const Pat gate = pat::scalar_const("gate");
  // Past 2^100 bounds of index values say no more.
  const Guard known = fn("bounded(y)", [](const Match& m) { return m["y"].vmax() < kUnbounded; });
  return {
      {"where of the same", pat::where(pat::any(), x, x), x},
      {"where true", pat::where(gate, x, y), x, val("gate") != 0},
      {"where false", pat::where(gate, x, y), y, val("gate") == 0},
      Rule("only one value", pat::op_any(kAluOps | OpSet{Op::Cast}).of(kExact), with(only_value)).when(has_one_value),
      {"max of ordered", pat::max(x, y).of(kExact), x, vmin("x") >= vmax("y") && known},
      {"max of multiples", pat::max(x * c1, x * c2).of(kIndexOnly), x * c1, vmin("x") >= 0 && val("c1") >= val("c2")},
      {"max of multiples of negative", pat::max(x * c1, x * c2).of(kIndexOnly), x * c2,
       vmax("x") <= 0 && val("c1") >= val("c2")},
  };
}

}  // namespace quern
