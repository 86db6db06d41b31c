#include "ir/pattern.h"

#include <algorithm>
#include <bit>

#include "quern/error.h"

namespace quern {

// ---- guards ----

struct GuardNode {
  enum class Kind : uint8_t {
    Number, Value, Min, Max, Function,
    Add, Sub, Mul, FloorDiv, CeilDiv, FloorMod, Less, LessEqual, Equal, And, Or, Not
  };
  Kind kind;
  Int128 number = 0;
  std::string name;
  std::function<Int128(const Match&)> function;
  std::shared_ptr<const GuardNode> a = nullptr, b = nullptr;
};

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
    case Kind::Value: return m[g.name].is(Op::Const) ? m[g.name].const_int() : m[g.name].vmin();
    case Kind::Min: return m[g.name].vmin();
    case Kind::Max: return m[g.name].vmax();
    case Kind::Function: return g.function(m);
    case Kind::And: return eval(*g.a, m) != 0 && eval(*g.b, m) != 0;
    case Kind::Or: return eval(*g.a, m) != 0 || eval(*g.b, m) != 0;
    case Kind::Not: return eval(*g.a, m) == 0;
    default: break;
  }
  Int128 a = eval(*g.a, m), b = eval(*g.b, m);
  switch (g.kind) {
    case Kind::Add: return a + b;
    case Kind::Sub: return a - b;
    case Kind::Mul: return a * b;
    case Kind::FloorDiv: return floor_div(a, b);
    case Kind::CeilDiv: return ceil_div(a, b);
    case Kind::FloorMod: return floor_mod(a, b);
    case Kind::Less: return a < b;
    case Kind::LessEqual: return a <= b;
    case Kind::Equal: return a == b;
    default: throw InternalError("guard kind");
  }
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

struct PatNode {
  enum class Sources : uint8_t { Exact, Prefix, All, Any };
  OpSet ops = OpSet::all();
  ScalarSet scalars = kAnyScalar;
  bool one_lane = false;
  Sources sources = Sources::Any;
  std::string name;
  std::optional<Guard> literal;   // matches a constant of this value; in templates, makes one
  bool bool_literal = false;      // the literal is a bool
  std::optional<Arg> arg;
  std::vector<Pat> src;
};

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
Pat Pat::named(std::string_view name) const { return changed(*this, [&](PatNode& n) { n.name = name; }); }
Pat Pat::of(ScalarSet scalars) const { return changed(*this, [&](PatNode& n) { n.scalars = scalars; }); }
Pat Pat::scalar() const { return changed(*this, [&](PatNode& n) { n.one_lane = true; }); }
Pat Pat::with_arg(Arg arg) const { return changed(*this, [&](PatNode& n) { n.arg = arg; }); }

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

// ---- rules ----

/// A pattern flattened for matching: names are slots, children follow by index.
struct Rule::Compiled {
  struct Step {
    OpSet ops;
    ScalarSet scalars;
    bool one_lane;
    PatNode::Sources sources;
    int slot;            // -1: binds nothing
    bool is_literal;
    Int128 literal;
    int swap_bit;        // this commutative node's bit in the mask of swaps; -1: fixed order
    std::optional<Arg> arg;
    std::vector<int> children;
  };
  std::string name;
  Pat before;
  Replacement after;
  std::optional<Guard> guard;
  std::vector<std::string> names;
  std::vector<Step> steps;
  int root = 0;
  int swap_bits = 0;
  OpSet needed;

  int slot_of(const std::string& text) {
    for (size_t i = 0; i < names.size(); ++i)
      if (names[i] == text) return static_cast<int>(i);
    names.push_back(text);
    if (names.size() > Match::kMaxNames) throw InternalError("rule " + name + " binds too many names");
    return static_cast<int>(names.size()) - 1;
  }

  static bool same_leaf(const Pat& a, const Pat& b) {
    return a.node().src.empty() && b.node().src.empty() && a.node().name == b.node().name && !a.node().name.empty();
  }

  int compile(const Pat& p) {
    const PatNode& n = p.node();
    Step s{n.ops, n.scalars, n.one_lane, n.sources, -1, n.literal.has_value(), 0, -1, n.arg, {}};
    if (n.literal) s.literal = n.literal->eval(Match(UOp(), names, nullptr));
    if (!n.name.empty()) s.slot = slot_of(n.name);
    bool commutes = n.sources == PatNode::Sources::Exact && n.src.size() == 2 && !same_leaf(n.src[0], n.src[1]);
    for (int i = 0; commutes && i < kNumOps; ++i)
      if (n.ops.contains(static_cast<Op>(i)) && !is_commutative(static_cast<Op>(i))) commutes = false;
    if (commutes) s.swap_bit = swap_bits++;
    for (const Pat& child : n.src) s.children.push_back(compile(child));
    steps.push_back(std::move(s));
    return static_cast<int>(steps.size()) - 1;
  }

