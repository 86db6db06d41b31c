#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/node_map.h"
#include "ir/pattern.h"

namespace quern {

/// An ordered list of rules, indexed by the op of the node they may match. Earlier rules win. `a + b`: a's rules, then b's.
/// Build once (function-local static) and share: building is slow, using is const and safe from several threads.
class RuleSet {
 public:
  /// Where a graph keeps the results of this set's rewrites: for sets whose rules look at nothing but the node, so that no node
  /// is rewritten twice. At most one set may name each place; a sum of sets has none.
  enum class Memo : int8_t { None = -1, SymbolicSimple, Symbolic, SymbolicFlat };

  RuleSet(std::string_view name, std::vector<Rule> rules, Memo memo = Memo::None);
  RuleSet operator+(const RuleSet& more) const;
  const std::string& name() const { return name_; }
  const std::vector<Rule>& rules() const { return rules_; }
  /// The first replacement a rule gives for this one node, or an empty UOp; `fired` (if given) gets the rule's index.
  UOp apply(UOp node, RewriteContext* context = nullptr, int* fired = nullptr) const;

  bool has_rules_for(Op op) const { return !by_op_[static_cast<size_t>(op)].empty(); }
  Memo memo() const { return memo_; }

 private:
  struct Entry {
    RootFilter filter;
    uint32_t rule;
  };
  /// The rules for one op, up to 64. Which of them a node's scalar type and first two sources let through is a matter of a few
  /// masks: a bit a rule, by the op of the source (kNumOps where there is none).
  struct Shelf {
    using Masks = std::array<uint64_t, kNumOps + 1>;
    Masks first{}, second{};                  // the sources as they stand
    Masks crossed_first{}, crossed_second{};  // the other way round, of rules whose pattern commutes
    std::array<uint64_t, kNumScalars> scalar{};
    std::vector<Entry> entries;

    void add(const Entry& entry);
    uint64_t admits(UOp node) const;
  };
  std::string name_;
  std::vector<Rule> rules_;
  std::array<std::vector<Shelf>, kNumOps> by_op_;
  Memo memo_;
};

/// Rewrites `root` from the leaves up until no rule applies anywhere. Iterative: depth is limited by memory only. Each node is
/// rewritten once (memoized). A rewrite that comes back to a node it came from, or goes on for over `kMaxChain` steps at one
/// place, throws InternalError naming the rule.
UOp graph_rewrite(UOp root, const RuleSet& rules, RewriteContext* context = nullptr);

/// graph_rewrite of one graph after the other that share nodes: no node is rewritten twice. For passes that build what the rules
/// simplify, a node at a time.
class GraphRewriter {
 public:
  explicit GraphRewriter(const RuleSet& rules, RewriteContext* context = nullptr) : rules_(rules), context_(context) {}
  UOp operator()(UOp root);
  /// Says that no rule applies to `u` or below.
  void keep(UOp u) { done_.set(u, u); }

 private:
  const RuleSet& rules_;
  RewriteContext* context_;
  NodeScratch<UOp> done_;
};

inline constexpr int kMaxChain = 20000;

/// Hits of each rule since the last reset, when counting is on (a test and profiling aid; per thread).
struct RuleHits {
  std::string rule_set;
  std::string rule;
  uint64_t hits;
};
void count_rule_hits(bool on);
std::vector<RuleHits> rule_hits();

}  // namespace quern
