#include "lower/lanes.h"

#include <algorithm>
#include <map>

#include "ir/graph.h"
#include "ir/node_map.h"
#include "ir/view.h"
#include "lower/loops.h"
#include "lower/vectors.h"

namespace quern {

namespace {

using AxesId = uint32_t;  ///< an entry of AxesTable; 0 is no axes
using LaneMap = std::vector<uint32_t>;

/// Sets of expanded axes, ascending by axis. The lanes of a set run through its axes, the last one fastest.
class AxesTable {
 public:
  AxesTable() {
    sets_.emplace_back();
    sizes_.push_back(1);
  }
  const Axes& axes(AxesId id) const { return sets_[id]; }
  uint32_t lanes(AxesId id) const { return sizes_[id]; }

  AxesId find(Axes axes) {
    std::sort(axes.begin(), axes.end());
    axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
    auto at = std::find(sets_.begin(), sets_.end(), axes);
    if (at != sets_.end()) return static_cast<AxesId>(at - sets_.begin());
    uint32_t lanes = 1;
    for (AxisSize a : axes) lanes *= static_cast<uint32_t>(a.size);
    sets_.push_back(std::move(axes));
    sizes_.push_back(lanes);
    return static_cast<AxesId>(sets_.size() - 1);
  }

  AxesId unite(AxesId a, AxesId b) {
    if (a == b || b == 0) return a;
    if (a == 0) return b;
    auto [at, is_new] = united_.try_emplace({a, b}, 0);
    if (is_new) {
      Axes all = sets_[a];
      all.insert(all.end(), sets_[b].begin(), sets_[b].end());
      at->second = find(std::move(all));
    }
    return at->second;
  }

  AxesId without(AxesId a, const Axes& removed) {
    Axes left;
    for (AxisSize x : sets_[a])
      if (std::none_of(removed.begin(), removed.end(), [&](AxisSize r) { return r.axis == x.axis; })) left.push_back(x);
    return find(std::move(left));
  }

  /// For each lane of `id`: the sum over `weighted` axes (those that `id` has) of the lane's place on the axis times its weight.
  LaneMap weigh(AxesId id, const std::vector<std::pair<int32_t, uint32_t>>& weighted) const {
    LaneMap out{0};
    for (AxisSize a : sets_[id]) {
      uint32_t weight = 0;
      for (auto [axis, w] : weighted)
        if (axis == a.axis) weight = w;
      LaneMap next;
      next.reserve(out.size() * static_cast<size_t>(a.size));
      for (uint32_t base : out)
        for (uint32_t k = 0; k < static_cast<uint32_t>(a.size); ++k) next.push_back(base + k * weight);
      out = std::move(next);
    }
    return out;
  }

  /// The weights that number the lanes of `order`, its last axis fastest.
  static std::vector<std::pair<int32_t, uint32_t>> strides(const Axes& order) {
    std::vector<std::pair<int32_t, uint32_t>> weighted;
    uint32_t stride = 1;
    for (size_t i = order.size(); i-- > 0;) {
      weighted.emplace_back(order[i].axis, stride);
      stride *= static_cast<uint32_t>(order[i].size);
    }
    return weighted;
  }

  /// For each lane of `from` the lane of `to` at the same places; axes that only `to` has are at 0.
  const LaneMap& map(AxesId from, AxesId to) {
    auto [at, is_new] = maps_.try_emplace({from, to});
    if (is_new) at->second = weigh(from, strides(sets_[to]));
    return at->second;
  }

 private:
  std::vector<Axes> sets_;
  std::vector<uint32_t> sizes_;
  std::map<std::pair<AxesId, AxesId>, AxesId> united_;
  std::map<std::pair<AxesId, AxesId>, LaneMap> maps_;
};

Axes axes_of(UOp u) { return *std::get<const Axes*>(u.arg()); }

/// Axes that a WMMA's operands may differ in only by where the instruction itself puts its elements.
Axes own_axes(UOp wmma) {
  const WmmaArg& arg = *std::get<const WmmaArg*>(wmma.arg());
  Axes own;
  for (const Axes& axes : arg.upcast_axes) own.insert(own.end(), axes.begin(), axes.end());
  for (int32_t axis : arg.reduce_axes) own.push_back({axis, 1});
  return own;
}

class LaneBuilder {
 public:
  LaneBuilder(UOp sink, const RuleSet& rules)
      : graph_(sink.graph()), sink_(sink), nodes_(toposort(sink)), simplified_(rules) {}

