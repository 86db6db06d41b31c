// Compiles a rule's pattern, guard and template to flat programs whose names are slots, and matches them.
#include <algorithm>
#include <array>
#include <bit>

#include "quern/error.h"

#include "ir/fold.h"
#include "ir/pattern_node.h"

namespace quern {

namespace {

constexpr size_t kMaxSteps = 48;
constexpr size_t kMaxChildren = 8;

/// A node of a pattern. Steps stand in the order of a walk from the root, so a step's subtree ends before `end`.
struct Step {
  RootFilter::Kind kind;
  bool one_lane = false;
  bool commutes = false;  // two sources, tried both ways
  bool binds = false;     // the first step of its slot
  PatNode::Sources sources = PatNode::Sources::Any;
  int8_t slot = -1;
  uint8_t num_children = 0;
  uint8_t end = 0;
  std::array<uint8_t, kMaxChildren> children{};
  std::optional<Arg> arg;

  /// Everything but the sources' own patterns. Binds the step's slot.
  bool admits(UOp u, UOp* bound, bool may_bind) const {
    if (!kind.admits(u)) return false;
    if (one_lane && u.dtype().lanes() != 1) return false;
    if (arg && !(*arg == u.arg())) return false;
    if (slot >= 0) {
      if (binds && may_bind)
        bound[slot] = u;
      else if (bound[slot] != u)
        return false;
    }
    switch (sources) {
      case PatNode::Sources::Exact: return u.num_src() == num_children;
      case PatNode::Sources::Prefix: return u.num_src() >= num_children;
      case PatNode::Sources::All: return u.num_src() > 0;
      case PatNode::Sources::Any: break;
    }
    return true;
  }
};

struct GuardStep {
  GuardNode::Kind kind;
  int slot = -1;
  size_t a = 0, b = 0;
  Int128 number = 0;
  std::function<Int128(const Match&)> function;
};

struct Make {
  enum class Kind : uint8_t { Bound, Number, Computed, Bool, Cast, Node };
  Kind kind;
  Op op = Op::Noop;
  int slot = -1;
  size_t guard = 0;  // Computed
  Int128 number = 0;
  std::vector<size_t> src;
};

bool commutes(OpSet ops) {
  for (int i = 0; i < kNumOps; ++i)
    if (ops.contains(static_cast<Op>(i)) && !is_commutative(static_cast<Op>(i))) return false;
  return !ops.empty();
}

bool same_leaf(const Pat& a, const Pat& b) {
  return a.node().src.empty() && b.node().src.empty() && a.node().name == b.node().name && !a.node().name.empty();
}

}  // namespace

bool RootFilter::Kind::has_value(UOp u) const {
  if (u.dtype().is_ptr() || !u.is_const()) return false;
  if (u.dtype().is_float())
    return std::bit_cast<uint64_t>(u.const_float()) ==
           std::bit_cast<uint64_t>(static_cast<double>(value));  // -0.0 is not 0
  return u.vmin() == value;
}

class RuleProgram {
 public:
  RuleProgram(std::string_view rule, Pat pattern, Replacement replacement, std::optional<Guard> condition)
      : name(rule), before(std::move(pattern)), after(std::move(replacement)), guard(std::move(condition)) {
    compile(before);
    num_steps_ = steps_.size();
    if (guard) guard_root_ = compile(*guard->node());
    if (after.pattern()) make_root_ = compile_template(*after.pattern());
    set_filter();
  }

  UOp apply(UOp root, RewriteContext* context) const {
    if (filter.test && !filter.test(root)) return UOp();
    Match m(root, names_, context);
    std::array<const Node*, kMaxSteps> at;   // the node of each step; set before it is read
    std::array<uint8_t, kMaxSteps> choices;  // steps whose sources may still be tried the other way round
    size_t num_choices = 0, i = 0;
    at[0] = root.node();
    while (true) {
      if (i == num_steps_) {
        if (UOp made = finish(m)) return made;
      } else if (size_t next = advance(i, at, m.bound_, choices, num_choices)) {
        i = next;
        continue;
      }
      if (num_choices == 0) return UOp();
      const Step& s = steps_[choices[--num_choices]];
      std::swap(at[s.children[0]], at[s.children[1]]);
      i = s.children[0];
    }
  }

  const std::string name;
  const Pat before;
  const Replacement after;
  const std::optional<Guard> guard;
  RootFilter filter;

 private:
  std::vector<std::string> names_;
  std::vector<Step> steps_;
  std::vector<GuardStep> guards_;
  std::vector<Make> makes_;
  std::vector<int> const_slots_;  // slots that have to be CONSTs, as a guard asks for their value
  size_t num_steps_ = 0, guard_root_ = 0, make_root_ = 0;

  // ---- compiling ----

  int slot_of(const std::string& text) {
    auto found = std::find(names_.begin(), names_.end(), text);
    if (found == names_.end()) throw InternalError("rule " + name + ": its pattern binds no " + text);
    return static_cast<int>(found - names_.begin());
  }

