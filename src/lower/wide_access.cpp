// Neighbouring accesses become wide ones.
#include <algorithm>
#include <tuple>

#include "ir/graph.h"
#include "ir/node_map.h"
#include "lower/memory.h"
#include "lower/vectors.h"
#include "symbolic/simplify.h"

namespace quern {

namespace {

/// A scalar LOAD or STORE at buffer[root + offset].
struct Access {
  UOp node, buffer, root, gate, waits_for;  // the last three may be empty
  int64_t offset = 0;

  static uint32_t order_of(UOp u) { return u ? u.id() + 1 : 0; }
  auto place() const {
    return std::tuple(order_of(buffer), order_of(gate), order_of(root), order_of(waits_for), node.dtype().scalar);
  }
};

struct Wide {
  std::vector<Access> members;  // at consecutive offsets
  UOp made;                     // the LOAD, once it is built
};

struct Member {
  uint32_t wide = 0;  // from 1
  uint32_t lane = 0;
};

class AccessWidener {
 public:
  AccessWidener(UOp sink, const Target& target)
      : graph_(sink.graph()), sink_(sink), target_(target), nodes_(toposort(sink)) {}

  UOp run() {
    bool images = false;
    std::vector<Access> loads;
    for (UOp u : nodes_) {
      images |= u.dtype().is_image() && u.is(Op::DefineGlobal);
      if (u.is(Op::Load)) collect(u, loads);
      if (u.is({Op::Sink, Op::Barrier})) {
        std::vector<Access> stores;
        for (UOp s : u.src())
          if (s.is(Op::Store)) collect(s, stores);
        group(stores);
      }
    }
    group(loads);
    if (wides_.empty() && !images) return sink_;
    for (UOp u : nodes_) done_[u] = rebuilt(u);
    return done_.get(sink_);
  }

 private:
  void collect(UOp u, std::vector<Access>& out) const {
    UOp at = u.src(0);
    if (!at.is(Op::Index) || u.dtype().lanes() != 1 || at.src(1).dtype().lanes() != 1) return;
    Access a{u, at.src(0), at.src(1), at.num_src() > 2 ? at.src(2) : UOp(), UOp(), 0};
    if (u.is(Op::Load) && u.num_src() > 1) a.waits_for = u.src(1);
    const DType& type = a.buffer.dtype();
    bool wide =
        type.is_image() || (target_.has_float4 && (type.scalar == Scalar::Float || type.scalar == Scalar::Half));
    if (!wide) return;
    if (a.root.is_const()) {
      a.offset = static_cast<int64_t>(a.root.const_int());
      a.root = UOp();
    } else if (a.root.is(Op::Add) && a.root.src(1).is_const()) {
      a.offset = static_cast<int64_t>(a.root.src(1).const_int());
      a.root = a.root.src(0);
    }
    out.push_back(a);
  }

  void group(std::vector<Access>& accesses) {
    std::sort(accesses.begin(), accesses.end(), [](const Access& a, const Access& b) {
      auto pa = a.place(), pb = b.place();
      return pa != pb ? pa < pb : std::pair(a.offset, a.node.id()) < std::pair(b.offset, b.node.id());
    });
    for (size_t i = 0; i < accesses.size();) {
      size_t end = i + 1;
      while (end < accesses.size() && accesses[end].place() == accesses[i].place()) ++end;
      group_place(std::span(accesses).subspan(i, end - i));
      i = end;
    }
  }

  /// Joins accesses of one place, by rising offset.
  void group_place(std::span<const Access> accesses) {
    static constexpr int kImage[] = {4}, kPlain[] = {4, 2}, kAmx[] = {16, 8, 4, 2};
    std::span<const int> lengths = kPlain;
    if (target_.amx) lengths = kAmx;
    if (accesses[0].buffer.dtype().is_image()) lengths = kImage;
    if (accesses.size() < static_cast<size_t>(lengths.back())) return;
    Int128 factor = accesses[0].root ? const_factor(accesses[0].root) : Int128{0};
    for (size_t i = 0; i < accesses.size();) {
      size_t joined = 1;
      for (int length : lengths) {
        auto n = static_cast<size_t>(length);
        if (i + n > accesses.size() || factor % length != 0 || floor_mod(accesses[i].offset, int64_t{length}) != 0)
          continue;
        bool consecutive = true;
        for (size_t k = 1; k < n && consecutive; ++k)
          consecutive = accesses[i + k].offset == accesses[i].offset + static_cast<int64_t>(k);
        if (!consecutive) continue;
        wides_.push_back(
            {{accesses.begin() + static_cast<std::ptrdiff_t>(i), accesses.begin() + static_cast<std::ptrdiff_t>(i + n)},
             UOp()});
        for (size_t k = 0; k < n; ++k)
          member_[accesses[i + k].node] = {static_cast<uint32_t>(wides_.size()), static_cast<uint32_t>(k)};
        joined = n;
        break;
      }
      i += joined;
    }
  }

