#include "ir/rewrite.h"

#include <bit>
#include <map>

#include "quern/error.h"

#include "ir/node_map.h"

namespace quern {

namespace {

thread_local bool counting = false;
thread_local std::map<std::pair<std::string, std::string>, uint64_t> hits;

struct Frame {
  UOp node;
  uint32_t next;  // the next source to look at
  UOp waits_for;  // once its sources are done: the node whose rewrite is this node's result
};

/// What a rewrite works with, kept by the thread for the next one. Rules may rewrite in turn, so there is one a nesting level.
struct Workspace {
  std::vector<Frame> stack;
  std::vector<UOp> src;
};
thread_local std::vector<std::unique_ptr<Workspace>> workspaces;
thread_local size_t nesting = 0;

struct Nested {
  Nested() {
    if (nesting == workspaces.size()) workspaces.push_back(std::make_unique<Workspace>());
    space = workspaces[nesting++].get();
    space->stack.clear();
  }
  ~Nested() { --nesting; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
  Workspace* space;
};

/// Results kept by the graph.
struct KeptMemo {
  std::vector<const Node*>& items;
  UOp get(UOp u) const { return UOp(u.id() < items.size() ? items[u.id()] : nullptr); }
  void set(UOp u, UOp to) {
    if (u.id() >= items.size()) items.resize(std::max<size_t>(u.id() + 1, items.size() * 2));
    items[u.id()] = to.node();
  }
};

[[noreturn]] void endless(const RuleSet& rules, int rule, UOp node) {
  throw InternalError("rule \"" + (rule < 0 ? std::string("?") : rules.rules()[static_cast<size_t>(rule)].name()) +
                      "\" of " + rules.name() + " never ends on a " + std::string(to_string(node.op())));
}

template <class Memo>
class Rewriter {
 public:
  Rewriter(const RuleSet& rules, RewriteContext* context, Memo& done) : rules_(rules), context_(context), done_(done) {}

  UOp run(UOp root) {
    if (UOp d = result_of(root)) return d;
    std::vector<Frame>& stack = nested_.space->stack;
    stack.push_back({root, 0, UOp()});
    while (!stack.empty()) {
      Frame& top = stack.back();
      UOp node = top.node, result;
      if (top.waits_for) {
        result = done_.get(top.waits_for);
        --waiting_;
      } else {
        UOp todo = next_source(top);
        if (!todo) {
          UOp next = step(node);
          result = next ? result_of(next) : node;
          if (!result) {
            if (++waiting_ > kMaxChain) endless(rules_, rule_, node);
            top.waits_for = next;
            todo = next;
          }
        }
        if (todo) {
          stack.push_back({todo, 0, UOp()});
          continue;
        }
      }
      done_.set(node, result);
      stack.pop_back();
    }
    return done_.get(root);
  }

 private:
  /// The result if it is known, or if the node is a leaf that no rule can change.
  UOp result_of(UOp u) const {
    if (UOp d = done_.get(u)) return d;
    return u.num_src() == 0 && !rules_.has_rules_for(u.op()) ? u : UOp();
  }

  /// The next source that has no result yet; empty when all have.
  UOp next_source(Frame& frame) const {
    auto src = frame.node.src();
    for (; frame.next < src.size(); ++frame.next)
      if (!result_of(src[frame.next])) return src[frame.next];
    return UOp();
  }

  /// The node on the results of its sources, or if they did not change what a rule makes of it; empty if it is final.
  UOp step(UOp node) {
    std::vector<UOp>& src = nested_.space->src;
    src.clear();
    bool same = true;
    for (UOp s : node.src()) {
      UOp to = result_of(s);
      same &= to == s;
      src.push_back(to);
    }
    return same ? rules_.apply(node, context_, &rule_) : node.with_src(src);
  }

