// What each vector of the stage "pack vectors" is made of.
#include <array>
#include <cstdlib>

#include "lower/vector_packer.h"

namespace quern {

VectorPacker::PackId VectorPacker::want(std::vector<UOp> lanes) {
  auto [at, is_new] = known_.try_emplace(lanes, static_cast<PackId>(packs_.size()));
  if (is_new) {
    packs_.emplace_back();
    packs_.back().first = *std::find_if(lanes.begin(), lanes.end(), [](UOp u) { return static_cast<bool>(u); });
    packs_.back().lanes = std::move(lanes);
  }
  return at->second;
}

void VectorPacker::decide() {
  // What lanes share stays scalar, so a vector for each of its lanes is a program that has little in common: give up on it.
  const size_t most = 4 * nodes_.size() + 1000;
  for (; decided_ < packs_.size(); ++decided_)
    if (packs_.size() < most) decide(static_cast<PackId>(decided_));
}

void VectorPacker::decide(PackId id) {
  const std::vector<UOp> lanes = packs_[id].lanes;
  UOp first = packs_[id].first;
  if (all(lanes, [&](UOp u) { return u == first; })) {
    packs_[id].kind = Kind::Splat;
    return;
  }
  if (all(lanes, [](UOp u) { return u.is_const(); })) return;
  if (decide_load(id, lanes) || decide_transposed(id, lanes) || decide_unzip(id, lanes) || decide_zip(id, lanes) ||
      decide_accumulator(id, lanes) || decide_dot(id, lanes) || decide_shifted(id, lanes))
    return;
  if (decide_choice(id, lanes)) return;
  if (!first.is(kLanewise) || !all(lanes, [&](UOp u) { return is_alike(u, first); })) {
    decide_blend(id, lanes);
    return;
  }
  std::vector<std::vector<UOp>> operands(first.num_src());
  for (UOp u : lanes) {
    if (!u) {
      for (std::vector<UOp>& o : operands) o.emplace_back();
      continue;
    }
    // What commutes stands in an order of its own in each lane.
    const bool turned = is_commutative(u.op()) && u.src(0).op() != first.src(0).op() &&
                        u.src(1).op() == first.src(0).op() && u.src(0).dtype() == u.src(1).dtype();
    for (size_t i = 0; i < u.num_src(); ++i) operands[i].push_back(u.src(turned ? 1 - i : i));
  }
  std::vector<PackId> sources;
  sources.reserve(operands.size());
  for (std::vector<UOp>& o : operands) sources.push_back(want(std::move(o)));
  packs_[id].kind = Kind::Lanewise;
  packs_[id].like = first;
  packs_[id].sources = std::move(sources);
}

bool VectorPacker::is_alike(UOp u, UOp other) {
  if (u.op() != other.op() || u.dtype() != other.dtype() || u.num_src() != other.num_src()) return false;
  for (size_t i = 0; i < u.num_src(); ++i)
    if (u.src(i).dtype() != other.src(i).dtype()) return false;
  return true;
}

bool VectorPacker::goes_with(UOp u, size_t lane, UOp other, size_t other_lane) {
  if (!is_plain_access(u, Op::Load) || !is_plain_access(other, Op::Load)) return is_alike(u, other);
  Place a = Place::of(u.src(0).src(1)), b = Place::of(other.src(0).src(1));
  return u.src(0).src(0) == other.src(0).src(0) && a.root == b.root &&
         a.offset - b.offset == static_cast<int64_t>(lane) - static_cast<int64_t>(other_lane);
}

void VectorPacker::decide_blend(PackId id, const std::vector<UOp>& lanes) {
  constexpr size_t kMostSorts = 4;
  std::vector<size_t> sorts;  // a lane of each
  std::vector<UOp> own(lanes.size()), rest(lanes.size());
  std::vector<UOp> mask;
  size_t vectors = 0;
  for (size_t i = 0; i < lanes.size(); ++i) {
    mask.push_back(graph_.const_bool(false));
    if (!lanes[i]) continue;
    auto same = [&](size_t j) { return goes_with(lanes[i], i, lanes[j], j); };
    auto sort = std::find_if(sorts.begin(), sorts.end(), same);
    if (sort == sorts.end()) {
      if (sorts.size() == kMostSorts || lanes[i].is({Op::DefineAcc, Op::Assign, Op::Gep})) return;
      if (lanes[i].is(kLanewise) || is_plain_access(lanes[i], Op::Load)) ++vectors;
      sorts.push_back(i);
      sort = sorts.end() - 1;
    }
    const bool is_first = sort == sorts.begin();
    (is_first ? own : rest)[i] = lanes[i];
    if (is_first) mask[i] = graph_.const_bool(true);
  }
  if (sorts.size() < 2 || vectors == 0 || sorts.size() * 4 > lanes.size()) return;
  PackId condition = want(std::move(mask)), yes = want(std::move(own)), no = want(std::move(rest));
  packs_[id].kind = Kind::Blend;
  packs_[id].sources = {condition, yes, no};
}

bool VectorPacker::decide_choice(PackId id, const std::vector<UOp>& lanes) {
  auto chooses = [](UOp u) { return u && u.is(Op::Where); };
  const auto choice = std::find_if(lanes.begin(), lanes.end(), chooses);
  if (choice == lanes.end() || all(lanes, chooses)) return false;
  if (!all(lanes, [&](UOp u) { return u.dtype() == choice->dtype(); })) return false;
  std::vector<UOp> conditions, values, others;
  for (UOp u : lanes) {
    conditions.push_back(!u ? u : chooses(u) ? u.src(0) : graph_.const_bool(true));
    values.push_back(chooses(u) ? u.src(1) : u);
    others.push_back(!u ? u : (chooses(u) ? u : *choice).src(2));
  }
  PackId condition = want(std::move(conditions)), value = want(std::move(values)), other = want(std::move(others));
  packs_[id].kind = Kind::Lanewise;
  packs_[id].like = *choice;
  packs_[id].sources = {condition, value, other};
  return true;
}

bool VectorPacker::decide_load(PackId id, const std::vector<UOp>& lanes) {
  std::optional<size_t> reference;
  size_t loads = 0;
  size_t needed = 0;
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (!lanes[i]) continue;
    ++needed;
    if (is_plain_access(lanes[i], Op::Load)) {
      if (!reference) reference = i;
      ++loads;
    } else if (!lanes[i].is_const()) {
      return false;
    }
  }
  if (!reference || 2 * loads < needed) return false;
  UOp one = lanes[*reference];
  Place place = Place::of(one.src(0).src(1));
  std::optional<int64_t> step;
  bool same_gate = loads == lanes.size();
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (!lanes[i] || lanes[i].is_const()) continue;
    Place at = Place::of(lanes[i].src(0).src(1));
    if (lanes[i].src(0).src(0) != one.src(0).src(0) || at.root != place.root ||
        lanes[i].src(0).src(1).dtype() != one.src(0).src(1).dtype())
      return false;
    same_gate &= gate_of(lanes[i]) == gate_of(one) && (lanes[i].num_src() < 3 || lanes[i].src(1) == one.src(1));
    if (i == *reference) continue;
    const auto distance = static_cast<int64_t>(i) - static_cast<int64_t>(*reference);
    if (!step) step = at.offset - place.offset == distance ? 1 : -1;
    if (at.offset - place.offset != *step * distance) return false;
  }
  if (!step) step = 1;  // one load, masked
  if (*step < 0 && !same_gate) return false;
  Pack& pack = packs_[id];
  pack.kind = Kind::Load;
  pack.with_gate = *reference;
  pack.reversed = *step < 0;
  pack.index_type = one.src(0).src(1).dtype();
  const auto last = static_cast<int64_t>(lanes.size()) - 1;
  place.offset += pack.reversed ? static_cast<int64_t>(*reference) - last : -static_cast<int64_t>(*reference);
  pack.place = place;
  if (same_gate) return true;
  std::vector<UOp> gates, others;
  for (UOp u : lanes) {
    const bool loads_here = u && !u.is_const();
    UOp gate = loads_here ? gate_of(u) : graph_.const_bool(false);
    gates.push_back(gate ? gate : graph_.const_bool(true));
    others.push_back(!u ? u : !loads_here ? u : u.num_src() < 3 ? graph_.constant(u.dtype(), 0) : u.src(1));
  }
  PackId gate = want(std::move(gates)), other = want(std::move(others));
  packs_[id].gate = gate;
  packs_[id].sources = {other};
  return true;
}

