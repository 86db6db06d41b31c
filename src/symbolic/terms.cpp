#include "symbolic/terms.h"

#include <numeric>

#include "ir/fold.h"
#include "symbolic/rules.h"
#include "symbolic/simplify.h"

namespace quern {

std::vector<UOp> terms_of(UOp x, Op op) {
  std::vector<UOp> leaves;
  if (!x.is(op)) {
    leaves.push_back(x);
    return leaves;
  }
  std::vector<UOp> stack{x};
  while (!stack.empty()) {
    UOp node = stack.back();
    stack.pop_back();
    if (node.is(op)) {
      for (size_t i = node.num_src(); i-- > 0;) stack.push_back(node.src(i));
    } else {
      leaves.push_back(node);
    }
    if (leaves.size() + stack.size() > kMaxTerms) return {};
  }
  return leaves;
}

UOp sum_of(const std::vector<UOp>& terms) {
  return std::accumulate(terms.begin() + 1, terms.end(), terms.front(), [](UOp a, UOp b) { return a + b; });
}

UOp constant_like(UOp like, Int128 value) {
  bool ok = like.dtype().is_index() ? fits_const(value) : wrap(like.dtype().scalar, value) == value;
  return ok ? like.graph().const_int(like.dtype(), value) : UOp();
}

bool fits(UOp x, Scalar dtype) {
  return dtype == Scalar::Index || (x.vmin() >= min_value(dtype) && x.vmax() <= max_value(dtype));
}

bool is_exact(UOp x) {
  if (x.dtype().is_index()) return true;
  UOp a = x.src(0), b = x.src(1);
  Int128 lo = min_value(x.dtype().scalar), hi = max_value(x.dtype().scalar);
  auto inside = [&](Int128 v) { return v >= lo && v <= hi; };
  if (x.is(Op::Add)) return inside(a.vmin() + b.vmin()) && inside(a.vmax() + b.vmax());
  if (x.is(Op::Sub)) return inside(a.vmin() - b.vmax()) && inside(a.vmax() - b.vmin());
  if (!x.is(Op::Mul)) return false;
  constexpr Int128 kSafe = Int128{1} << 63;  // products of two values up to this fit 128 bits
  if (a.vmax() > kSafe || b.vmax() > kSafe) return false;
  return inside(a.vmin() * b.vmin()) && inside(a.vmin() * b.vmax()) && inside(a.vmax() * b.vmin()) &&
         inside(a.vmax() * b.vmax());
}

Guard exact(std::string_view name) {
  return fn("exact(" + std::string(name) + ")", [n = std::string(name)](const Match& m) { return is_exact(m[n]); });
}

Guard in_range(std::string_view name) {
  return fn("in_range(" + std::string(name) + ")", [n = std::string(name)](const Match& m) {
    UOp cast = m[n];
    return fits(cast.src(0), cast.dtype().scalar);
  });
}

Guard folds(Op op, std::string_view a, std::string_view b) {
  return fn("folds", [op, x = std::string(a), y = std::string(b)](const Match& m) {
    UOp args[] = {m[x], m[y]};
    return static_cast<bool>(fold_constants(m.graph(), op, args[0].dtype(), args));
  });
}

// ---- factors ----

namespace {

Int128 gcd(Int128 a, Int128 b) {
  if (a < 0) a = -a;
  if (b < 0) b = -b;
  while (b != 0) {
    Int128 r = a % b;
    a = b;
    b = r;
  }
  return a;
}

/// Limits of a look through ADDs and MULs; what lies beyond is not known to divide or to grow. A small graph can be a huge tree.
struct Effort {
  int depth = 500;
  int nodes = 4096;
  bool spent() { return --nodes < 0 || depth < 0; }
  struct Deeper {
    explicit Deeper(Effort& e) : effort(e) { --effort.depth; }
    ~Deeper() { ++effort.depth; }
    Effort& effort;
  };
};

Int128 lane_gcd(UOp vconst) {
  Int128 g = 0;
  for (int i = 0; i < vconst.dtype().lanes(); ++i) g = gcd(g, vconst.gep(i).const_int());
  return g;
}

Int128 leaf_factor(UOp x) {
  if (x.is_const()) return x.const_int();
  if (x.is(Op::Vconst)) return lane_gcd(x);
  if (!x.is(Op::Mul)) return 1;
  for (UOp s : x.src())
    if (s.is_const()) return s.const_int();
  return 1;
}

UOp divided_constant(UOp x, Int128 v) {
  if (x.is_const()) return x.const_int() % v == 0 ? constant_like(x, x.const_int() / v) : UOp();
  ConstVector lanes;
  for (int i = 0; i < x.dtype().lanes(); ++i) {
    UOp lane = divided_constant(x.gep(i), v);
    if (!lane) return UOp();
    lanes.push_back(std::get<ConstBits>(lane.arg()));
  }
  return x.graph().const_vector(x.dtype(), std::move(lanes));
}

UOp divided(UOp x, Int128 v, Effort& effort) {
  if (v == 1) return x;
  if (v == 0 || effort.spent()) return UOp();
  Effort::Deeper deeper(effort);
  if (x.is(OpSet{Op::Const, Op::Vconst})) return divided_constant(x, v);
  if (x.is(Op::Add)) {
    UOp a = divided(x.src(0), v, effort);
    UOp b = a ? divided(x.src(1), v, effort) : UOp();
    return b ? a + b : UOp();
  }
  if (x.is(Op::Mul)) {
    // The constant first: -1 divides everything, and a sum's sign would go to and fro.
    if (x.src(1).is_const())
      if (UOp b = divided(x.src(1), v, effort)) return x.src(0) * b;
    if (UOp a = divided(x.src(0), v, effort)) return a * x.src(1);
    if (UOp b = divided(x.src(1), v, effort)) return x.src(0) * b;
  }
  return UOp();
}

bool increases(UOp x, Effort& effort) {
  if (x.is(kIrreducibleOps)) return true;
  if (effort.spent()) return false;
  Effort::Deeper deeper(effort);
  if (x.is(Op::Add)) return increases(x.src(0), effort) && increases(x.src(1), effort);
  if (x.is(OpSet{Op::Mul, Op::Idiv}) && x.src(1).is_const() && x.src(1).const_int() >= 0)
    return increases(x.src(0), effort);
  return false;
}

}  // namespace

Int128 const_factor(UOp x) {
  if (!x.dtype().is_int()) return 1;
  if (!x.is(Op::Add)) return leaf_factor(x);
  std::vector<UOp> terms = terms_of(x);
  if (terms.empty()) return 1;
  Int128 g = 0;
  for (UOp t : terms) {
    g = gcd(g, leaf_factor(t));
    if (g == 1) break;
  }
  return g;
}

std::optional<UOp> divides(UOp x, Int128 v) {
  if (!x.dtype().is_index()) return v == 1 ? std::optional(x) : std::nullopt;
  Effort effort;
  UOp d = divided(x, v, effort);
  return d ? std::optional(d) : std::nullopt;
}

bool is_increasing(UOp x) {
  Effort effort;
  return x.dtype().is_index() && increases(x, effort);
}

// ---- rules ----

std::vector<Rule> order_rules() {
  constexpr OpSet kCommutativeOps = {Op::Add, Op::Mul, Op::Max, Op::Cmpne, Op::Xor, Op::Or, Op::And};
  auto out_of_order = [](UOp u) { return u.src(0) != u.src(1) && compare(u.src(1), u.src(0)) < 0; };
  auto swap = [](const Match& m) {
    UOp swapped[] = {m.root().src(1), m.root().src(0)};
    return m.root().with_src(swapped);
  };
  return {Rule("order operands", pat::op(kCommutativeOps, {pat::any(), pat::any()}).ordered(), with(swap))
              .when(out_of_order)};
}

std::vector<Rule> term_rules() {
  const Pat x = pat::var("x"), y = pat::var("y"), c = pat::cvar("c"), c0 = pat::cvar("c0"), c1 = pat::cvar("c1");
  // Reordering a sum is exact for ints that wrap, too, but not for floats.
  auto ints = [](const Pat& p) { return p.of(kAllInts); };
  const Guard val_is_max =
      fn("is_max(c)", [](const Match& m) { return m["c"].vmax() == INT64_MAX && m["c"].dtype().is_index(); });
  return {
      {"group like terms", ints((x + y) + x * c), (x + x * c) + y},
      {"add multiples", ints(x * c0 + x * c1), x * (c0 + c1), folds(Op::Add, "c0", "c1")},
      {"add to multiple", ints(x + x * c), x * (c + 1), !val_is_max},
      {"double", (x + x).of(kAllInts | kFloats), x * 2},
      {"negate sum with constant", ints(Pat(-1) * (x + c)), x * -1 + c * -1},
  };
}

std::vector<Rule> stage_rules() {
  const Pat x = pat::var("x"), c1 = pat::cvar("c1"), c2 = pat::cvar("c2");
  const Pat y = pat::op_any(OpSet::all() - OpSet{Op::Const, Op::Vconst}).named("y");
  auto ints = [](const Pat& p) { return p.of(kAllInts); };
  return {
      {"add twice", ints((x + c1) + c2), x + (c1 + c2), folds(Op::Add, "c1", "c2")},
      {"multiply twice", ints((x * c1) * c2), x * (c1 * c2), folds(Op::Mul, "c1", "c2")},
      {"and twice", (x & c1) & c2, x & (c1 & c2)},
      {"or twice", (x | c1) | c2, x | (c1 | c2)},
      {"constant addend last", ints((x + c1).ordered() + y), (x + y) + c1},
      {"constant factor last", ints((x * c1).ordered() * y), (x * y) * c1},
  };
}

std::vector<Rule> distribution_rules() {
  const Pat x = pat::var("x"), y = pat::var("y"), c = pat::cvar("c");
  return {
      {"negate sum", (Pat(-1) * (x + y)).of(kAllInts), x * -1 + y * -1},
      {"distribute", ((x + y) * c).of(kAllInts), x * c + y * c},
  };
}

}  // namespace quern
