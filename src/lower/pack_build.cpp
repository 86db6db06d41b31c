// The graph with the vectors of the stage "pack vectors".
#include "quern/error.h"

#include "lower/vector_packer.h"

namespace quern {

void VectorPacker::build() {
  std::vector<Step> stack{{sink_, 0, 0}};
  while (!stack.empty()) advance(stack);
}

void VectorPacker::advance(std::vector<Step>& stack) {
  const Step step = stack.back();
  if (step.node ? static_cast<bool>(done_.get(step.node)) : static_cast<bool>(packs_[step.pack].made)) {
    stack.pop_back();
    return;
  }
  ++stack.back().next;
  std::optional<Step> source = step.node ? source_of(step.node, step.next) : source_of(step.pack, step.next);
  if (source) {
    stack.push_back(*source);
    return;
  }
  stack.pop_back();
  if (step.node)
    done_.set(step.node, rebuilt(step.node));
  else
    packs_[step.pack].made = made(step.pack);
}

VectorPacker::PackId VectorPacker::assign_pack(PackId acc) {
  std::vector<UOp> lanes;
  for (UOp u : packs_[acc].lanes) lanes.push_back(u ? assign_of_.get(u) : UOp());
  PackId id = want(std::move(lanes));
  packs_[id].kind = Kind::Assign;
  packs_[id].sources = {acc};
  return id;
}

std::optional<VectorPacker::Step> VectorPacker::source_of(UOp u, size_t i) {
  if (Member m = member_.get(u); m.pack) return one(i, m.pack - 1);
  if (u.is(Op::Assign) && u.src(0).is(Op::DefineAcc))
    if (Member m = member_.get(u.src(0)); m.pack && assign_of_.get(u.src(0)) == u)
      return one(i, assign_pack(m.pack - 1));
  if (const uint32_t wide = store_of_.get(u)) return source_of_store(stores_[wide - 1], i);
  if (i < u.num_src()) return Step{u.src(i), 0, 0};
  return {};
}

std::optional<VectorPacker::Step> VectorPacker::source_of_store(const WideStore& wide, size_t i) {
  UOp first = wide.members[0];
  switch (i) {
    case 0: return Step{UOp(), wide.value, 0};
    case 1: return Step{first.src(0), 0, 0};
    case 2:
      if (wide.gate) return Step{UOp(), *wide.gate, 0};
      return first.num_src() > 2 ? std::optional(Step{first.src(2), 0, 0}) : std::nullopt;
    default: return {};
  }
}

std::optional<VectorPacker::Step> VectorPacker::source_of(PackId id, size_t i) {
  const Pack& p = packs_[id];
  auto node = [&](UOp u) { return std::optional(Step{u, 0, 0}); };
  auto pack = [&](PackId s) { return std::optional(Step{UOp(), s, 0}); };
  switch (p.kind) {
    case Kind::Scalars: return i < p.lanes.size() ? node(p.lanes[i] ? p.lanes[i] : p.first) : std::nullopt;
    case Kind::Splat: return i == 0 ? node(p.first) : std::nullopt;
    case Kind::Load: {
      UOp load = p.lanes[p.with_gate];
      if (i == 0) return node(load.src(0).src(0));
      if (i == 1) return p.place.root ? node(p.place.root) : node(load.src(0).src(0));
      if (waits(load) && i == (p.gate ? 4u : 2u)) return node(load.src(1));
      if (i == 2 && p.gate) return pack(*p.gate);
      if (i == 3 && p.gate) return pack(p.sources[0]);
      if (i < 4 && !p.gate && load.num_src() > 2) return node(load.src(i - 1));
      return {};
    }
    case Kind::Accumulator: {
      if (i == 0) return pack(p.sources[0]);
      const auto loops = loops_of(p.first);
      return i <= loops.size() ? node(loops[i - 1]) : std::nullopt;
    }
    case Kind::Assign:
      if (i == 0) return pack(p.sources[0]);
      return i == 1 ? pack(packs_[p.sources[0]].sources[1]) : std::nullopt;
    case Kind::Unzip:
    case Kind::Zip:
    case Kind::Transposed:
    case Kind::Dot:
    case Kind::Lanewise:
    case Kind::Blend:
    case Kind::Shifted: return i < p.sources.size() ? pack(p.sources[i]) : std::nullopt;
  }
  return {};
}

UOp VectorPacker::made(PackId id) {
  const Pack& p = packs_[id];
  const auto n = static_cast<int>(p.lanes.size());
  const DType type = p.first.dtype().vec(n);
  std::vector<UOp> src;
  switch (p.kind) {
    case Kind::Scalars:
      for (UOp u : p.lanes) src.push_back(done_.get(u ? u : p.first));
      return graph_.vectorize(src);
    case Kind::Splat: return graph_.vectorize(std::vector<UOp>(p.lanes.size(), done_.get(p.first)));
    case Kind::Load: return wide_load(p, type);
    case Kind::Accumulator: {
      src.push_back(packs_[p.sources[0]].made);
      for (UOp r : loops_of(p.first)) src.push_back(done_.get(r));
      return graph_.node(Op::DefineAcc, type, src, p.first.arg());
    }
    case Kind::Assign: {
      const Pack &acc = packs_[p.sources[0]], &value = packs_[acc.sources[1]];
      if (value.kind == Kind::Dot && value.sources[0] == p.sources[0]) return accumulated_dots(acc, value);
      return graph_.node(Op::Assign, type, {acc.made, value.made});
    }
    case Kind::Lanewise:
      for (PackId s : p.sources) src.push_back(packs_[s].made);
      return graph_.node(p.like.op(), type, src, p.like.arg());
    case Kind::Unzip:
      for (PackId s : p.sources)
        for (uint32_t i = 0; i < p.lanes.size(); i += 2) src.push_back(lane(packs_[s].made, i));
      return graph_.vectorize(src);
    case Kind::Zip:
      for (uint32_t i = 0; i < p.lanes.size(); ++i) src.push_back(lane(packs_[p.sources[i % 2]].made, i / 2));
      return graph_.vectorize(src);
    case Kind::Transposed: return transposed(p, 1, p.column);
    case Kind::Dot: return dot_products(p);
    case Kind::Blend: return packs_[p.sources[0]].made.where(packs_[p.sources[1]].made, packs_[p.sources[2]].made);
    case Kind::Shifted: return packs_[p.sources[0]].made + packs_[p.sources[1]].made;
  }
  return UOp();
}

UOp VectorPacker::transposed(const Pack& p, size_t distance, size_t at) {
  const size_t n = p.lanes.size();
  if (distance == n) return packs_[p.sources[at]].made;
  UOp low = transposed(p, distance * 2, at & ~distance), high = transposed(p, distance * 2, at | distance);
  std::vector<UOp> src;
  for (size_t i = 0; i < n; ++i) {
    const size_t from = (at & distance) != 0 ? i | distance : i & ~distance;
    src.push_back(lane((i & distance) != 0 ? high : low, static_cast<uint32_t>(from)));
  }
  return graph_.vectorize(src);
}

UOp VectorPacker::built(UOp u) const {
  UOp node = done_.get(u);
  if (!node) throw InternalError("a vector needs a " + std::string(to_string(u.op())) + " that is not built");
  return node;
}

UOp VectorPacker::address(UOp buffer, UOp idx, DType value) {
  DType type = buffer.dtype();
  type.count = value.count;
  return graph_.node(Op::Index, buffer.dtype(), {buffer, idx}).cast(type);
}

UOp VectorPacker::wide_load(const Pack& p, DType type) {
  UOp load = p.lanes[p.with_gate], buffer = built(load.src(0).src(0));
  Place place = p.place;
  if (place.root) place.root = done_.get(place.root);
  UOp at = address(buffer, place.index(p.index_type, graph_), type);
  src_.assign({at});
  if (p.gate) src_.insert(src_.end(), {packs_[p.sources[0]].made, packs_[*p.gate].made});
  if (waits(load)) src_.push_back(done_.get(load.src(1)));
  if (p.gate) return graph_.node(Op::Load, type, src_);
  UOp made =
      load.num_src() < 3
          ? graph_.node(Op::Load, type, src_)
          : graph_.node(Op::Load, type, {at, done_.get(load.src(1)).broadcast(type.count), done_.get(load.src(2))});
  if (!p.reversed) return made;
  Lanes lanes;
  for (int i = type.count; i-- > 0;) lanes.push_back(i);
  return graph_.node(Op::Gep, type, {made}, graph_.intern(std::move(lanes)));
}

UOp VectorPacker::rebuilt(UOp u) {
  if (Member m = member_.get(u); m.pack) return lane(packs_[m.pack - 1].made, m.lane);
  if (u.is(Op::Assign) && u.src(0).is(Op::DefineAcc))
    if (Member m = member_.get(u.src(0)); m.pack && assign_of_.get(u.src(0)) == u)
      return lane(packs_[assign_pack(m.pack - 1)].made, m.lane);
  if (const uint32_t wide = store_of_.get(u)) return wide_store(stores_[wide - 1]);
  src_.clear();
  for (UOp s : u.src()) {
    UOp made = done_.get(s);
    const bool is_list = u.is({Op::Sink, Op::Barrier});  // stores that became one stand there once
    if (!is_list || std::find(src_.begin(), src_.end(), made) == src_.end()) src_.push_back(made);
  }
  return src_.size() == u.num_src() && std::equal(src_.begin(), src_.end(), u.src().begin()) ? u : u.with_src(src_);
}

UOp VectorPacker::lane(UOp vector, uint32_t which) {
  return graph_.node(Op::Gep, vector.dtype().scalar_type(), {vector},
                     graph_.intern(Lanes{static_cast<int32_t>(which)}));
}

UOp VectorPacker::wide_store(const WideStore& wide) {
  UOp first = wide.members[0], value = packs_[wide.value].made;
  UOp at = done_.get(first.src(0));
  at = address(at.src(0), at.src(1), value.dtype());
  if (wide.gate) return graph_.node(Op::Store, Scalar::Void, {at, value, packs_[*wide.gate].made});
  if (first.num_src() > 2) return graph_.node(Op::Store, Scalar::Void, {at, value, done_.get(first.src(2))});
  return graph_.node(Op::Store, Scalar::Void, {at, value});
}

}  // namespace quern
