#include "ir/rewrite.h"

#include <map>

#include "quern/error.h"

namespace quern {

namespace {

thread_local bool counting = false;
thread_local std::map<std::pair<std::string, std::string>, uint64_t> hits;

struct Frame {
  UOp node;
  uint32_t next = 0;   // the next source to look at
  UOp waits_for;   // once its sources are done: the node whose rewrite is this node's result
};

[[noreturn]] void endless(const RuleSet& rules, int rule, UOp node) {
  throw InternalError("rule \"" + (rule < 0 ? std::string("?") : rules.rules()[static_cast<size_t>(rule)].name()) + "\" of " +
                      rules.name() + " never ends on a " + std::string(to_string(node.op())));
}

}  // namespace

RuleSet::RuleSet(std::string_view name, std::vector<Rule> rules) : name_(name), rules_(std::move(rules)) {
  for (size_t i = 0; i < rules_.size(); ++i)
    for (int op = 0; op < kNumOps; ++op)
      if (rules_[i].root_ops().contains(static_cast<Op>(op)))
        by_op_[static_cast<size_t>(op)].push_back({static_cast<uint32_t>(i), rules_[i].needed_source_ops()});
}

RuleSet RuleSet::operator+(const RuleSet& more) const {
  std::vector<Rule> all = rules_;
  all.insert(all.end(), more.rules_.begin(), more.rules_.end());
  return RuleSet(name_ + "+" + more.name_, std::move(all));
}

UOp RuleSet::apply(UOp node, RewriteContext* context, int* fired) const {
  const auto& entries = by_op_[static_cast<size_t>(node.op())];
  if (entries.empty()) return UOp();
  OpSet source_ops;
  for (UOp s : node.src()) source_ops.insert(s.op());
  for (const Entry& e : entries) {
    if (!source_ops.contains_all(e.needed)) continue;
    if (UOp made = rules_[e.rule].apply(node, context)) {
      if (counting) ++hits[{name_, rules_[e.rule].name()}];
      if (fired) *fired = static_cast<int>(e.rule);
      return made;
    }
  }
  return UOp();
}

UOp graph_rewrite(UOp root, const RuleSet& rules, RewriteContext* context) {
  NodeMap<UOp> done;
  NodeMap<uint8_t> open;   // on the stack
  std::vector<Frame> stack;
  std::vector<UOp> src;
  int waiting = 0, rule = -1;
  auto push = [&](UOp node) {
    if (open.get(node)) endless(rules, rule, node);
    open[node] = 1;
    stack.push_back({node, 0, UOp()});
  };
  push(root);
  while (!stack.empty()) {
    Frame& top = stack.back();
    UOp node = top.node;
    UOp result;
    if (top.waits_for) {
      result = done.get(top.waits_for);
      --waiting;
    } else {
      while (top.next < node.num_src() && done.get(node.src(top.next))) ++top.next;
      if (top.next < node.num_src()) {
        push(node.src(top.next));
        continue;
      }
      src.clear();
      for (UOp s : node.src()) src.push_back(done.get(s));
      bool same = std::equal(src.begin(), src.end(), node.src().begin());
      UOp next = same ? rules.apply(node, context, &rule) : node.with_src(src);
      if (!next) result = node;
      else if (UOp d = done.get(next)) result = d;
      else {
        if (++waiting > kMaxChain) endless(rules, rule, node);
        stack.back().waits_for = next;
        push(next);
        continue;
      }
    }
    done[node] = result;
    open[node] = 0;
    stack.pop_back();
  }
  return done.get(root);
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