  UOp run() {
    if (std::none_of(nodes_.begin(), nodes_.end(), [](UOp u) { return u.is({Op::Expand, Op::Contract}); }))
      return sink_;
    for (UOp u : nodes_) axes_[u] = find_axes(u);
    if (std::any_of(nodes_.begin(), nodes_.end(), [](UOp u) { return u.is(Op::DefineAcc); }))
      for (UOp u : nodes_) axes_[u] = find_axes(u);  // again, now that the accumulators' axes are known
    for (UOp u : nodes_) {
      AxesId axes = axes_.get(u);
      begin_[u] = static_cast<uint32_t>(pool_.size());
      build(u, axes, table_.lanes(axes));
    }
    return lanes(sink_)[0];
  }

 private:
  std::span<const UOp> lanes(UOp u) const { return {pool_.data() + begin_.get(u), table_.lanes(axes_.get(u))}; }

  void push(UOp lane) { pool_.push_back(simplified_(lane)); }

  AxesId find_axes(UOp u) {
    AxesId all = 0;
    switch (u.op()) {
      case Op::Sink:
      case Op::Barrier: return 0;
      case Op::DefineAcc: return acc_axes_.get(u);
      case Op::Contract: return table_.without(axes_.get(u.src(0)), axes_of(u));
      case Op::Expand: return table_.unite(axes_.get(u.src(0)), table_.find(axes_of(u)));
      case Op::Assign: {
        AxesId axes = axes_.get(u.src(1));
        AxesId& acc = acc_axes_[u.src(0)];
        return acc = table_.unite(acc, axes);
      }
      default:
        for (UOp s : u.src()) all = table_.unite(all, axes_.get(s));
        return u.is(Op::Wmma) ? table_.without(all, own_axes(u)) : all;
    }
  }

  void build(UOp u, AxesId axes, uint32_t n) {
    switch (u.op()) {
      case Op::Sink:
      case Op::Barrier: return build_once(u);
      case Op::Contract: return build_contract(u, axes);
      case Op::Expand: return build_expand(u, axes);
      case Op::DefineAcc: return build_accumulators(u, n);
      case Op::Gep: {
        const Lanes& taken = *std::get<const Lanes*>(u.arg());
        for (uint32_t i = 0; i < n; ++i) {
          UOp from = lanes(u.src(0))[i];
          push(taken.size() == 1 ? from.gep(taken[0]) : from.gep(taken));
        }
        return;
      }
      case Op::Add: build_each(u, axes, n); return fuse_into_wmma(u, axes, n);
      case Op::Wmma: return build_wmma(u, axes, n);
      default: return build_each(u, axes, n);
    }
  }

  void build_each(UOp u, AxesId axes, uint32_t n) {
    size_t sources = u.num_src();
    if (n == 1) {
      src_.clear();
      for (UOp s : u.src()) src_.push_back(lanes(s)[0]);
      if (!std::equal(src_.begin(), src_.end(), u.src().begin())) return push(u.with_src(src_));
      simplified_.keep(u);
      pool_.push_back(u);
      return;
    }
    maps_.clear();
    for (UOp s : u.src()) maps_.push_back(axes_.get(s) == axes ? nullptr : table_.map(axes, axes_.get(s)).data());
    src_.resize(sources);
    for (uint32_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < sources; ++j) src_[j] = pool_[begin_.get(u.src(j)) + (maps_[j] ? maps_[j][i] : i)];
      push(graph_.node(u.op(), u.dtype(), src_, u.arg()));
    }
  }

  /// SINK and BARRIER stay one node that waits for all lanes.
  void build_once(UOp u) {
    std::vector<UOp> all;
    for (UOp s : u.src())
      for (UOp lane : lanes(s)) all.push_back(lane);
    push(u.with_src(all));
  }

  void build_contract(UOp u, AxesId axes) {
    Axes order = axes_of(u);
    AxesId from = axes_.get(u.src(0));
    auto strides = AxesTable::strides(table_.axes(from));
    LaneMap base = table_.weigh(axes, strides), step{0};
    for (AxisSize a : order) {  // in the order of the CONTRACT; an axis the source does not have repeats it
      uint32_t weight = 0;
      for (auto [axis, w] : strides)
        if (axis == a.axis) weight = w;
      LaneMap next;
      for (uint32_t s : step)
        for (uint32_t k = 0; k < static_cast<uint32_t>(a.size); ++k) next.push_back(s + k * weight);
      step = std::move(next);
    }
    std::vector<UOp> vector(step.size());
    for (uint32_t b : base) {
      for (size_t k = 0; k < step.size(); ++k) vector[k] = lanes(u.src(0))[b + step[k]];
      push(graph_.vectorize(vector));
    }
  }

