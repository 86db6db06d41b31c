#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/uop.h"

namespace quern {

// The language rules are written in. A pattern and a replacement are the same kind of expression:
//
//   const Pat x = pat::var("x"), c0 = pat::cvar("c0"), c1 = pat::cvar("c1");
//   {"add zero",  x + 0,                 x},
//   {"unscale lt", pat::lt(x * c0, c1),  pat::lt(x, pat::lit(ceil_div(val("c1"), val("c0")))), val("c0") > 0 && val("c1") > 0},
//   {"fold divs", pat::idiv(x, c0),      with(fold_div)},
//
// Patterns bind names; the same name twice means the same node. Commutative ops match both ways round.

struct PatNode;
class Match;

/// Guards and computed constants: integer expressions over what a pattern bound, as data (so that they print and are fuzzed).
struct GuardNode;
class Guard {
 public:
  Guard(int64_t value);  // NOLINT: a number is a guard expression
  explicit Guard(std::shared_ptr<const GuardNode> node) : node_(std::move(node)) {}
  /// Its value for a match; comparisons give 0 or 1.
  Int128 eval(const Match& match) const;
  std::string print() const;
  const std::shared_ptr<const GuardNode>& node() const { return node_; }

 private:
  std::shared_ptr<const GuardNode> node_;
};
Guard val(std::string_view name);   ///< value of a bound int CONST
Guard vmin(std::string_view name);  ///< bounds of a bound node
Guard vmax(std::string_view name);
/// A named predicate or number computed by a function (the escape hatch of guards).
Guard fn(std::string_view name, std::function<Int128(const Match&)> compute);
Guard operator+(Guard a, Guard b);
Guard operator-(Guard a, Guard b);
Guard operator*(Guard a, Guard b);
Guard floor_div(Guard a, Guard b);
Guard ceil_div(Guard a, Guard b);
Guard floor_mod(Guard a, Guard b);
Guard operator<(Guard a, Guard b);
Guard operator<=(Guard a, Guard b);
Guard operator>(Guard a, Guard b);
Guard operator>=(Guard a, Guard b);
Guard operator==(Guard a, Guard b);
Guard operator!=(Guard a, Guard b);
Guard operator&&(Guard a, Guard b);
Guard operator||(Guard a, Guard b);
Guard operator!(Guard a);

/// A pattern, or a template of a replacement.
class Pat {
 public:
  Pat(int64_t value);                                   // NOLINT: a literal constant
  Pat(int value) : Pat(static_cast<int64_t>(value)) {}  // NOLINT
  explicit Pat(std::shared_ptr<const PatNode> node) : node_(std::move(node)) {}

  /// The same pattern, binding what it matches to `name`.
  Pat named(std::string_view name) const;
  /// Only nodes of these scalar types (any number of lanes).
  Pat of(ScalarSet scalars) const;
  /// Only nodes with one lane.
  Pat scalar() const;
  /// Only with its sources in this order, though the op commutes.
  Pat ordered() const;
  /// Only nodes with this payload.
  Pat with_arg(Arg arg) const;
  const PatNode& node() const { return *node_; }

 private:
  std::shared_ptr<const PatNode> node_;
};

namespace pat {
/// Any node.
Pat var(std::string_view name, ScalarSet scalars = kAnyScalar);
Pat any();
/// CONST, or VCONST too.
Pat cvar(std::string_view name, ScalarSet scalars = kAnyScalar);
Pat scalar_const(std::string_view name, ScalarSet scalars = kAnyScalar);  ///< CONST only
/// In replacements: a constant of the type of what stands beside it (or of the root).
Pat lit(Guard value);
Pat boolean(bool value);  ///< a bool CONST
/// A node with exactly these sources; commutative binary ops match both ways.
Pat op(Op op, std::vector<Pat> src);
Pat op(OpSet ops, std::vector<Pat> src);
/// At least these sources.
Pat op_prefix(OpSet ops, std::vector<Pat> src);
/// Any number of sources, all matching `each` (and, where it binds a name, all the same node).
Pat op_all(OpSet ops, Pat each);
/// Any sources.
Pat op_any(OpSet ops);
Pat idiv(Pat a, Pat b);
Pat mod(Pat a, Pat b);
Pat lt(Pat a, Pat b);
Pat ne(Pat a, Pat b);
Pat ge(Pat a, Pat b);  ///< (a < b) != true
Pat eq(Pat a, Pat b);  ///< (a != b) != true
Pat max(Pat a, Pat b);
Pat where(Pat cond, Pat yes, Pat no);
Pat logical_not(Pat a);
/// CAST; in replacements to the root's type.
Pat cast(Pat a);
}  // namespace pat
Pat operator+(Pat a, Pat b);
Pat operator*(Pat a, Pat b);
Pat operator&(Pat a, Pat b);
Pat operator|(Pat a, Pat b);
Pat operator^(Pat a, Pat b);

/// Data a pass hands to its function rules; derive from it and get it back with Match::context<T>().
struct RewriteContext {
  virtual ~RewriteContext() = default;
};

/// What a pattern bound.
class Match {
 public:
  static constexpr int kMaxNames = 12;
  Match(UOp root, const std::vector<std::string>& names, RewriteContext* context)
      : root_(root), names_(&names), context_(context) {}
  UOp root() const { return root_; }
  Graph& graph() const { return root_.graph(); }
  /// The node bound to `name`; an InternalError if the pattern has no such name.
  UOp operator[](std::string_view name) const;
  template <class T>
  T& context() const {
    return static_cast<T&>(*context_);
  }

