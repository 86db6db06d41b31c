// The graph becomes a program of nested blocks: every node stands in the innermost loop or IF it needs to be in and in none
// that it does not, and each block is ordered by a walk of the graph, so that values are computed close to where they are used.
#include <algorithm>
#include <queue>

#include "quern/error.h"

#include "ir/graph.h"
#include "ir/node_map.h"
#include "lower/loops.h"
#include "lower/lower.h"

namespace quern {

namespace {

using Mask = uint64_t;  ///< a set of blocks, outer ones at lower bits; of nested blocks all that hold a node
constexpr Mask bit(size_t i) { return Mask{1} << i; }
int lowest(Mask m) { return __builtin_ctzll(m); }
int highest(Mask m) { return 63 - __builtin_clzll(m); }

bool is_region(UOp u) { return u.is(Op::If) && u.num_src() > 1; }  ///< an IF that holds more than stores
bool opens_block(UOp u) { return u.is(Op::Range) || is_region(u); }
UOp store_guard(UOp u) {
  return u.is(Op::Store) && u.num_src() > 2 && u.src(2).is(Op::If) && !is_region(u.src(2)) ? u.src(2) : UOp();
}

/// toposort, but a STORE's value before its address: an address is used once, where the value is ready.
std::vector<UOp> walk(UOp sink) {
  std::vector<UOp> order;
  NodeScratch<bool> seen;
  std::vector<std::pair<UOp, uint32_t>> stack{{sink, 0}};
  while (!stack.empty()) {
    auto& [u, next] = stack.back();
    if (next == u.num_src()) {
      order.push_back(u);
      stack.pop_back();
      continue;
    }
    UOp s = u.src(u.is(Op::Store) && next < 2 ? 1 - next : next);
    ++next;
    if (seen.get(s)) continue;
    seen.set(s, true);
    stack.emplace_back(s, 0);
  }
  return order;
}

/// Which blocks there are and which of them hold each node.
class Blocks {
 public:
  explicit Blocks(std::span<const UOp> nodes) : nodes_(nodes), spots_(nodes.size()) {
    for (size_t i = 0; i < nodes.size(); ++i) place_.set(nodes[i], static_cast<uint32_t>(i));
    number_blocks();
    // A block lies inside of all that anything in it needs; that may put more nodes inside of those.
    do settle();
    while (grow_parents());
  }
  UOp opener(size_t block) const { return openers_[block]; }
  Mask inside(UOp u) const { return spots_[place_.get(u)].inside; }
  /// The loops of an accumulator.
  Mask loops(UOp acc) const {
    Mask m = 0;
    for (UOp r : loops_of(acc)) m |= opened_by(r);
    return m;
  }

 private:
  void number_blocks() {
    for (UOp u : nodes_)
      if (opens_block(u)) openers_.push_back(u);
    if (openers_.size() > 64) throw InternalError("over 64 loops in one kernel");
    // Outer loops, then parts under an IF, then loops that reduce; each by axis.
    auto rank = [](UOp u) {
      if (!u.is(Op::Range)) return std::pair(1, int32_t{0});
      const auto& arg = std::get<RangeArg>(u.arg());
      return std::pair(arg.reduce ? 2 : 0, arg.axis);
    };
    std::vector<std::pair<std::pair<int, int32_t>, size_t>> order;
    for (size_t i = 0; i < openers_.size(); ++i) order.emplace_back(rank(openers_[i]), i);
    std::sort(order.begin(), order.end());
    std::vector<UOp> sorted;
    for (const auto& entry : order) sorted.push_back(openers_[entry.second]);
    openers_ = std::move(sorted);
    for (size_t i = 0; i < openers_.size(); ++i) {
      spots_[place_.get(openers_[i])].opens = bit(i);
      if (is_region(openers_[i])) regions_ |= bit(i);
    }
    parents_.assign(openers_.size(), 0);
  }

  Mask with_parents(Mask m) const {
    Mask all = m;
    for (Mask left = m; left; left &= left - 1) all |= parents_[static_cast<size_t>(lowest(left))];
    return all;
  }

  /// One pass from sources to users under the parents known so far.
  void settle() {
    Mask last = 0, last_with = 0;  // neighbours mostly stand in the same blocks
    for (size_t i = 0; i < nodes_.size(); ++i) {
      UOp u = nodes_[i];
      Spot& spot = spots_[i];
      if (u.is(Op::DefineAcc)) {
        spot.outside = with_parents(loops(u));
        continue;
      }
      Mask m = spot.opens;
      for (UOp s : u.src()) m |= spots_[place_.get(s)].outside;
      if (m != last) last_with = with_parents(last = m);
      spot.inside = spot.outside = m = last_with;
      if (u.is(Op::Assign)) {
        spot.outside = m & ~reduced_loops(u.src(0));
      } else if (u.is(Op::Barrier)) {
        for (UOp s : u.src())
          if (s.is(Op::Range)) spot.inside &= ~opened_by(s);  // loops that it ends
        spot.outside = spot.inside & ~regions_;
      } else if (UOp guard = store_guard(u)) {
        spots_[place_.get(guard)].inside |= m;
      }
    }
  }

