#include "ir/pattern.h"

#include "quern/error.h"

#include "ir/pattern_node.h"

namespace quern {

// ---- guards ----

namespace {

using Kind = GuardNode::Kind;

Guard leaf(Kind kind, std::string_view name) {
  return Guard(std::make_shared<GuardNode>(GuardNode{kind, 0, std::string(name), nullptr}));
}
Guard combine(Kind kind, const Guard& a, const Guard& b) {
  return Guard(std::make_shared<GuardNode>(GuardNode{kind, 0, {}, nullptr, a.node(), b.node()}));
}

Int128 eval(const GuardNode& g, const Match& m) {
  switch (g.kind) {
    case Kind::Number: return g.number;
    case Kind::Value: return m[g.name].const_int();
    case Kind::Min: return m[g.name].vmin();
    case Kind::Max: return m[g.name].vmax();
    case Kind::Function: return g.function(m);
    case Kind::And: return eval(*g.a, m) != 0 && eval(*g.b, m) != 0;
    case Kind::Or: return eval(*g.a, m) != 0 || eval(*g.b, m) != 0;
    default: return compute(g.kind, eval(*g.a, m), eval(*g.b, m));
  }
}

Int128 product(Int128 a, Int128 b) {
  constexpr Int128 kLimit = Int128{1} << 125, kSmall = Int128{1} << 62;
  auto small = [](Int128 v) { return v > -kSmall && v < kSmall; };
  if (small(a) && small(b)) return a * b;
  if (a == 0 || b == 0) return 0;
  bool negative = (a < 0) != (b < 0);
  Int128 x = a < 0 ? -a : a, y = b < 0 ? -b : b;
  Int128 p = x > kLimit / y ? kLimit : x * y;
  return negative ? -p : p;
}

std::string print(const GuardNode& g) {
  auto infix = [&](const char* text) { return "(" + print(*g.a) + " " + text + " " + print(*g.b) + ")"; };
  switch (g.kind) {
    case Kind::Number: return to_string(g.number);
    case Kind::Value: return "val(" + g.name + ")";
    case Kind::Min: return "vmin(" + g.name + ")";
    case Kind::Max: return "vmax(" + g.name + ")";
    case Kind::Function: return g.name + "()";
    case Kind::Add: return infix("+");
    case Kind::Sub: return infix("-");
    case Kind::Mul: return infix("*");
    case Kind::FloorDiv: return "floor_div(" + print(*g.a) + ", " + print(*g.b) + ")";
    case Kind::CeilDiv: return "ceil_div(" + print(*g.a) + ", " + print(*g.b) + ")";
    case Kind::FloorMod: return "floor_mod(" + print(*g.a) + ", " + print(*g.b) + ")";
    case Kind::Less: return infix("<");
    case Kind::LessEqual: return infix("<=");
    case Kind::Equal: return infix("==");
    case Kind::And: return infix("&&");
    case Kind::Or: return infix("||");
    case Kind::Not: return "!" + print(*g.a);
  }
  return "?";
}

}  // namespace

Int128 compute(GuardNode::Kind kind, Int128 a, Int128 b) {
  switch (kind) {
    case Kind::Add: return a + b;
    case Kind::Sub: return a - b;
    case Kind::Mul: return product(a, b);
    case Kind::FloorDiv: return b == 0 ? 0 : floor_div(a, b);
    case Kind::CeilDiv: return b == 0 ? 0 : ceil_div(a, b);
    case Kind::FloorMod: return b == 0 ? 0 : floor_mod(a, b);
    case Kind::Less: return a < b;
    case Kind::LessEqual: return a <= b;
    case Kind::Equal: return a == b;
    case Kind::Not: return a == 0;
    default: throw InternalError("a guard of this kind has no operands");
  }
}

Guard::Guard(int64_t value) : node_(std::make_shared<GuardNode>(GuardNode{Kind::Number, value, {}, nullptr})) {}
Int128 Guard::eval(const Match& match) const { return quern::eval(*node_, match); }
std::string Guard::print() const { return quern::print(*node_); }

Guard val(std::string_view name) { return leaf(Kind::Value, name); }
Guard vmin(std::string_view name) { return leaf(Kind::Min, name); }
Guard vmax(std::string_view name) { return leaf(Kind::Max, name); }
Guard fn(std::string_view name, std::function<Int128(const Match&)> compute) {
  return Guard(std::make_shared<GuardNode>(GuardNode{Kind::Function, 0, std::string(name), std::move(compute)}));
}
Guard operator+(Guard a, Guard b) { return combine(Kind::Add, a, b); }
Guard operator-(Guard a, Guard b) { return combine(Kind::Sub, a, b); }
Guard operator*(Guard a, Guard b) { return combine(Kind::Mul, a, b); }
Guard floor_div(Guard a, Guard b) { return combine(Kind::FloorDiv, a, b); }
Guard ceil_div(Guard a, Guard b) { return combine(Kind::CeilDiv, a, b); }
Guard floor_mod(Guard a, Guard b) { return combine(Kind::FloorMod, a, b); }
Guard operator<(Guard a, Guard b) { return combine(Kind::Less, a, b); }
Guard operator<=(Guard a, Guard b) { return combine(Kind::LessEqual, a, b); }
Guard operator>(Guard a, Guard b) { return combine(Kind::Less, b, a); }
Guard operator>=(Guard a, Guard b) { return combine(Kind::LessEqual, b, a); }
Guard operator==(Guard a, Guard b) { return combine(Kind::Equal, a, b); }
Guard operator!(Guard a) { return combine(Kind::Not, a, a); }
Guard operator!=(Guard a, Guard b) { return !(a == b); }
Guard operator&&(Guard a, Guard b) { return combine(Kind::And, a, b); }
Guard operator||(Guard a, Guard b) { return combine(Kind::Or, a, b); }

// ---- patterns ----

namespace {

Pat make(PatNode node) { return Pat(std::make_shared<PatNode>(std::move(node))); }

Pat changed(const Pat& p, auto&& change) {
  PatNode copy = p.node();
  change(copy);
  return make(std::move(copy));
}

Pat node_of(OpSet ops, std::vector<Pat> src, PatNode::Sources sources) {
  PatNode n;
  n.ops = ops;
  n.src = std::move(src);
  n.sources = sources;
  return make(std::move(n));
}

}  // namespace

Pat::Pat(int64_t value) : Pat(pat::lit(Guard(value))) {}
Pat Pat::named(std::string_view name) const {
  return changed(*this, [&](PatNode& n) { n.name = name; });
}
Pat Pat::of(ScalarSet scalars) const {
  return changed(*this, [&](PatNode& n) { n.scalars = scalars; });
}
Pat Pat::scalar() const {
  return changed(*this, [&](PatNode& n) { n.one_lane = true; });
}
Pat Pat::ordered() const {
  return changed(*this, [](PatNode& n) { n.ordered = true; });
}
Pat Pat::with_arg(Arg arg) const {
  return changed(*this, [&](PatNode& n) { n.arg = arg; });
}

namespace pat {
Pat var(std::string_view name, ScalarSet scalars) { return any().named(name).of(scalars); }
Pat any() { return make({}); }
Pat cvar(std::string_view name, ScalarSet scalars) { return op_any({Op::Const, Op::Vconst}).named(name).of(scalars); }
Pat scalar_const(std::string_view name, ScalarSet scalars) { return op_any({Op::Const}).named(name).of(scalars); }
Pat lit(Guard value) {
  PatNode n;
  n.ops = {Op::Const};
  n.literal = std::move(value);
  return make(std::move(n));
}
Pat boolean(bool value) {
  return changed(lit(Guard(value ? 1 : 0)), [](PatNode& n) {
    n.bool_literal = true;
    n.scalars = kBoolOnly;
  });
}
Pat op(Op o, std::vector<Pat> src) { return op(OpSet{o}, std::move(src)); }
Pat op(OpSet ops, std::vector<Pat> src) { return node_of(ops, std::move(src), PatNode::Sources::Exact); }
Pat op_prefix(OpSet ops, std::vector<Pat> src) { return node_of(ops, std::move(src), PatNode::Sources::Prefix); }
Pat op_all(OpSet ops, Pat each) { return node_of(ops, {std::move(each)}, PatNode::Sources::All); }
Pat op_any(OpSet ops) { return node_of(ops, {}, PatNode::Sources::Any); }
Pat idiv(Pat a, Pat b) { return op(Op::Idiv, {std::move(a), std::move(b)}); }
Pat mod(Pat a, Pat b) { return op(Op::Mod, {std::move(a), std::move(b)}); }
Pat lt(Pat a, Pat b) { return op(Op::Cmplt, {std::move(a), std::move(b)}); }
Pat ne(Pat a, Pat b) { return op(Op::Cmpne, {std::move(a), std::move(b)}); }
Pat logical_not(Pat a) { return ne(std::move(a), boolean(true)); }
Pat ge(Pat a, Pat b) { return logical_not(lt(std::move(a), std::move(b))); }
Pat eq(Pat a, Pat b) { return logical_not(ne(std::move(a), std::move(b))); }
Pat max(Pat a, Pat b) { return op(Op::Max, {std::move(a), std::move(b)}); }
Pat where(Pat cond, Pat yes, Pat no) { return op(Op::Where, {std::move(cond), std::move(yes), std::move(no)}); }
Pat cast(Pat a) { return op(Op::Cast, {std::move(a)}); }
}  // namespace pat
Pat operator+(Pat a, Pat b) { return pat::op(Op::Add, {std::move(a), std::move(b)}); }
Pat operator*(Pat a, Pat b) { return pat::op(Op::Mul, {std::move(a), std::move(b)}); }
Pat operator&(Pat a, Pat b) { return pat::op(Op::And, {std::move(a), std::move(b)}); }
Pat operator|(Pat a, Pat b) { return pat::op(Op::Or, {std::move(a), std::move(b)}); }
Pat operator^(Pat a, Pat b) { return pat::op(Op::Xor, {std::move(a), std::move(b)}); }

UOp Match::operator[](std::string_view name) const {
  for (size_t i = 0; i < names_->size(); ++i)
    if ((*names_)[i] == name) return bound_[i];
  throw InternalError("pattern binds no " + std::string(name));
}

}  // namespace quern