  void build_expand(UOp u, AxesId axes) {
    LaneMap which = table_.map(axes, axes_.get(u.src(0)));
    LaneMap lane = table_.weigh(axes, AxesTable::strides(axes_of(u)));
    bool vector = u.src(0).dtype().lanes() > 1;
    for (size_t i = 0; i < lane.size(); ++i) {
      UOp from = lanes(u.src(0))[which[i]];
      push(vector ? from.gep(static_cast<int>(lane[i])) : from);
    }
  }

  void build_accumulators(UOp u, uint32_t n) {
    src_.clear();
    for (UOp s : u.src()) src_.push_back(lanes(s)[0]);
    if (n == 1) return push(u.with_src(src_));
    Lanes arg = *std::get<const Lanes*>(u.arg());
    arg.push_back(0);
    for (uint32_t i = 0; i < n; ++i) {
      arg.back() = static_cast<int32_t>(i);
      push(graph_.node(Op::DefineAcc, u.dtype(), src_, graph_.intern(arg)));
    }
  }

  void build_wmma(UOp u, AxesId axes, uint32_t n) {
    for (uint32_t i = 0; i < n; ++i) {
      src_.clear();
      for (UOp s : u.src()) src_.push_back(spelled_out(lanes(s)[table_.map(axes, axes_.get(s))[i]]));
      push(u.with_src(src_));
    }
  }

  UOp spelled_out(UOp vector) const {
    if (!vector.is({Op::Const, Op::Vconst}) || vector.dtype().lanes() == 1) return vector;
    std::vector<UOp> each;
    for (int i = 0; i < vector.dtype().lanes(); ++i) each.push_back(vector.gep(i));
    return graph_.vectorize(each);
  }

  /// Where one side of the ADD `u` is all lanes of tensor core results, the other side becomes what these add to.
  void fuse_into_wmma(UOp u, AxesId axes, uint32_t n) {
    for (size_t side : {size_t{1}, size_t{0}}) {
      UOp product = u.src(side), other = u.src(1 - side);
      if (axes_.get(product) != axes || !is_lane_of_wmma(lanes(product)[0])) continue;
      std::map<uint32_t, std::vector<std::pair<uint32_t, uint32_t>>> lanes_of;  // WMMA -> its lane, lane of `u`
      bool complete = true;
      for (uint32_t i = 0; i < n && complete; ++i) {
        UOp lane = lanes(product)[i];
        complete = is_lane_of_wmma(lane);
        if (complete) lanes_of[lane.src(0).id()].emplace_back((*std::get<const Lanes*>(lane.arg()))[0], i);
      }
      for (auto& [id, which] : lanes_of) {
        std::sort(which.begin(), which.end());
        complete &= static_cast<int>(which.size()) == graph_.at(id).dtype().lanes();
      }
      if (!complete) continue;
      const LaneMap& to_other = table_.map(axes, axes_.get(other));
      for (const auto& [id, which] : lanes_of) {
        std::vector<UOp> added;
        for (auto [lane, i] : which) added.push_back(lanes(other)[to_other[i]]);
        UOp fused = add_to_wmma(graph_.at(id), whole_vector(added));
        if (!fused) continue;
        for (auto [lane, i] : which) pool_[begin_.get(u) + i] = simplified_(fused.gep(static_cast<int>(lane)));
      }
      return;
    }
  }

  static bool is_lane_of_wmma(UOp u) { return u.is(Op::Gep) && u.src(0).is(Op::Wmma); }

  /// `wmma` with `added` in place of the zeros its chain of accumulators starts from; nothing if it starts from something else.
  UOp add_to_wmma(UOp wmma, UOp added) const {
    std::vector<UOp> chain;
    for (UOp at = wmma; at.is(Op::Wmma); at = at.src(2)) chain.push_back(at);
    auto start = chain.back().src(2);
    bool zero = start.is(Op::Vectorize) && std::all_of(start.src().begin(), start.src().end(), [](UOp s) {
                  return s.is_const() && s.dtype().is_float() ? s.const_float() == 0 : s.is_const_int(0);
                });
    if (!zero) return UOp();
    UOp made = added;
    for (size_t i = chain.size(); i-- > 0;) {
      std::array<UOp, 3> src = {chain[i].src(0), chain[i].src(1), made};
      made = chain[i].with_src(src);
    }
    return made;
  }

  Graph& graph_;
  UOp sink_;
  std::vector<UOp> nodes_;
  AxesTable table_;
  NodeMap<AxesId> axes_, acc_axes_;
  NodeMap<uint32_t> begin_;  ///< a node's first lane in the pool
  GraphRewriter simplified_;
  std::vector<UOp> pool_;
  std::vector<UOp> src_;
  std::vector<const uint32_t*> maps_;
};

}  // namespace

UOp build_lanes(UOp sink, const RuleSet& rules) { return LaneBuilder(sink, rules).run(); }

}  // namespace quern