  UOp rebuilt(UOp u) {
    if (u.is(Op::Load)) {
      if (Member m = member_.get(u); m.wide) return lane_of(wides_[m.wide - 1], m.lane);
      if (is_flat_image_access(u)) return texel_element(u);
    }
    src_.clear();
    bool changed = false;
    for (UOp s : u.src()) {
      if (s.is(Op::Store) && u.is({Op::Sink, Op::Barrier})) {
        Member m = member_.get(s);
        changed |= m.wide != 0;
        if (m.wide && m.lane) continue;
        src_.push_back(m.wide ? wide_store(wides_[m.wide - 1]) : done_.get(s));
      } else {
        src_.push_back(done_.get(s));
      }
      changed |= src_.back() != s;
    }
    return changed ? u.with_src(src_) : u;
  }

  static bool is_flat_image_access(UOp u) {
    return u.src(0).is(Op::Index) && u.src(0).dtype().is_image() && u.src(0).src(1).dtype().lanes() == 1;
  }

  UOp done(UOp u) const { return u ? done_.get(u) : UOp(); }

  /// The address of the first member, as a pointer to all of them.
  UOp address(const Wide& wide) {
    const Access& first = wide.members.front();
    UOp buffer = done(first.buffer), idx = done(first.root), gate = done(first.gate);
    if (!idx)
      idx = graph_.const_index(first.offset);
    else if (first.offset)
      idx = idx + first.offset;
    if (buffer.dtype().is_image()) return texel_index(buffer, idx, gate, first.node.is(Op::Store));
    UOp at = gate ? graph_.node(Op::Index, buffer.dtype(), {buffer, idx, gate})
                  : graph_.node(Op::Index, buffer.dtype(), {buffer, idx});
    DType type = buffer.dtype();
    type.count = static_cast<uint16_t>(wide.members.size());
    return at.cast(type);
  }

  UOp lane_of(Wide& wide, uint32_t lane) {
    const Access& first = wide.members.front();
    if (!wide.made) {
      UOp at = address(wide);
      DType type = first.node.dtype().vec(static_cast<int>(wide.members.size()));
      if (!at)
        wide.made = zero_of(graph_, type);
      else if (first.waits_for)
        wide.made = graph_.node(Op::Load, type, {at, done(first.waits_for)});
      else
        wide.made = graph_.node(Op::Load, type, {at});
    }
    return wide.made.gep(static_cast<int>(lane));
  }

  UOp wide_store(const Wide& wide) {
    std::vector<UOp> values;
    for (const Access& a : wide.members) values.push_back(done_.get(a.node.src(1)));
    UOp at = address(wide);
    if (!at) return graph_.node(Op::Noop, Scalar::Void);
    return graph_.node(Op::Store, Scalar::Void, {at, whole_vector(values)});
  }

  /// One element of an image, chosen from its texel by the index's remainder.
  UOp texel_element(UOp load) {
    UOp image = done_.get(load.src(0).src(0)), idx = done_.get(load.src(0).src(1));
    UOp gate = load.src(0).num_src() > 2 ? done_.get(load.src(0).src(2)) : UOp();
    UOp at = texel_index(image, idx, gate);
    if (!at) return graph_.constant(load.dtype(), 0);
    UOp texel = graph_.node(Op::Load, load.dtype().vec(4), {at});
    UOp lane = graph_rewrite(idx.mod(graph_.const_index(4)), symbolic_flat());
    UOp chosen = texel.gep(static_cast<int>(lane.vmax()));
    for (int i = static_cast<int>(lane.vmax()) - 1; i >= static_cast<int>(lane.vmin()); --i)
      chosen = lane.ne(graph_.const_index(i)).where(chosen, texel.gep(i));
    return chosen;
  }

  Graph& graph_;
  UOp sink_;
  const Target& target_;
  std::vector<UOp> nodes_;
  std::vector<Wide> wides_;
  NodeMap<Member> member_;
  NodeMap<UOp> done_;
  std::vector<UOp> src_;
};

}  // namespace

UOp widen_accesses(UOp sink, const Target& target) { return AccessWidener(sink, target).run(); }

}  // namespace quern