  const RuleSet& rules_;
  RewriteContext* context_;
  Memo& done_;
  Nested nested_;
  int waiting_ = 0, rule_ = -1;
};

}  // namespace

RuleSet::RuleSet(std::string_view name, std::vector<Rule> rules, Memo memo)
    : name_(name), rules_(std::move(rules)), memo_(memo) {
  for (size_t i = 0; i < rules_.size(); ++i)
    for (int op = 0; op < kNumOps; ++op)
      if (rules_[i].root_ops().contains(static_cast<Op>(op))) {
        std::vector<Shelf>& shelves = by_op_[static_cast<size_t>(op)];
        if (shelves.empty() || shelves.back().entries.size() == 64) shelves.emplace_back();
        shelves.back().add({rules_[i].filter(), static_cast<uint32_t>(i)});
      }
}

void RuleSet::Shelf::add(const Entry& entry) {
  const RootFilter& f = entry.filter;
  uint64_t bit = uint64_t{1} << entries.size();
  auto admits = [](const RootFilter::Kind& kind, bool needed, size_t op) {
    return op == kNumOps ? !needed : !needed || kind.ops.contains(static_cast<Op>(op));
  };
  for (size_t op = 0; op <= kNumOps; ++op) {
    bool one = admits(f.src[0], f.min_src >= 1, op), two = admits(f.src[1], f.min_src >= 2, op);
    if (one) first[op] |= bit;
    if (two) second[op] |= bit;
    if (one && f.commutes) crossed_first[op] |= bit;
    if (two && f.commutes) crossed_second[op] |= bit;
  }
  for (size_t s = 0; s < scalar.size(); ++s)
    if (f.root.scalars & scalar_bit(static_cast<Scalar>(s))) scalar[s] |= bit;
  entries.push_back(entry);
}

uint64_t RuleSet::Shelf::admits(UOp node) const {
  auto op_of = [&](size_t i) { return node.num_src() > i ? static_cast<size_t>(node.src(i).op()) : size_t{kNumOps}; };
  size_t one = op_of(0), two = op_of(1);
  uint64_t sources = (first[one] & second[two]) | (crossed_first[two] & crossed_second[one]);
  return sources & scalar[static_cast<size_t>(node.dtype().scalar)];
}

RuleSet RuleSet::operator+(const RuleSet& more) const {
  std::vector<Rule> all = rules_;
  all.insert(all.end(), more.rules_.begin(), more.rules_.end());
  return RuleSet(name_ + "+" + more.name_, std::move(all));
}

UOp RuleSet::apply(UOp node, RewriteContext* context, int* fired) const {
  for (const Shelf& shelf : by_op_[static_cast<size_t>(node.op())])
    for (uint64_t left = shelf.admits(node); left; left &= left - 1) {
      const Entry& e = shelf.entries[static_cast<size_t>(std::countr_zero(left))];
      if (!e.filter.admits(node)) continue;
      UOp made = rules_[e.rule].apply(node, context);
      if (!made) continue;
      if (counting) ++hits[{name_, rules_[e.rule].name()}];
      if (fired) *fired = static_cast<int>(e.rule);
      return made;
    }
  return UOp();
}

UOp graph_rewrite(UOp root, const RuleSet& rules, RewriteContext* context) {
  if (rules.memo() != RuleSet::Memo::None && !context) {
    KeptMemo done{root.graph().memo(static_cast<size_t>(rules.memo()))};
    return Rewriter<KeptMemo>(rules, nullptr, done).run(root);
  }
  return GraphRewriter(rules, context)(root);
}

UOp GraphRewriter::operator()(UOp root) {
  if (UOp known = done_.get(root)) return known;
  return Rewriter<NodeScratch<UOp>>(rules_, context_, done_).run(root);
}

void count_rule_hits(bool on) {
  counting = on;
  hits.clear();
}

std::vector<RuleHits> rule_hits() {
  std::vector<RuleHits> all;
  for (const auto& [key, n] : hits) all.push_back({key.first, key.second, n});
  return all;
}

}  // namespace quern