bool VectorPacker::decide_transposed(PackId id, const std::vector<UOp>& lanes) {
  const size_t n = lanes.size();
  if (n < 4 || !std::ranges::all_of(lanes, [](UOp u) { return u && is_plain_access(u, Op::Load) && !gate_of(u); }))
    return false;
  const Place first = Place::of(lanes[0].src(0).src(1));
  const int64_t step = Place::of(lanes[1].src(0).src(1)).offset - first.offset;
  if (std::abs(step) < static_cast<int64_t>(n)) return false;
  for (size_t i = 0; i < n; ++i) {
    const Place at = Place::of(lanes[i].src(0).src(1));
    if (lanes[i].src(0).src(0) != lanes[0].src(0).src(0) || at.root != first.root ||
        at.offset != first.offset + static_cast<int64_t>(i) * step)
      return false;
  }
  // The square's rows: where the run of loads that the first lane is in can be cut into them.
  int64_t start = first.offset;
  while (load_like(lanes[0], start - 1)) --start;
  start += (first.offset - start) / static_cast<int64_t>(n) * static_cast<int64_t>(n);
  std::vector<std::vector<UOp>> rows(n);
  for (size_t row = 0; row < n; ++row)
    for (size_t k = 0; k < n; ++k) {
      UOp load = load_like(lanes[row], start + static_cast<int64_t>(row) * step + static_cast<int64_t>(k));
      if (!load) return false;
      rows[row].push_back(load);
    }
  std::vector<PackId> sources;
  for (std::vector<UOp>& row : rows) sources.push_back(want(std::move(row)));
  packs_[id].kind = Kind::Transposed;
  packs_[id].sources = std::move(sources);
  packs_[id].column = static_cast<size_t>(first.offset - start);
  return true;
}