  bool grow_parents() {
    bool grown = false;
    Mask last = 0;
    for (const Spot& spot : spots_) {
      if (spot.inside == last) continue;
      last = spot.inside;
      for (Mask left = spot.inside; left; left &= left - 1) {
        Mask& parents = parents_[static_cast<size_t>(lowest(left))];
        Mask outer = spot.inside & (bit(static_cast<size_t>(lowest(left))) - 1);
        grown |= (outer & ~parents) != 0;
        parents |= outer;
      }
    }
    return grown;
  }

  struct Spot {
    Mask opens = 0;  ///< the block that the node opens
    Mask inside = 0;
    Mask outside = 0;  ///< where users of the node stand at least
  };
  Mask opened_by(UOp u) const { return spots_[place_.get(u)].opens; }
  /// The loops after which an accumulator's result is used.
  Mask reduced_loops(UOp acc) const {
    Mask m = 0;
    for (UOp r : loops_of(acc))
      if (is_reduced(r)) m |= opened_by(r);
    return m;
  }

  std::span<const UOp> nodes_;
  NodeScratch<uint32_t> place_;  ///< of a node in nodes_ and spots_
  std::vector<Spot> spots_;
  std::vector<UOp> openers_;
  std::vector<Mask> parents_;
  Mask regions_ = 0;
};

class Linearizer {
 public:
  explicit Linearizer(UOp sink) : graph_(sink.graph()), nodes_(walk(sink)), blocks_(nodes_) {}

  LinearProgram run() {
    items_.reserve(nodes_.size());
    edges_.reserve(nodes_.size() * 3);
    out_.reserve(nodes_.size() + 16);
    number_items();
    for (UOp u : nodes_) add_dependencies(u);
    sort_edges();
    emit(kRoot);
    if (emitted_ != items_.size()) throw InternalError("a loop needs its own result");
    return LinearProgram{std::move(out_)};
  }

 private:
  static constexpr size_t kRoot = 64;  ///< the block outside of all others
  /// What a block orders: a node, a block inside of it with the accumulators that start before it, or an IF with its stores.
  struct Item {
    UOp node;
    uint64_t priority = 0;
    uint32_t waiting = 0;  ///< dependencies not yet emitted
    uint32_t first_edge = 0;
    int block = -1;     ///< the block that the node opens
    int attached = -1;  ///< in attached_
  };

  size_t home(UOp u) const {
    Mask m = blocks_.inside(u);
    if (opens_block(u)) m &= ~bit(static_cast<size_t>(highest(m)));
    return m ? static_cast<size_t>(highest(m)) : kRoot;
  }

  /// Definitions first, by kind and number; else the order of the walk.
  static uint64_t priority(UOp u, size_t place) {
    uint64_t kind = 9;
    uint64_t within = place & 0xFFFFFFF;
    switch (u.op()) {
      case Op::DefineGlobal: kind = 0, within = static_cast<uint64_t>(std::get<int64_t>(u.arg())); break;
      case Op::DefineVar: kind = 1; break;
      case Op::DefineLocal: kind = 2; break;
      case Op::Special: kind = 3; break;
      case Op::Const: kind = 4; break;
      default: break;
    }
    return kind << 28 | within;
  }

  void number_items() {
    members_.resize(kRoot + 1);
    for (size_t place = 0; place < nodes_.size(); ++place) {
      UOp u = nodes_[place];
      if (u.is(Op::Sink)) continue;
      if (UOp guard = store_guard(u)) {  // the IF stands for its stores
        attach(guard, u);
        continue;
      }
      if (UOp loop = stand_in(u); loop != u) {  // an accumulator stands before the outermost of its loops
        attach(loop, u);
        continue;
      }
      Item item;
      item.node = u;
      item.priority = priority(u, place);
      if (opens_block(u)) item.block = highest(blocks_.inside(u));
      item_.set(u, static_cast<uint32_t>(items_.size()));
      members_[home(u)].push_back(static_cast<uint32_t>(items_.size()));
      items_.push_back(item);
    }
  }

  /// The node whose item `u` is part of.
  UOp stand_in(UOp u) const {
    if (u.is(Op::DefineAcc) && !loops_of(u).empty())
      return blocks_.opener(static_cast<size_t>(lowest(blocks_.loops(u))));
    UOp guard = store_guard(u);
    return guard ? guard : u;
  }

  /// The item of block `common` that is `u` or holds it.
  uint32_t item_within(UOp u, Mask common) const {
    Mask inner = blocks_.inside(u) & ~common;
    return item_.get(inner ? blocks_.opener(static_cast<size_t>(lowest(inner))) : u);
  }

  void attach(UOp to, UOp u) {
    Item& item = items_[item_.get(to)];
    if (item.attached < 0) {
      item.attached = static_cast<int>(attached_.size());
      attached_.emplace_back();
    }
    attached_[static_cast<size_t>(item.attached)].push_back(u);
  }

