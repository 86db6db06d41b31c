// Lanes that stand side by side in memory become vectors: from runs of stores backwards, the same op in each lane becomes one op on
// all of them, down to wide loads, constants, values that all lanes share, and accumulators. A vector may have lanes that nobody
// needs (an empty node): they get any value, and touch no memory.
#include "lower/lower.h"
#include "lower/vector_packer.h"

namespace quern {

UOp VectorPacker::run() {
  for (UOp u : nodes_)
    if (u.is(Op::Assign) && u.num_src() == 2 && u.src(0).is(Op::DefineAcc)) assign_of_.set(u.src(0), u);
  std::vector<UOp> stores;
  for (UOp u : nodes_)
    if (is_plain_access(u, Op::Store)) stores.push_back(u);
  seed_stores(std::move(stores));
  decide();
  seed_accumulators();
  decide();
  seed_users();
  decide();
  if (packs_.empty()) return sink_;
  build();
  return done_.get(sink_);
}

bool VectorPacker::is_plain_access(UOp u, Op op) {
  if (!u.is(op) || !u.src(0).is(Op::Index) || u.src(0).num_src() != 2) return false;
  if (u.src(0).src(0).dtype().is_image() || u.src(0).src(1).dtype().lanes() != 1) return false;
  UOp value = op == Op::Store ? u.src(1) : u;
  if (value.dtype().lanes() != 1) return false;
  if (u.num_src() == 1 || (op == Op::Store && u.num_src() == 2) || waits(u)) return true;
  if (u.num_src() != 3) return false;
  UOp gate = u.src(2);
  return gate.dtype().is_bool() || (gate.is(Op::If) && gate.num_src() == 1);
}

void VectorPacker::seed_stores(std::vector<UOp> stores) {
  auto where = [](UOp s) {
    Place p = Place::of(s.src(0).src(1));
    return std::tuple(s.src(0).src(0).id(), p.root ? p.root.id() + 1 : 0, static_cast<int>(s.src(1).dtype().scalar),
                      gate_of(s) ? 1 : 0, p.offset, s.id());
  };
  std::sort(stores.begin(), stores.end(), [&](UOp a, UOp b) { return where(a) < where(b); });
  auto follows = [&](UOp a, UOp b) {
    auto [buffer, root, scalar, gated, offset, id] = where(a);
    auto [buffer2, root2, scalar2, gated2, offset2, id2] = where(b);
    return std::tuple(buffer, root, scalar, gated, offset + 1) == std::tuple(buffer2, root2, scalar2, gated2, offset2);
  };
  for (size_t i = 0; i < stores.size();) {
    size_t end = i + 1;
    while (end < stores.size() && follows(stores[end - 1], stores[end]) &&
           !is_other_row(stores[end - 1].src(1), stores[end].src(1)))
      ++end;
    // What combines partial results has its vectors along those, unless all lanes have the same ones.
    const bool is_shared =
        end - i > 1 && accumulators_in(stores[i].src(1), 2) == accumulators_in(stores[i + 1].src(1), 2);
    if (is_shared || !combines(stores[i].src(1))) seed_run(std::span(stores).subspan(i, end - i));
    i = end;
  }
}

bool VectorPacker::is_other_row(UOp value, UOp next) const {
  UOp one = accumulator_in(value), two = accumulator_in(next);
  if (!one || !two || one == two) return false;
  const Lanes &a = *std::get<const Lanes*>(one.arg()), &b = *std::get<const Lanes*>(two.arg());
  return a.size() == 2 && b.size() == 2 && a[0] == b[0] && b[1] != a[1] + 1;
}

std::vector<UOp> VectorPacker::accumulators_in(UOp value, size_t most) {
  constexpr size_t kMostNodes = 8 * kMostPartial;
  std::vector<UOp> nodes{value}, found;
  for (size_t i = 0; i < nodes.size() && i < kMostNodes && found.size() < most; ++i) {
    UOp acc = nodes[i].is(Op::Assign) ? nodes[i].src(0) : nodes[i];
    if (acc.is(Op::DefineAcc)) {
      if (std::find(found.begin(), found.end(), acc) == found.end()) found.push_back(acc);
    } else if (nodes[i].is(kLanewise)) {
      nodes.insert(nodes.end(), nodes[i].src().begin(), nodes[i].src().end());
    }
  }
  return found;
}

UOp VectorPacker::accumulator_in(UOp value) {
  const std::vector<UOp> found = accumulators_in(value, 1);
  return found.empty() ? UOp() : found[0];
}

bool VectorPacker::combines(UOp value) {
  const std::vector<UOp> found = accumulators_in(value, 2);
  auto reduce = [](UOp acc) { return (*std::get<const Lanes*>(acc.arg()))[0]; };
  return found.size() == 2 && reduce(found[0]) == reduce(found[1]);
}

void VectorPacker::seed_run(std::span<const UOp> run) {
  cut(run, run[0].src(1).dtype(), [this](std::vector<UOp> members) {
    WideStore wide;
    std::vector<UOp> values, gates;
    bool masked = false;
    for (UOp s : members) {
      UOp gate = !s ? graph_.const_bool(false) : gate_of(s) ? gate_of(s) : graph_.const_bool(true);
      values.push_back(s ? s.src(1) : UOp());
      gates.push_back(gate);
      masked |= gate != gates[0];
      if (s) store_of_.set(s, static_cast<uint32_t>(stores_.size() + 1));
    }
    wide.value = want(std::move(values));
    if (masked) wide.gate = want(std::move(gates));
    wide.members = std::move(members);
    stores_.push_back(std::move(wide));
  });
}

void VectorPacker::seed_accumulators() {
  // First those that one value combines: other lanes of the same reduce are of other rows.
  for (UOp u : nodes_)
    if (u.is(Op::Store) && combines(u.src(1))) {
      seed_accumulators(accumulators_in(u.src(1), kMostPartial));
      decide();
    }
  std::vector<UOp> all;
  for (UOp u : nodes_)
    if (u.is(Op::DefineAcc)) all.push_back(u);
  seed_accumulators(std::move(all));
}

void VectorPacker::seed_accumulators(std::vector<UOp> free) {
  std::erase_if(free, [&](UOp u) { return member_.get(u).pack != 0 || !assign_of_.get(u); });
  auto number = [](UOp acc) { return *std::get<const Lanes*>(acc.arg()); };
  std::sort(free.begin(), free.end(), [&](UOp a, UOp b) { return number(a) < number(b); });
  for (size_t i = 0; i < free.size();) {
    size_t end = i + 1;
    while (end < free.size() && number(free[end])[0] == number(free[i])[0]) ++end;
    cut(std::span(free).subspan(i, end - i), free[i].dtype(),
        [this](std::vector<UOp> lanes) { want(std::move(lanes)); });
    i = end;
  }
}

void VectorPacker::seed_users() {
  NodeScratch<uint32_t> led_by;  // the vector, from 1, that a node is the first lane of
  std::vector<std::vector<UOp>> users;
  NodeScratch<uint32_t> users_of;
  std::vector<PackId> work;
  auto lead = [&](PackId id) {
    led_by.set(packs_[id].first, id + 1);
    users.emplace_back();
    users_of.set(packs_[id].first, static_cast<uint32_t>(users.size()));
    work.push_back(id);
  };
  for (PackId id = 0, n = static_cast<PackId>(packs_.size()); id < n; ++id)
    if (packs_[id].kind == Kind::Accumulator && !packs_[id].stored) lead(assign_pack(id));
  if (work.empty()) return;
  auto note_users = [&](UOp u) {
    for (UOp s : u.src())
      if (uint32_t at = users_of.get(s)) users[at - 1].push_back(u);
  };
  for (UOp u : nodes_) note_users(u);
  for (size_t i = 0; i < work.size(); ++i) {
    const std::vector<UOp> of_first = users[users_of.get(packs_[work[i]].first) - 1];
    for (UOp u : of_first) {
      std::optional<std::vector<UOp>> lanes = same_in_all_lanes(u, led_by, packs_[work[i]].lanes.size());
      if (!lanes) continue;
      bool taken = false;
      for (UOp lane : *lanes) taken |= lane && member_.get(lane).pack != 0;
      if (taken) continue;
      PackId id = want(*lanes);
      for (size_t lane = 0; lane < lanes->size(); ++lane)
        if ((*lanes)[lane]) member_.set((*lanes)[lane], Member{id + 1, static_cast<uint32_t>(lane)});
      decide();
      lead(id);
      for (UOp n : nodes_)
        if (std::find(n.src().begin(), n.src().end(), u) != n.src().end()) users.back().push_back(n);
    }
  }
}

std::optional<std::vector<UOp>> VectorPacker::same_in_all_lanes(UOp u, const NodeScratch<uint32_t>& led_by, size_t n) {
  if (!u.is(kLanewise) || u.dtype().is_ptr() || u.dtype().lanes() != 1) return {};
  for (UOp s : u.src()) {
    const uint32_t id = led_by.get(s);
    if (!s.is_const() && (id == 0 || packs_[id - 1].lanes.size() != n)) return {};
  }
  const size_t known = graph_.size();
  std::vector<UOp> lanes;
  for (size_t i = 0; i < n; ++i) {
    src_.clear();
    bool needed = true;
    for (UOp s : u.src()) {
      const uint32_t id = led_by.get(s);
      src_.push_back(id == 0 ? s : packs_[id - 1].lanes[i]);
      needed &= static_cast<bool>(src_.back());
    }
    UOp lane = needed ? graph_.node(u.op(), u.dtype(), src_, u.arg()) : UOp();
    if (lane && lane.id() >= known) return {};
    lanes.push_back(lane);
  }
  return lanes;
}

UOp pack_vectors(UOp legal, const Target& target) { return VectorPacker(legal, target).run(); }

}  // namespace quern