UOp VectorPacker::load_like(UOp load, int64_t offset) {
  if (loads_.empty())
    for (UOp u : nodes_)
      if (is_plain_access(u, Op::Load) && !gate_of(u)) loads_.emplace(whereabouts(u), u);
  auto where = whereabouts(load);
  std::get<2>(where) = offset;
  const auto found = loads_.find(where);
  return found == loads_.end() ? UOp() : found->second;
}

VectorPacker::Whereabouts VectorPacker::whereabouts(UOp load) {
  const Place at = Place::of(load.src(0).src(1));
  return {load.src(0).src(0).id(), at.root ? at.root.id() + 1 : 0, at.offset};
}

bool VectorPacker::decide_unzip(PackId id, const std::vector<UOp>& lanes) {
  const size_t n = lanes.size();
  std::optional<size_t> reference;
  for (size_t i = 0; i < n; ++i) {
    if (!lanes[i] || lanes[i].is_const()) continue;
    if (!is_plain_access(lanes[i], Op::Load)) return false;
    if (!reference) reference = i;
    Place a = Place::of(lanes[i].src(0).src(1)), b = Place::of(lanes[*reference].src(0).src(1));
    if (lanes[i].src(0).src(0) != lanes[*reference].src(0).src(0) || a.root != b.root ||
        a.offset - b.offset != 2 * static_cast<int64_t>(i - *reference))
      return false;
  }
  if (!reference || std::count_if(lanes.begin(), lanes.end(), [](UOp u) { return u && u.is(Op::Load); }) < 4)
    return false;
  std::array<std::vector<UOp>, 2> halves;
  for (size_t i = 0; i < n; ++i) {
    halves[2 * i / n].push_back(lanes[i]);
    halves[2 * i / n].emplace_back();
  }
  auto is_needed = [](UOp u) { return static_cast<bool>(u); };
  if (!std::ranges::all_of(halves, [&](const auto& h) { return std::ranges::any_of(h, is_needed); })) return false;
  PackId low = want(std::move(halves[0])), high = want(std::move(halves[1]));
  packs_[id].kind = Kind::Unzip;
  packs_[id].sources = {low, high};
  return true;
}

