// Lanes that stand side by side in memory become vectors: from runs of stores backwards, the same op in each lane becomes one op on
// all of them, down to wide loads, constants, values that all lanes share, and accumulators. A vector may have lanes that nobody
// needs (an empty node): they get any value, and touch no memory.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "ir/graph.h"
#include "ir/node_map.h"
#include "lower/loops.h"
#include "lower/lower.h"

namespace quern {

namespace {

constexpr size_t kMostPartial = 256;  ///< results of one reduce that are combined

constexpr OpSet kLanewise = kAluOps | OpSet{Op::Cast, Op::Bitcast};

/// root + offset.
struct Place {
  UOp root;  ///< empty for a constant
  int64_t offset = 0;

  static Place of(UOp idx) {
    if (idx.is_const()) return {UOp(), static_cast<int64_t>(idx.const_int())};
    if (idx.is(Op::Add) && idx.src(1).is_const()) return {idx.src(0), static_cast<int64_t>(idx.src(1).const_int())};
    return {idx, 0};
  }
  UOp index(DType type, Graph& graph) const {
    if (!root) return graph.const_int(type, offset);
    return offset == 0 ? root : root + offset;
  }
};

/// The condition of a LOAD or STORE, empty if there is none.
UOp gate_of(UOp access) {
  if (access.num_src() < 3) return UOp();
  UOp gate = access.src(2);
  return gate.is(Op::If) ? gate.src(0) : gate;
}

struct LanesHash {
  size_t operator()(const std::vector<UOp>& lanes) const {
    size_t h = lanes.size();
    for (UOp u : lanes) h = h * 0x9E3779B97F4A7C15u + (u ? u.id() + 1 : 0);
    return h;
  }
};

class VectorPacker {
 public:
  VectorPacker(UOp sink, const Target& target) : graph_(sink.graph()), sink_(sink), target_(target) {
    nodes_ = toposort(sink);
  }