 private:
  friend class Rule;
  friend class RuleProgram;
  UOp root_;
  const std::vector<std::string>* names_;
  RewriteContext* context_;
  UOp bound_[kMaxNames];
};

using RuleFunction = std::function<UOp(const Match&)>;  ///< the replacement, or an empty UOp for no change

/// A replacement: a template, or a function where data will not do.
class Replacement {
 public:
  Replacement(Pat pattern) : pattern_(std::move(pattern)) {}  // NOLINT
  explicit Replacement(RuleFunction function) : function_(std::move(function)) {}
  const std::optional<Pat>& pattern() const { return pattern_; }
  const RuleFunction& function() const { return function_; }

 private:
  std::optional<Pat> pattern_;
  RuleFunction function_;
};
inline Replacement with(RuleFunction function) { return Replacement(std::move(function)); }

/// What a rule's pattern says about a node and its first two sources: a cheap test that nearly all nodes fail.
struct RootFilter {
  struct Kind {
    OpSet ops = OpSet::all();
    ScalarSet scalars = kAnyScalar;
    bool literal = false;  // a constant of this value
    Int128 value = 0;
    bool admits(UOp u) const {
      return ops.contains(u.op()) && (scalars == kAnyScalar || (u.dtype().is_in(scalars) && !u.dtype().is_ptr())) &&
             (!literal || has_value(u));
    }
    bool has_value(UOp u) const;
  };
  Kind root;
  Kind src[2];
  uint16_t min_src = 0;
  uint16_t max_src = 0xFFFF;
  bool commutes = false;
  bool all = false;   // src[0] is the kind of each source
  bool same = false;  // the first two sources are the same node
  bool (*test)(UOp root) = nullptr;

  bool admits(UOp u) const {
    auto s = u.src();
    if (test && !test(u)) return false;
    if (!root.admits(u) || s.size() < min_src || s.size() > max_src) return false;
    if (min_src == 0) return true;
    if (same && s[0] != s[1]) return false;
    if (all) return src[0].admits(s[0]) && src[0].admits(s.back());
    if (src[0].admits(s[0]) && (min_src < 2 || src[1].admits(s[1]))) return true;
    return commutes && src[0].admits(s[1]) && src[1].admits(s[0]);
  }
};

/// One row of a rule table. Copies share their data.
class Rule {
 public:
  Rule(std::string_view name, Pat before, Replacement after);
  Rule(std::string_view name, Pat before, Replacement after, Guard guard);
  /// The same rule, tried only where the test on the root says so: for what fits nearly every node and seldom applies.
  Rule when(bool (*test)(UOp root)) const;
  const std::string& name() const;
  const Pat& before() const;
  const Replacement& after() const;
  const std::optional<Guard>& guard() const;
  /// Ops its root may have.
  OpSet root_ops() const;
  /// What may be tested before apply().
  const RootFilter& filter() const;
  /// The replacement if the rule matches `node` (trying each way round of commutative ops), else an empty UOp. A guard or a
  /// computed literal that asks for the value of what is not a CONST fails; so does one whose literal does not fit its dtype.
  UOp apply(UOp node, RewriteContext* context = nullptr) const;

 private:
  std::shared_ptr<const class RuleProgram> program_;
};

}  // namespace quern