  uint8_t compile(const Pat& p) {
    const PatNode& n = p.node();
    size_t at = steps_.size();
    if (at >= kMaxSteps || n.src.size() > kMaxChildren) throw InternalError("rule " + name + ": pattern too large");
    Step s;
    s.kind = {n.ops, n.scalars, n.literal.has_value(), 0};
    if (n.literal) s.kind.value = n.literal->eval(Match(UOp(), names_, nullptr));
    s.one_lane = n.one_lane;
    s.sources = n.sources;
    s.arg = n.arg;
    s.num_children = static_cast<uint8_t>(n.src.size());
    s.commutes = n.sources == PatNode::Sources::Exact && n.src.size() == 2 && !n.ordered && commutes(n.ops) &&
                 !same_leaf(n.src[0], n.src[1]);
    if (!n.name.empty()) {
      s.binds = std::find(names_.begin(), names_.end(), n.name) == names_.end();
      if (s.binds) names_.push_back(n.name);
      if (names_.size() > Match::kMaxNames) throw InternalError("rule " + name + " binds too many names");
      s.slot = static_cast<int8_t>(slot_of(n.name));
    }
    steps_.push_back(s);
    for (size_t i = 0; i < n.src.size(); ++i) {
      uint8_t child = compile(n.src[i]);
      steps_[at].children[i] = child;
    }
    steps_[at].end = static_cast<uint8_t>(steps_.size());
    return static_cast<uint8_t>(at);
  }

  size_t compile(const GuardNode& g) {
    GuardStep s{g.kind, -1, 0, 0, g.number, g.function};
    using K = GuardNode::Kind;
    if (g.kind == K::Value || g.kind == K::Min || g.kind == K::Max) s.slot = slot_of(g.name);
    if (g.kind == K::Value) const_slots_.push_back(s.slot);
    if (g.a) s.a = compile(*g.a);
    if (g.b) s.b = compile(*g.b);
    guards_.push_back(std::move(s));
    return guards_.size() - 1;
  }

  size_t compile_template(const Pat& p) {
    const PatNode& n = p.node();
    Make m{Make::Kind::Node, Op::Noop, -1, 0, 0, {}};
    if (!n.name.empty() && n.src.empty()) {
      m.kind = Make::Kind::Bound;
      m.slot = slot_of(n.name);
    } else if (n.literal) {
      bool number = n.literal->node()->kind == GuardNode::Kind::Number;
      m.kind = n.bool_literal ? Make::Kind::Bool : number ? Make::Kind::Number : Make::Kind::Computed;
      m.number = n.literal->node()->number;
      if (!number) m.guard = compile(*n.literal->node());
    } else {
      m.op = static_cast<Op>(std::countr_zero(n.ops.bits()));
      if (m.op == Op::Cast) m.kind = Make::Kind::Cast;
      for (const Pat& child : n.src) m.src.push_back(compile_template(child));
    }
    makes_.push_back(std::move(m));
    return makes_.size() - 1;
  }

  void set_filter() {
    const Step& root = steps_[0];
    filter.root = root.kind;
    if (root.sources == PatNode::Sources::All) {
      filter.min_src = 1;
      filter.all = true;
      filter.src[0] = steps_[root.children[0]].kind;
    }
    if (root.sources != PatNode::Sources::Exact && root.sources != PatNode::Sources::Prefix) return;
    filter.min_src = root.num_children;
    if (root.sources == PatNode::Sources::Exact) filter.max_src = root.num_children;
    filter.commutes = root.commutes;
    if (root.num_children >= 2) {
      int8_t first = steps_[root.children[0]].slot;
      filter.same = first >= 0 && first == steps_[root.children[1]].slot;
    }
    for (size_t i = 0; i < std::min<size_t>(2, root.num_children); ++i) filter.src[i] = steps_[root.children[i]].kind;
  }

  // ---- matching ----

  /// Matches step `i` and hands its sources to its children. The next step, or 0 if it does not match.
  size_t advance(size_t i, std::array<const Node*, kMaxSteps>& at, UOp* bound, std::array<uint8_t, kMaxSteps>& choices,
                 size_t& num_choices) const {
    const Step& s = steps_[i];
    UOp u(at[i]);
    if (!s.admits(u, bound, true)) return 0;
    auto src = u.src();
    if (s.sources == PatNode::Sources::All) {
      for (size_t k = 0; k < src.size(); ++k)
        if (!matches_straight(s.children[0], src[k], bound, k == 0)) return 0;
      return s.end;
    }
    if (!s.commutes) {
      for (size_t k = 0; k < s.num_children; ++k) at[s.children[k]] = src[k].node();
      return i + 1;
    }
    const RootFilter::Kind &a = steps_[s.children[0]].kind, &b = steps_[s.children[1]].kind;
    bool straight = a.admits(src[0]) && b.admits(src[1]);
    bool crossed = src[0] != src[1] && a.admits(src[1]) && b.admits(src[0]);
    if (!straight && !crossed) return 0;
    at[s.children[0]] = src[straight ? 0 : 1].node();
    at[s.children[1]] = src[straight ? 1 : 0].node();
    if (straight && crossed) choices[num_choices++] = static_cast<uint8_t>(i);
    return i + 1;
  }