  UOp run() {
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

 private:
  enum class Kind : uint8_t { Scalars, Splat, Load, Unzip, Transposed, Lanewise, Shifted, Blend, Accumulator, Assign };
  using PackId = uint32_t;
  struct Pack {
    std::vector<UOp> lanes;
    UOp first;  // the first lane that is needed
    Kind kind = Kind::Scalars;
    std::vector<PackId> sources;
    std::optional<PackId> gate;  // a gate a lane
    size_t with_gate = 0;        // Load: a lane that is a LOAD, for its shared gate
    Place place;                 // Load: of the first lane
    DType index_type;
    bool reversed = false;
    size_t column = 0;    // Transposed: which of the square
    UOp like;             // Lanewise: its op
    bool stored = false;  // Accumulator: its vector is asked for as it is
    UOp made;
  };
  struct Member {
    uint32_t pack = 0;  // from 1
    uint32_t lane = 0;
  };
  struct WideStore {
    std::vector<UOp> members;  // at consecutive elements; those past the end are empty
    PackId value = 0;
    std::optional<PackId> gate;
    UOp made;
  };

  // --- seeds ---

  int lanes_for(DType type) const { return target_.vector_bytes / std::max(4, type.itemsize()); }
  static int fewest_lanes(DType type) { return type.itemsize() >= 8 ? 2 : 4; }

  static bool is_plain_access(UOp u, Op op) {
    if (!u.is(op) || !u.src(0).is(Op::Index) || u.src(0).num_src() != 2) return false;
    if (u.src(0).src(0).dtype().is_image() || u.src(0).src(1).dtype().lanes() != 1) return false;
    UOp value = op == Op::Store ? u.src(1) : u;
    if (value.dtype().lanes() != 1) return false;
    if (u.num_src() == 1 || (op == Op::Store && u.num_src() == 2) || waits(u)) return true;
    if (u.num_src() != 3) return false;
    UOp gate = u.src(2);
    return gate.dtype().is_bool() || (gate.is(Op::If) && gate.num_src() == 1);
  }

  /// A LOAD from scratch memory that is filled first.
  static bool waits(UOp load) { return load.is(Op::Load) && load.num_src() == 2 && load.src(1).is(Op::Barrier); }

  void seed_stores(std::vector<UOp> stores) {
    auto where = [](UOp s) {
      Place p = Place::of(s.src(0).src(1));
      return std::tuple(s.src(0).src(0).id(), p.root ? p.root.id() + 1 : 0, static_cast<int>(s.src(1).dtype().scalar),
                        gate_of(s) ? 1 : 0, p.offset, s.id());
    };
    std::sort(stores.begin(), stores.end(), [&](UOp a, UOp b) { return where(a) < where(b); });
    auto follows = [&](UOp a, UOp b) {
      auto [buffer, root, scalar, gated, offset, id] = where(a);
      auto [buffer2, root2, scalar2, gated2, offset2, id2] = where(b);
      return std::tuple(buffer, root, scalar, gated, offset + 1) ==
             std::tuple(buffer2, root2, scalar2, gated2, offset2);
    };
    for (size_t i = 0; i < stores.size();) {
      size_t end = i + 1;
      while (end < stores.size() && follows(stores[end - 1], stores[end]) &&
             !is_other_row(stores[end - 1].src(1), stores[end].src(1)))
        ++end;
      // What combines partial results has its vectors along those.
      if (!combines(stores[i].src(1))) seed_run(std::span(stores).subspan(i, end - i));
      i = end;
    }
  }

  /// Do the values come from accumulators that are no neighbours? Where a row of a tile ends, the next one may follow in memory.
  bool is_other_row(UOp value, UOp next) const {
    UOp one = accumulator_in(value), two = accumulator_in(next);
    if (!one || !two) return false;
    const Lanes &a = *std::get<const Lanes*>(one.arg()), &b = *std::get<const Lanes*>(two.arg());
    return a.size() == 2 && b.size() == 2 && a[0] == b[0] && b[1] != a[1] + 1;
  }

  /// Accumulators that a value is computed from, up to `most` of those nearby.
  static std::vector<UOp> accumulators_in(UOp value, size_t most) {
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
  static UOp accumulator_in(UOp value) {
    const std::vector<UOp> found = accumulators_in(value, 1);
    return found.empty() ? UOp() : found[0];
  }

  /// Is the value made of several lanes of one reduce?
  static bool combines(UOp value) {
    const std::vector<UOp> found = accumulators_in(value, 2);
    auto reduce = [](UOp acc) { return (*std::get<const Lanes*>(acc.arg()))[0]; };
    return found.size() == 2 && reduce(found[0]) == reduce(found[1]);
  }

  /// Cuts a run into vectors, the last of which may be longer than what is left. What is too short for a vector stays as it is.
  template <class Take>
  void cut(std::span<const UOp> run, DType type, Take&& take) const {
    for (size_t done = 0; done < run.size();) {
      auto n = static_cast<size_t>(lanes_for(type));
      const size_t left = run.size() - done, fewest = static_cast<size_t>(fewest_lanes(type));
      while (n / 2 >= std::max(left, fewest)) n /= 2;
      if (2 * left <= n) return;
      std::vector<UOp> part(run.begin() + static_cast<std::ptrdiff_t>(done),
                            run.begin() + static_cast<std::ptrdiff_t>(done + std::min(n, left)));
      part.resize(n);
      take(std::move(part));
      done += n;
    }
  }

  void seed_run(std::span<const UOp> run) {
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

  /// Accumulators that no store led to: lanes of a reduce that is shared out among them.
  void seed_accumulators() {
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

  void seed_accumulators(std::vector<UOp> free) {
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

  /// What vectors of partial results are combined by: the same op on each lane of one and of another, from the first lane's users on.
  void seed_users() {
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

  /// The nodes that are to each lane what `u` is to the first, if all of them are there.
  std::optional<std::vector<UOp>> same_in_all_lanes(UOp u, const NodeScratch<uint32_t>& led_by, size_t n) {
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

  // --- what each vector is made of ---

  PackId want(std::vector<UOp> lanes) {
    auto [at, is_new] = known_.try_emplace(lanes, static_cast<PackId>(packs_.size()));
    if (is_new) {
      packs_.emplace_back();
      packs_.back().first = *std::find_if(lanes.begin(), lanes.end(), [](UOp u) { return static_cast<bool>(u); });
      packs_.back().lanes = std::move(lanes);
    }
    return at->second;
  }

  void decide() {
    // What lanes share stays scalar, so a vector for each of its lanes is a program that has little in common: give up on it.
    const size_t most = 4 * nodes_.size() + 1000;
    for (; decided_ < packs_.size(); ++decided_)
      if (packs_.size() < most) decide(static_cast<PackId>(decided_));
  }

  /// Of all lanes that are needed.
  template <class Test>
  static bool all(std::span<const UOp> lanes, Test&& test) {
    return std::all_of(lanes.begin(), lanes.end(), [&](UOp u) { return !u || test(u); });
  }

  void decide(PackId id) {
    const std::vector<UOp> lanes = packs_[id].lanes;
    UOp first = packs_[id].first;
    if (all(lanes, [&](UOp u) { return u == first; })) {
      packs_[id].kind = Kind::Splat;
      return;
    }
    if (all(lanes, [](UOp u) { return u.is_const(); })) return;
    if (decide_load(id, lanes) || decide_transposed(id, lanes) || decide_unzip(id, lanes) ||
        decide_accumulator(id, lanes) || decide_shifted(id, lanes))
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

  static bool is_alike(UOp u, UOp other) {
    if (u.op() != other.op() || u.dtype() != other.dtype() || u.num_src() != other.num_src()) return false;
    for (size_t i = 0; i < u.num_src(); ++i)
      if (u.src(i).dtype() != other.src(i).dtype()) return false;
    return true;
  }

  /// What a lane could be computed with in one vector: loads from one run of elements, the same op.
  static bool goes_with(UOp u, size_t lane, UOp other, size_t other_lane) {
    if (!is_plain_access(u, Op::Load) || !is_plain_access(other, Op::Load)) return is_alike(u, other);
    Place a = Place::of(u.src(0).src(1)), b = Place::of(other.src(0).src(1));
    return u.src(0).src(0) == other.src(0).src(0) && a.root == b.root &&
           a.offset - b.offset == static_cast<int64_t>(lane) - static_cast<int64_t>(other_lane);
  }

  /// Lanes of a few sorts, where a mask begins or a row ends: a vector for those of the first sort, one for the rest.
  void decide_blend(PackId id, const std::vector<UOp>& lanes) {
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

  /// A WHERE in some lanes, and in the others a value without condition: where a mask begins.
  bool decide_choice(PackId id, const std::vector<UOp>& lanes) {
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

  /// Loads from consecutive elements, upwards or downwards; lanes that are known without their load count as gated off.
  bool decide_load(PackId id, const std::vector<UOp>& lanes) {
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

  /// The column of a square of which rows stand in memory and other columns are wanted as well: rows are loaded, and the square is
  /// transposed in registers.
  bool decide_transposed(PackId id, const std::vector<UOp>& lanes) {
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

  /// The program's load from the same buffer and root, at this offset; empty if there is none.
  UOp load_like(UOp load, int64_t offset) {
    if (loads_.empty())
      for (UOp u : nodes_)
        if (is_plain_access(u, Op::Load) && !gate_of(u)) loads_.emplace(whereabouts(u), u);
    auto where = whereabouts(load);
    std::get<2>(where) = offset;
    const auto found = loads_.find(where);
    return found == loads_.end() ? UOp() : found->second;
  }
  using Whereabouts = std::tuple<uint32_t, uint32_t, int64_t>;  // buffer, root, offset
  static Whereabouts whereabouts(UOp load) {
    const Place at = Place::of(load.src(0).src(1));
    return {load.src(0).src(0).id(), at.root ? at.root.id() + 1 : 0, at.offset};
  }

  /// Loads of every other element: two vectors of which every other lane is needed.
  bool decide_unzip(PackId id, const std::vector<UOp>& lanes) {
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

  /// An accumulator is a lane of one vector only: the first that wants it.
  bool decide_accumulator(PackId id, const std::vector<UOp>& lanes) {
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

  void claim(PackId id) {
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

  /// The same integer plus a constant in each lane, where a zero is left out.
  bool decide_shifted(PackId id, const std::vector<UOp>& lanes) {
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

  // --- building ---

  /// What is built: a node of the graph, or a vector.
  struct Step {
    UOp node;
    PackId pack = 0;
    size_t next = 0;
  };

  void build() {
    std::vector<Step> stack{{sink_, 0, 0}};
    while (!stack.empty()) advance(stack);
  }

  void advance(std::vector<Step>& stack) {
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

  /// The ASSIGN of a vector is a pack of its own, so that it is built once.
  PackId assign_pack(PackId acc) {
    std::vector<UOp> lanes;
    for (UOp u : packs_[acc].lanes) lanes.push_back(u ? assign_of_.get(u) : UOp());
    PackId id = want(std::move(lanes));
    packs_[id].kind = Kind::Assign;
    packs_[id].sources = {acc};
    return id;
  }

  std::optional<Step> source_of(UOp u, size_t i) {
    if (Member m = member_.get(u); m.pack) return one(i, m.pack - 1);
    if (u.is(Op::Assign) && u.src(0).is(Op::DefineAcc))
      if (Member m = member_.get(u.src(0)); m.pack && assign_of_.get(u.src(0)) == u)
        return one(i, assign_pack(m.pack - 1));
    if (const uint32_t wide = store_of_.get(u)) return source_of_store(stores_[wide - 1], i);
    if (i < u.num_src()) return Step{u.src(i), 0, 0};
    return {};
  }
  static std::optional<Step> source_of_store(const WideStore& wide, size_t i) {
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
  static std::optional<Step> one(size_t i, PackId pack) {
    return i == 0 ? std::optional(Step{UOp(), pack, 0}) : std::nullopt;
  }

  std::optional<Step> source_of(PackId id, size_t i) {
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
      case Kind::Transposed:
      case Kind::Lanewise:
      case Kind::Blend:
      case Kind::Shifted: return i < p.sources.size() ? pack(p.sources[i]) : std::nullopt;
    }
    return {};
  }

  UOp made(PackId id) {
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
      case Kind::Assign:
        return graph_.node(Op::Assign, type, {packs_[p.sources[0]].made, packs_[packs_[p.sources[0]].sources[1]].made});
      case Kind::Lanewise:
        for (PackId s : p.sources) src.push_back(packs_[s].made);
        return graph_.node(p.like.op(), type, src, p.like.arg());
      case Kind::Unzip:
        for (PackId s : p.sources)
          for (uint32_t i = 0; i < p.lanes.size(); i += 2) src.push_back(lane(packs_[s].made, i));
        return graph_.vectorize(src);
      case Kind::Transposed: return transposed(p, 1, p.column);
      case Kind::Blend: return packs_[p.sources[0]].made.where(packs_[p.sources[1]].made, packs_[p.sources[2]].made);
      case Kind::Shifted: return packs_[p.sources[0]].made + packs_[p.sources[1]].made;
    }
    return UOp();
  }

  /// Vector `at` of a square after the step at `distance`. The first step is at half the square's side, each later one at half of that:
  /// of two vectors that far apart one gets the even stretches of that length of both, the other one the odd stretches.
  UOp transposed(const Pack& p, size_t distance, size_t at) {
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

  UOp address(UOp buffer, UOp idx, DType value) {
    DType type = buffer.dtype();
    type.count = value.count;
    return graph_.node(Op::Index, buffer.dtype(), {buffer, idx}).cast(type);
  }

  UOp wide_load(const Pack& p, DType type) {
    UOp load = p.lanes[p.with_gate], buffer = done_.get(load.src(0).src(0));
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

  UOp rebuilt(UOp u) {
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
  UOp lane(UOp vector, uint32_t which) {
    return graph_.node(Op::Gep, vector.dtype().scalar_type(), {vector},
                       graph_.intern(Lanes{static_cast<int32_t>(which)}));
  }

  UOp wide_store(const WideStore& wide) {
    UOp first = wide.members[0], value = packs_[wide.value].made;
    UOp at = done_.get(first.src(0));
    at = address(at.src(0), at.src(1), value.dtype());
    if (wide.gate) return graph_.node(Op::Store, Scalar::Void, {at, value, packs_[*wide.gate].made});
    if (first.num_src() > 2) return graph_.node(Op::Store, Scalar::Void, {at, value, done_.get(first.src(2))});
    return graph_.node(Op::Store, Scalar::Void, {at, value});
  }

  Graph& graph_;
  UOp sink_;
  const Target& target_;
  std::vector<UOp> nodes_;
  std::vector<WideStore> stores_;
  NodeScratch<uint32_t> store_of_;  // in stores_, from 1
  NodeScratch<UOp> assign_of_;      // of an accumulator
  NodeScratch<Member> member_;      // of an accumulator, and of what partial results are combined by
  std::vector<Pack> packs_;
  std::map<Whereabouts, UOp> loads_;  // without gates
  std::unordered_map<std::vector<UOp>, PackId, LanesHash> known_;
  size_t decided_ = 0;
  NodeScratch<UOp> done_;
  std::vector<UOp> src_;
};

}  // namespace

UOp pack_vectors(UOp legal, const Target& target) { return VectorPacker(legal, target).run(); }

}  // namespace quern
