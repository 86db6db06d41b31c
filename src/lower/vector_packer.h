#pragma once
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "ir/graph.h"
#include "ir/node_map.h"
#include "lower/loops.h"
#include "target/target.h"

namespace quern {

inline constexpr size_t kMostPartial = 256;  ///< results of one reduce that are combined

inline constexpr OpSet kLanewise = kAluOps | OpSet{Op::Cast, Op::Bitcast};

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

struct LanesHash {
  size_t operator()(const std::vector<UOp>& lanes) const {
    size_t h = lanes.size();
    for (UOp u : lanes) h = h * 0x9E3779B97F4A7C15u + (u ? u.id() + 1 : 0);
    return h;
  }
};

/// One run of the stage: which lanes become vectors, what each vector is made of, and the graph with them.
class VectorPacker {
 public:
  VectorPacker(UOp sink, const Target& target) : graph_(sink.graph()), sink_(sink), target_(target) {
    nodes_ = toposort(sink);
  }
  UOp run();

 private:
  enum class Kind : uint8_t {
    Scalars,
    Splat,
    Load,
    Unzip,
    Zip,
    Transposed,
    Dot,
    Lanewise,
    Shifted,
    Blend,
    Accumulator,
    Assign
  };
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
    const DotProduct* dot = nullptr;  // Dot: its sources are what is added to, and two vectors an instruction
    size_t column = 0;                // Transposed: which of the square
    UOp like;                         // Lanewise: its op
    bool stored = false;              // Accumulator: its vector is asked for as it is
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
  };

  // pack_vectors.cpp: seeds

  int lanes_for(DType type) const { return target_.vector_bytes / std::max(4, type.itemsize()); }
  static int fewest_lanes(DType type) { return type.itemsize() >= 8 ? 2 : 4; }
  static bool is_plain_access(UOp u, Op op);

  /// The condition of a LOAD or STORE, empty if there is none.
  static UOp gate_of(UOp access) {
    if (access.num_src() < 3) return UOp();
    UOp gate = access.src(2);
    return gate.is(Op::If) ? gate.src(0) : gate;
  }

  /// A LOAD from scratch memory that is filled first.
  static bool waits(UOp load) { return load.is(Op::Load) && load.num_src() == 2 && load.src(1).is(Op::Barrier); }
  void seed_stores(std::vector<UOp> stores);
  /// Do the values come from accumulators that are no neighbours? Where a row of a tile ends, the next one may follow in memory.
  bool is_other_row(UOp value, UOp next) const;
  /// Accumulators that a value is computed from, up to `most` of those nearby.
  static std::vector<UOp> accumulators_in(UOp value, size_t most);
  static UOp accumulator_in(UOp value);
  /// Is the value made of several lanes of one reduce?
  static bool combines(UOp value);

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
  void seed_run(std::span<const UOp> run);
  /// Accumulators that no store led to: lanes of a reduce that is shared out among them.
  void seed_accumulators();
  void seed_accumulators(std::vector<UOp> free);
  /// What vectors of partial results are combined by: the same op on each lane of one and of another, from the first lane's users on.
  void seed_users();
  /// The nodes that are to each lane what `u` is to the first, if all of them are there.
  std::optional<std::vector<UOp>> same_in_all_lanes(UOp u, const NodeScratch<uint32_t>& led_by, size_t n);

  // pack_kinds.cpp: what each vector is made of
  PackId want(std::vector<UOp> lanes);
  void decide();