  /// Matches a subtree in the order it is written; patterns are shallow.
  bool matches_straight(size_t i, UOp u, UOp* bound, bool may_bind) const {
    const Step& s = steps_[i];
    if (!s.admits(u, bound, may_bind)) return false;
    auto src = u.src();
    if (s.sources == PatNode::Sources::All) {
      for (size_t k = 0; k < src.size(); ++k)
        if (!matches_straight(s.children[0], src[k], bound, may_bind && k == 0)) return false;
      return true;
    }
    for (size_t k = 0; k < s.num_children; ++k)
      if (!matches_straight(s.children[k], src[k], bound, may_bind)) return false;
    return true;
  }

  // ---- replacing ----

  UOp finish(const Match& m) const {
    for (int slot : const_slots_) {
      UOp u = m.bound_[slot];
      if (!u.is_const() || u.dtype().is_float() || u.dtype().is_ptr()) return UOp();
    }
    if (guard && eval(guard_root_, m) == 0) return UOp();
    UOp made = after.pattern() ? build(make_root_, m, m.root().dtype()) : after.function()(m);
    return made == m.root() ? UOp() : made;
  }

  Int128 eval(size_t i, const Match& m) const {
    using K = GuardNode::Kind;
    const GuardStep& g = guards_[i];
    switch (g.kind) {
      case K::Number: return g.number;
      case K::Value:
      case K::Min: return m.bound_[g.slot].vmin();
      case K::Max: return m.bound_[g.slot].vmax();
      case K::Function: return g.function(m);
      case K::And: return eval(g.a, m) != 0 && eval(g.b, m) != 0;
      case K::Or: return eval(g.a, m) != 0 || eval(g.b, m) != 0;
      default: return compute(g.kind, eval(g.a, m), eval(g.b, m));
    }
  }

  /// `like` is the dtype of literals. Empty if a computed literal does not fit it.
  UOp build(size_t i, const Match& m, DType like) const {
    const Make& t = makes_[i];
    switch (t.kind) {
      case Make::Kind::Bound: return m.bound_[t.slot];
      case Make::Kind::Number: return m.graph().const_int(like, t.number);
      case Make::Kind::Bool: return m.graph().const_int(DType(Scalar::Bool, like.count), t.number);
      case Make::Kind::Computed: {
        Int128 value = eval(t.guard, m);
        bool fits = like.is_index() ? fits_const(value) : wrap(like.scalar, value) == value;
        return fits || like.is_float() ? m.graph().const_int(like, value) : UOp();
      }
      case Make::Kind::Cast: {
        UOp x = build(t.src[0], m, like);
        return x ? x.cast(m.root().dtype()) : UOp();
      }
      case Make::Kind::Node: break;
    }
    return build_node(t, m, like);
  }

  bool is_literal(size_t i) const {
    Make::Kind k = makes_[i].kind;
    return k == Make::Kind::Number || k == Make::Kind::Bool || k == Make::Kind::Computed;
  }

  UOp build_node(const Make& t, const Match& m, DType like) const {
    std::array<UOp, kMaxChildren> src;
    bool compares = t.op == Op::Cmplt || t.op == Op::Cmpne;
    // Literals take the dtype of the first source that is not one.
    DType type = like;
    bool known = false;
    for (size_t i = 0; i < t.src.size(); ++i) {
      if (is_literal(t.src[i])) continue;
      src[i] = build(t.src[i], m, type);
      if (!src[i]) return UOp();
      if (known || (t.op == Op::Where && i == 0)) continue;
      type = src[i].dtype();
      known = true;
    }
    for (size_t i = 0; i < t.src.size(); ++i) {
      if (!src[i]) src[i] = build(t.src[i], m, type);
      if (!src[i]) return UOp();
    }
    DType out = compares ? DType(Scalar::Bool, type.count) : t.op == Op::Where ? src[1].dtype() : type;
    std::span<const UOp> sources(src.data(), t.src.size());
    if (UOp folded = fold_constants(m.graph(), t.op, out, sources)) return folded;
    return m.graph().node(t.op, out, sources);
  }
};

Rule::Rule(std::string_view name, Pat before, Replacement after)
    : program_(std::make_shared<RuleProgram>(name, std::move(before), std::move(after), std::nullopt)) {}
Rule::Rule(std::string_view name, Pat before, Replacement after, Guard guard)
    : program_(std::make_shared<RuleProgram>(name, std::move(before), std::move(after), std::move(guard))) {}

Rule Rule::when(bool (*test)(UOp root)) const {
  auto program = std::make_shared<RuleProgram>(*program_);
  program->filter.test = test;
  Rule rule = *this;
  rule.program_ = std::move(program);
  return rule;
}

const std::string& Rule::name() const { return program_->name; }
const Pat& Rule::before() const { return program_->before; }
const Replacement& Rule::after() const { return program_->after; }
const std::optional<Guard>& Rule::guard() const { return program_->guard; }
OpSet Rule::root_ops() const { return program_->before.node().ops; }
const RootFilter& Rule::filter() const { return program_->filter; }
UOp Rule::apply(UOp node, RewriteContext* context) const { return program_->apply(node, context); }

}  // namespace quern