  bool match(int at, UOp u, uint32_t swaps, UOp* bound) const {
    const Step& s = steps[static_cast<size_t>(at)];
    if (!s.ops.contains(u.op())) return false;
    if (s.scalars != kAnyScalar && (!u.dtype().is_in(s.scalars) || u.dtype().is_ptr())) return false;
    if (s.one_lane && u.dtype().lanes() != 1) return false;
    if (s.is_literal && !literal_matches(u, s.literal)) return false;
    if (s.arg && !(*s.arg == u.arg())) return false;
    if (s.slot >= 0) {
      UOp& b = bound[s.slot];
      if (b && b != u) return false;
      b = u;
    }
    auto src = u.src();
    switch (s.sources) {
      case PatNode::Sources::Any: return true;
      case PatNode::Sources::All:
        for (UOp x : src)
          if (!match(s.children[0], x, swaps, bound)) return false;
        return !src.empty();
      case PatNode::Sources::Exact:
        if (src.size() != s.children.size()) return false;
        break;
      case PatNode::Sources::Prefix:
        if (src.size() < s.children.size()) return false;
        break;
    }
    if (s.swap_bit >= 0 && (swaps >> s.swap_bit & 1))
      return match(s.children[0], src[1], swaps, bound) && match(s.children[1], src[0], swaps, bound);
    for (size_t i = 0; i < s.children.size(); ++i)
      if (!match(s.children[i], src[i], swaps, bound)) return false;
    return true;
  }

  static bool literal_matches(UOp u, Int128 value) {
    if (u.dtype().is_ptr()) return false;
    if (u.dtype().is_float()) {
      double want = static_cast<double>(value);
      return std::bit_cast<uint64_t>(u.const_float()) == std::bit_cast<uint64_t>(want);   // -0.0 is not 0
    }
    return u.const_int() == value;
  }

  /// Builds a replacement; `like` gives the dtype of literals.
  UOp build(const Pat& p, const Match& m, DType like) const {
    const PatNode& n = p.node();
    if (!n.name.empty() && n.src.empty()) return m[n.name];
    if (n.literal) {
      DType t = n.bool_literal ? DType(Scalar::Bool, like.count) : like;
      return m.graph().const_int(t, n.literal->eval(m));
    }
    Op o = static_cast<Op>(std::countr_zero(n.ops.bits()));
    if (o == Op::Cast) return build(n.src[0], m, like).cast(m.root().dtype());
    bool compares = o == Op::Cmplt || o == Op::Cmpne;
    // Literals take the dtype of the first source that is not one.
    std::vector<UOp> src(n.src.size());
    DType type = like;
    bool known = false;
    for (size_t i = 0; i < n.src.size(); ++i) {
      if (n.src[i].node().literal) continue;
      if (compares && !known) src[i] = build(n.src[i], m, like);
      else src[i] = build(n.src[i], m, type);
      if (!(o == Op::Where && i == 0) && !known) {
        type = src[i].dtype();
        known = true;
      }
    }
    for (size_t i = 0; i < n.src.size(); ++i)
      if (!src[i]) src[i] = build(n.src[i], m, type);
    DType out = compares ? DType(Scalar::Bool, type.count) : o == Op::Where ? src[1].dtype() : type;
    return m.graph().node(o, out, src);
  }
};

Rule::Rule(std::string_view name, Pat before, Replacement after) {
  auto c = std::make_shared<Compiled>(Compiled{std::string(name), std::move(before), std::move(after), {}, {}, {}, 0, 0, {}});
  c->root = c->compile(c->before);
  for (const Pat& child : c->before.node().src) {
    uint64_t ops = child.node().ops.bits();
    if (std::popcount(ops) == 1) c->needed.insert(static_cast<Op>(std::countr_zero(ops)));
  }
  compiled_ = std::move(c);
}

Rule::Rule(std::string_view name, Pat before, Replacement after, Guard guard)
    : Rule(name, std::move(before), std::move(after)) {
  auto c = std::make_shared<Compiled>(*compiled_);
  c->guard = std::move(guard);
  compiled_ = std::move(c);
}

const std::string& Rule::name() const { return compiled_->name; }
const Pat& Rule::before() const { return compiled_->before; }
const Replacement& Rule::after() const { return compiled_->after; }
const std::optional<Guard>& Rule::guard() const { return compiled_->guard; }
OpSet Rule::root_ops() const { return compiled_->before.node().ops; }
OpSet Rule::needed_source_ops() const { return compiled_->needed; }

UOp Rule::apply(UOp node, RewriteContext* context) const {
  const Compiled& c = *compiled_;
  for (uint32_t swaps = 0; swaps < (1u << c.swap_bits); ++swaps) {
    Match m(node, c.names, context);
    if (!c.match(c.root, node, swaps, m.bound_)) continue;
    if (c.guard && c.guard->eval(m) == 0) continue;
    UOp made = c.after.pattern() ? c.build(*c.after.pattern(), m, node.dtype()) : c.after.function()(m);
    if (made && made != node) return made;
  }
  return UOp();
}

}  // namespace quern
