// Gates leave the INDEX: loads get an alternative and a condition, stores stand inside of an IF.
#include <algorithm>

#include "quern/error.h"

#include "ir/graph.h"
#include "ir/node_map.h"
#include "lower/loops.h"
#include "lower/memory.h"
#include "lower/vectors.h"

namespace quern {

namespace {

/// The INDEX below an address: itself, or what a cast to a wider pointer is of.
UOp index_of(UOp address) { return address.is(Op::Cast) ? address.src(0) : address; }
UOp gate_of(UOp access) {
  UOp index = index_of(access.src(0));
  return index.is(Op::Index) && index.num_src() > 2 ? index.src(2) : UOp();
}
UOp without_gate(UOp address) {
  UOp index = index_of(address);
  if (!index.is(Op::Index) || index.num_src() < 3) return address;
  UOp plain = index.graph().node(Op::Index, index.dtype(), index.src().first(2));
  return address.is(Op::Cast) ? plain.cast(address.dtype()) : plain;
}

bool waits_for(UOp u, Op op) { return u.is(Op::Load) && u.src(u.num_src() - 1).is(op); }

using Clauses = std::vector<UOp>;
bool has(const Clauses& clauses, UOp clause) {
  return std::find(clauses.begin(), clauses.end(), clause) != clauses.end();
}
UOp all_of(const Clauses& clauses) {
  UOp all;
  for (UOp c : clauses) all = all ? all & c : c;
  return all;
}

class GatePlacer {
 public:
  GatePlacer(UOp sink, const Target& target)
      : graph_(sink.graph()), sink_(sink), nodes_(toposort(sink)), has_groups_(target.has_local) {}

  UOp run() {
    bool gated = false;
    for (UOp u : nodes_) {
      gated |= u.is(Op::Index) && u.num_src() > 2;
      barriers_ |= has_groups_ && u.is(Op::Barrier);
    }
    if (!gated) return sink_;
    for (UOp u : nodes_) done_.set(u, placed(u));
    return done_.get(sink_);
  }

 private:
  UOp placed(UOp u) {
    src_.clear();
    for (UOp s : u.src()) src_.push_back(done_.get(s));
    bool same = std::equal(src_.begin(), src_.end(), u.src().begin());
    if (u.is(Op::Load)) {
      if (UOp gate = gate_of(u)) return gated_load(u, done_.get(gate));
    } else if (u.is({Op::Sink, Op::Barrier})) {
      return with_stores_under_ifs(u);
    }
    return same ? u : u.with_src(src_);
  }

  UOp gated_load(UOp load, UOp gate) {
    std::vector<UOp> src = {without_gate(src_[0]), zero_of(graph_, load.dtype()), gate};
    src.insert(src.end(), src_.begin() + 1, src_.end());
    return load.with_src(src);
  }

  /// A SINK or BARRIER with its stores put under IFs. Stores of what is computed from local memory after a barrier share the
  /// conditions all of them have: that part of the program is under one IF, which waits for the barrier.
  UOp with_stores_under_ifs(UOp u) {
    std::vector<UOp> src(src_);
    Clauses common;
    bool first = true;
    for (UOp store : src) {
      if (!store.is(Op::Store)) continue;
      UOp gate = gate_of(store);
      Clauses clauses = gate ? split(gate, Op::And) : Clauses{};
      if (first)
        common = clauses;
      else
        std::erase_if(common, [&](UOp c) { return !has(clauses, c); });
      first = false;
    }
    UOp region = common.empty() || !barriers_ ? UOp() : region_under(src, all_of(common));
    NodeScratch<UOp> moved;
    for (UOp& store : src) {
      if (!store.is(Op::Store)) continue;
      UOp gate = gate_of(store), value = store.src(1);
      if (region) value = behind(value, region, moved);
      if (!gate) {
        store = graph_.node(Op::Store, Scalar::Void, {store.src(0), value});
        continue;
      }
      UOp condition;
      if (region && value != store.src(1)) {
        Clauses rest = split(gate, Op::And);
        std::erase_if(rest, [&](UOp c) { return has(common, c); });
        condition = rest.empty() ? region : if_before(u, all_of(rest));
      } else {
        condition = if_before(u, gate);
      }
      store = graph_.node(Op::Store, Scalar::Void, {without_gate(store.src(0)), value, condition});
    }
    return u.with_src(src);
  }