bool VectorPacker::is_woven(const std::vector<UOp>& lanes, size_t ways) {
  if (lanes.size() < 2 * ways || lanes.size() % ways != 0) return false;
  if (!std::ranges::all_of(lanes, [](UOp u) { return u && is_plain_access(u, Op::Load) && !gate_of(u); })) return false;
  for (size_t i = ways; i < lanes.size(); ++i) {
    UOp before = lanes[i - ways].src(0), here = lanes[i].src(0);
    const Place a = Place::of(before.src(1)), b = Place::of(here.src(1));
    if (before.src(0) != here.src(0) || a.root != b.root || b.offset != a.offset + 1) return false;
  }
  return true;
}

bool VectorPacker::decide_zip(PackId id, const std::vector<UOp>& lanes) {
  if (!is_woven(lanes, 2) && !is_woven(lanes, 4)) return false;
  std::array<std::vector<UOp>, 2> halves;
  for (size_t i = 0; i < lanes.size(); ++i) halves[i % 2].push_back(lanes[i]);
  PackId even = want(std::move(halves[0])), odd = want(std::move(halves[1]));
  packs_[id].kind = Kind::Zip;
  packs_[id].sources = {even, odd};
  return true;
}

bool VectorPacker::decide_accumulator(PackId id, const std::vector<UOp>& lanes) {
  if (packs_[id].first.is(Op::Assign)) {
    std::vector<UOp> accs;
    for (UOp u : lanes) {
      if (!u) {
        accs.emplace_back();
        continue;
      }
      if (!u.is(Op::Assign) || u.num_src() != 2 || assign_of_.get(u.src(0)) != u) return false;
      accs.push_back(u.src(0));
    }
    PackId acc = want(accs);
    claim(acc);
    if (packs_[acc].kind != Kind::Accumulator) return false;
    packs_[id].kind = Kind::Assign;
    packs_[id].sources = {acc};
    packs_[acc].stored = true;
    return true;
  }
  if (!packs_[id].first.is(Op::DefineAcc)) return false;
  claim(id);
  return packs_[id].kind == Kind::Accumulator;
}

void VectorPacker::claim(PackId id) {
  if (packs_[id].kind == Kind::Accumulator) return;
  const std::vector<UOp> lanes = packs_[id].lanes;
  UOp first = packs_[id].first;
  std::vector<UOp> starts, next;
  for (size_t i = 0; i < lanes.size(); ++i) {
    UOp u = lanes[i];
    if (!u) {
      starts.emplace_back();
      next.emplace_back();
      continue;
    }
    if (!u.is(Op::DefineAcc) || member_.get(u).pack || !assign_of_.get(u)) return;
    if (u.dtype() != first.dtype() || !std::ranges::equal(loops_of(u), loops_of(first))) return;
    if (std::find(lanes.begin(), lanes.begin() + static_cast<std::ptrdiff_t>(i), u) !=
        lanes.begin() + static_cast<std::ptrdiff_t>(i))
      return;
    starts.push_back(u.src(0));
    next.push_back(assign_of_.get(u).src(1));
  }
  for (size_t i = 0; i < lanes.size(); ++i)
    if (lanes[i]) member_.set(lanes[i], Member{id + 1, static_cast<uint32_t>(i)});
  PackId start = want(std::move(starts)), value = want(std::move(next));
  packs_[id].kind = Kind::Accumulator;
  packs_[id].sources = {start, value};
}

bool VectorPacker::decide_shifted(PackId id, const std::vector<UOp>& lanes) {
  const DType type = packs_[id].first.dtype();
  if (!type.is_int() || !all(lanes, [&](UOp u) { return u.dtype() == type; })) return false;
  Place first = Place::of(packs_[id].first);
  if (!first.root) return false;
  std::vector<UOp> offsets;
  for (UOp u : lanes) {
    if (!u) {
      offsets.emplace_back();
      continue;
    }
    Place p = Place::of(u);
    if (p.root != first.root) return false;
    offsets.push_back(graph_.const_int(type, p.offset));
  }
  PackId root = want(std::vector<UOp>(lanes.size(), first.root)), offset = want(std::move(offsets));
  packs_[id].kind = Kind::Shifted;
  packs_[id].sources = {root, offset};
  return true;
}

}  // namespace quern