  /// Of all lanes that are needed.
  template <class Test>
  static bool all(std::span<const UOp> lanes, Test&& test) {
    return std::all_of(lanes.begin(), lanes.end(), [&](UOp u) { return !u || test(u); });
  }
  void decide(PackId id);
  static bool is_alike(UOp u, UOp other);
  /// What a lane could be computed with in one vector: loads from one run of elements, the same op.
  static bool goes_with(UOp u, size_t lane, UOp other, size_t other_lane);
  /// Lanes of a few sorts, where a mask begins or a row ends: a vector for those of the first sort, one for the rest.
  void decide_blend(PackId id, const std::vector<UOp>& lanes);
  /// A WHERE in some lanes, and in the others a value without condition: where a mask begins.
  bool decide_choice(PackId id, const std::vector<UOp>& lanes);
  /// Loads from consecutive elements, upwards or downwards; lanes that are known without their load count as gated off.
  bool decide_load(PackId id, const std::vector<UOp>& lanes);
  /// The column of a square of which rows stand in memory and other columns are wanted as well: rows are loaded, and the square is
  /// transposed in registers.
  bool decide_transposed(PackId id, const std::vector<UOp>& lanes);
  /// The program's load from the same buffer and root, at this offset; empty if there is none.
  UOp load_like(UOp load, int64_t offset);
  using Whereabouts = std::tuple<uint32_t, uint32_t, int64_t>;  // buffer, root, offset
  static Whereabouts whereabouts(UOp load);
  /// Loads of every other element: two vectors of which every other lane is needed.
  bool decide_unzip(PackId id, const std::vector<UOp>& lanes);
  /// Lanes that alternate between runs of loads: the even ones and the odd ones, zipped.
  bool decide_zip(PackId id, const std::vector<UOp>& lanes);
  /// Are lanes from the `ways`-th on loaded from right after what stands that many before?
  static bool is_woven(const std::vector<UOp>& lanes, size_t ways);
  /// An accumulator is a lane of one vector only: the first that wants it.
  bool decide_accumulator(PackId id, const std::vector<UOp>& lanes);
  void claim(PackId id);
  /// The same integer plus a constant in each lane, where a zero is left out.
  bool decide_shifted(PackId id, const std::vector<UOp>& lanes);

  // pack_dots.cpp: sums of products of narrow numbers
  struct Product {
    UOp shared, own;  // loads: the same one in all lanes, and another one in each
  };
  /// A sum of products, and of one term else.
  struct SumOfProducts {
    UOp addend;
    std::vector<Product> products;
  };
  bool decide_dot(PackId id, const std::vector<UOp>& lanes);
  bool decide_dot(PackId id, const std::vector<UOp>& lanes, const DotProduct& dot);
  static std::optional<SumOfProducts> sum_of_products(UOp sum, const DotProduct& dot);
  static bool put_shared_first(std::vector<SumOfProducts>& sums);
  UOp with_products(UOp sum, const Pack& p, UOp row);
  UOp with_excess(UOp sum, const Pack& p);
  UOp dot_products(const Pack& p);
  UOp accumulated_dots(const Pack& acc, const Pack& value);

  // pack_build.cpp: building

  /// What is built: a node of the graph, or a vector.
  struct Step {
    UOp node;
    PackId pack = 0;
    size_t next = 0;
  };
  void build();
  void advance(std::vector<Step>& stack);
  /// The ASSIGN of a vector is a pack of its own, so that it is built once.
  PackId assign_pack(PackId acc);
  std::optional<Step> source_of(UOp u, size_t i);
  static std::optional<Step> source_of_store(const WideStore& wide, size_t i);
  static std::optional<Step> one(size_t i, PackId pack) {
    return i == 0 ? std::optional(Step{UOp(), pack, 0}) : std::nullopt;
  }
  std::optional<Step> source_of(PackId id, size_t i);
  UOp made(PackId id);
  /// Vector `at` of a square after the step at `distance`. The first step is at half the square's side, each later one at half of that:
  /// of two vectors that far apart one gets the even stretches of that length of both, the other one the odd stretches.
  UOp transposed(const Pack& p, size_t distance, size_t at);
  /// What was built for a node, which must have been.
  UOp built(UOp u) const;
  UOp address(UOp buffer, UOp idx, DType value);
  UOp wide_load(const Pack& p, DType type);
  UOp rebuilt(UOp u);
  UOp lane(UOp vector, uint32_t which);
  UOp wide_store(const WideStore& wide);

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
  std::map<std::pair<std::vector<PackId>, uint32_t>, UOp>
      excess_;  // by columns of dot products, and the outermost loop
  size_t decided_ = 0;
  NodeScratch<UOp> done_;
  std::vector<UOp> src_;
};

}  // namespace quern