  /// An IF for the stores before a BARRIER, or those at the end: each place has its own, told apart by a label.
  UOp if_before(UOp place, UOp condition) {
    if (place.is(Op::Sink)) return graph_.node(Op::If, Scalar::Void, {condition});
    return graph_.node(Op::If, Scalar::Void, {condition}, graph_.intern("barrier" + std::to_string(place.id())));
  }

  /// An IF that waits for the barriers the stores' values need, or nothing if there are none or they stand inside of loops.
  UOp region_under(std::span<const UOp> stores, UOp condition) {
    std::vector<UOp> barriers, stack;
    NodeScratch<uint8_t> seen;
    for (UOp s : stores)
      if (s.is(Op::Store)) stack.push_back(s.src(1));
    while (!stack.empty()) {
      UOp u = stack.back();
      stack.pop_back();
      if (seen.get(u)) continue;
      seen.set(u, 1);
      if (u.is(Op::Barrier))
        barriers.push_back(u);
      else
        stack.insert(stack.end(), u.src().begin(), u.src().end());
    }
    if (barriers.empty()) return UOp();
    std::sort(barriers.begin(), barriers.end(), [](UOp a, UOp b) { return a.id() < b.id(); });
    UOp last = barriers.back();
    for (UOp b : barriers)
      if (is_inside_loop(b)) return UOp();
    bool after_all = std::all_of(barriers.begin(), barriers.end(), [&](UOp b) { return depends_on(last, b); });
    if (!after_all) {
      std::vector<UOp> all;
      for (UOp b : barriers) all.insert(all.end(), b.src().begin(), b.src().end());
      last = graph_.node(Op::Barrier, Scalar::Void, all);
    }
    return graph_.node(Op::If, Scalar::Void, {condition, last});
  }

  /// `value` with every load that waits for a barrier waiting for the IF instead.
  UOp behind(UOp value, UOp region, NodeScratch<UOp>& moved) {
    std::vector<std::pair<UOp, uint32_t>> stack{{value, 0}};
    std::vector<UOp> src;
    while (!stack.empty()) {
      auto& [u, next] = stack.back();
      if (u.is({Op::Barrier, Op::If})) moved.set(u, u);
      if (moved.get(u)) {
        stack.pop_back();
        continue;
      }
      if (next < u.num_src()) {
        UOp s = u.src(next++);
        if (!moved.get(s)) stack.emplace_back(s, 0);
        continue;
      }
      src.clear();
      for (UOp s : u.src()) src.push_back(moved.get(s));
      if (waits_for(u, Op::Barrier)) src.back() = region;
      moved.set(u, std::equal(src.begin(), src.end(), u.src().begin()) ? u : u.with_src(src));
      stack.pop_back();
    }
    return moved.get(value);
  }

  /// True if the node is computed again in each turn of a reduce loop.
  static bool is_inside_loop(UOp root) {
    std::vector<UOp> ranges;
    NodeScratch<uint64_t> open;  // loops a node is inside of, by their place in `ranges`
    for (UOp u : toposort(root)) {
      uint64_t mask = 0;
      for (UOp s : u.src()) mask |= open.get(s);
      if (u.is(Op::Range) && std::get<RangeArg>(u.arg()).reduce) {
        if (ranges.size() == 64) return true;
        mask |= uint64_t{1} << ranges.size();
        ranges.push_back(u);
      }
      if (u.is(Op::Assign))
        for (UOp r : loops_of(u.src(0))) mask &= ~open.get(r);
      open.set(u, mask);
    }
    return open.get(root) != 0;
  }

  Graph& graph_;
  UOp sink_;
  std::vector<UOp> nodes_;
  bool has_groups_;
  bool barriers_ = false;  ///< that threads of a group wait at
  NodeScratch<UOp> done_;
  std::vector<UOp> src_;
};

}  // namespace

UOp place_gates(UOp sink, const Target& target) { return GatePlacer(sink, target).run(); }

}  // namespace quern