  void append_attached(const Item& item) {
    if (item.attached < 0) return;
    const auto& nodes = attached_[static_cast<size_t>(item.attached)];
    out_.insert(out_.end(), nodes.begin(), nodes.end());
  }

  void depend(UOp user, UOp source) {
    user = stand_in(user);
    source = stand_in(source);
    if (user == source || user.is(Op::Sink)) return;
    Mask of_user = blocks_.inside(user), of_source = blocks_.inside(source);
    Mask common = of_user & of_source;
    if (opens_block(source) && (of_user & of_source) == of_source) return;  // it is inside
    uint32_t from = item_within(source, common), to = item_within(user, common);
    if (from == to)
      throw InternalError("a loop needs its own result: " + std::string(to_string(user.op())) + " of " +
                          std::string(to_string(source.op())));
    edges_.emplace_back(from, to);
    ++items_[to].waiting;
  }

  void add_dependencies(UOp u) {
    if (u.is(Op::DefineAcc)) return depend(u, u.src(0));  // its loops come after it
    for (UOp s : u.src()) depend(u, s);
    if (u.is(Op::Assign)) acc_assigns_.emplace_back(u.src(0), u);
  }

  void sort_edges() {
    // The accumulator changes only after all that read its old value in the same turn.
    if (!acc_assigns_.empty()) {
      NodeScratch<UOp> assign_of;
      for (auto [acc, assign] : acc_assigns_) assign_of.set(acc, assign);
      for (UOp u : nodes_)
        for (UOp s : u.src())
          if (s.is(Op::DefineAcc))
            if (UOp assign = assign_of.get(s); assign && assign != u && blocks_.inside(u) == blocks_.inside(assign))
              depend(assign, u);
    }
    std::vector<uint32_t> count(items_.size() + 1);
    for (auto [from, to] : edges_) ++count[from + 1];
    for (size_t i = 0; i < items_.size(); ++i) {
      count[i + 1] += count[i];
      items_[i].first_edge = count[i];
    }
    targets_.resize(edges_.size());
    std::vector<uint32_t> at(count.begin(), count.end() - 1);
    for (auto [from, to] : edges_) targets_[at[from]++] = to;
  }

  /// Writes a block's items, each after what it depends on. As deep as loops are nested.
  void emit(size_t block) {
    std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> ready;  // priority, then number, in one word
    auto push = [&](uint32_t i) { ready.push(items_[i].priority << 32 | i); };
    for (uint32_t i : members_[block])
      if (items_[i].waiting == 0) push(i);
    while (!ready.empty()) {
      auto i = static_cast<uint32_t>(ready.top());
      ready.pop();
      emit_item(items_[i]);
      ++emitted_;
      uint32_t end = i + 1 < items_.size() ? items_[i + 1].first_edge : static_cast<uint32_t>(targets_.size());
      for (uint32_t e = items_[i].first_edge; e < end; ++e)
        if (--items_[targets_[e]].waiting == 0) push(targets_[e]);
    }
  }

  void emit_item(const Item& item) {
    UOp u = item.node;
    if (item.block >= 0) {
      append_attached(item);
    }
    out_.push_back(u);
    if (item.block >= 0) {
      emit(static_cast<size_t>(item.block));
      end_turn(static_cast<size_t>(item.block));
      out_.push_back(graph_.node(u.is(Op::Range) ? Op::Endrange : Op::Endif, Scalar::Void, {u}));
    } else if (u.is(Op::If)) {
      append_attached(item);
      out_.push_back(graph_.node(Op::Endif, Scalar::Void, {u}));
    }
  }

  /// Local memory that is filled in each turn of a loop may be filled again only when all threads have read it.
  void end_turn(size_t block) {
    for (uint32_t i : members_[block])
      if (UOp u = items_[i].node; u.is(Op::Barrier)) {
        out_.push_back(graph_.node(Op::Barrier, Scalar::Void, u.src(), graph_.intern("turn" + std::to_string(block))));
        return;
      }
  }

  Graph& graph_;
  std::vector<UOp> nodes_;
  Blocks blocks_;
  std::vector<Item> items_;
  std::vector<std::vector<uint32_t>> members_;  ///< items by block
  NodeScratch<uint32_t> item_;
  std::vector<std::vector<UOp>> attached_;            ///< an IF's stores, the accumulators that start before a loop
  std::vector<std::pair<uint32_t, uint32_t>> edges_;  ///< from, to
  std::vector<std::pair<UOp, UOp>> acc_assigns_;
  std::vector<uint32_t> targets_;
  std::vector<UOp> out_;
  size_t emitted_ = 0;
};

}  // namespace

LinearProgram linearize(UOp legal) {
  if (!legal.is(Op::Sink)) throw InternalError("only a SINK can be linearized");
  return Linearizer(legal).run();
}

}  // namespace quern
