// The operands of each tensor core stand in the lanes and registers where its instruction is documented to take them: the formulas
// below are the vendors', and the code checked is what the optimizer and lowering make of a matmul of one tile.
#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "evaluate.h"
#include "kernels.h"
#include "target/target.h"

namespace quern {
namespace {

using namespace test;

struct Place {
  int row, column;
};
/// Which element of a matrix element `i` of the vector of lane `lane` is.
using Layout = Place (*)(int lane, int i);
struct Documented {
  Layout a, b, c;
};

// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type": groupID = lane >> 2, threadID_in_group = lane % 4.
// A: row = groupID for i in 0, 1, 4, 5, else groupID + 8; col = threadID_in_group * 2 + (i & 1), + 8 from i = 4 on.
// B: row = threadID_in_group * 2 + (i & 1), + 8 from i = 2 on; col = groupID.
// C: row = groupID, + 8 from i = 2 on; col = threadID_in_group * 2 + (i & 1).
Place cuda_c(int lane, int i) { return {(lane >> 2) + (i < 2 ? 0 : 8), (lane % 4) * 2 + (i & 1)}; }
constexpr Documented kMmaM16N8K16 = {
    [](int lane, int i) {
      return Place{(lane >> 2) + (i % 4 < 2 ? 0 : 8), (lane % 4) * 2 + (i & 1) + (i < 4 ? 0 : 8)};
    },
    [](int lane, int i) { return Place{(lane % 4) * 2 + (i & 1) + (i < 2 ? 0 : 8), lane >> 2}; }, cuda_c};

// PTX ISA, "Matrix Fragments for mma.m16n8k8", .tf32. A: row = groupID for i in 0, 2, else groupID + 8; col = threadID_in_group, + 4
// from i = 2 on. B: row = threadID_in_group, + 4 for i = 1; col = groupID. C as above.
constexpr Documented kMmaM16N8K8 = {
    [](int lane, int i) { return Place{(lane >> 2) + (i % 2 == 0 ? 0 : 8), lane % 4 + (i < 2 ? 0 : 4)}; },
    [](int lane, int i) { return Place{lane % 4 + (i == 0 ? 0 : 4), lane >> 2}; }, cuda_c};

// AMD, "RDNA3 Instruction Set Architecture", WMMA, and GPUOpen, "How to accelerate AI applications on RDNA 3 using WMMA", waves of
// 32: lane l holds row l % 16 of A and column l % 16 of B, whole; of D element i is row 2 i + l / 16, column l % 16.
constexpr Documented kRdna3 = {[](int lane, int i) { return Place{lane % 16, i}; },
                               [](int lane, int i) { return Place{i, lane % 16}; },
                               [](int lane, int i) { return Place{2 * i + lane / 16, lane % 16}; }};

// Apple's MLX, mlx/backend/metal/kernels/steel/gemm/mma.h, BaseMMAFrag<T, 8, 8>::get_coord: qid = lane / 4;
// row = (qid & 4) + (lane / 2) % 4; column = (qid & 2) * 2 + (lane % 2) * 2, and the next.
Place simdgroup_8x8(int lane, int i) {
  const int qid = lane / 4;
  return {(qid & 4) + (lane / 2) % 4, (qid & 2) * 2 + (lane % 2) * 2 + i};
}
constexpr Documented kSimdgroup8x8 = {simdgroup_8x8, simdgroup_8x8, simdgroup_8x8};

// Khronos registry, cl_intel_subgroup_matrix_multiply_accumulate, sub-groups of 8, K = 16: int m of a work item's A is row m,
// elements 2 l and 2 l + 1; int j of its B is column l, rows 2 j and 2 j + 1; float m of its accumulator is row m, column l.
constexpr Documented kIntelMad = {[](int lane, int i) { return Place{i / 2, 2 * lane + i % 2}; },
                                  [](int lane, int i) { return Place{i, lane}; },
                                  [](int lane, int i) { return Place{i, lane}; }};

// Apple AMX as the corsix/amx notes have it ("fma32, matrix mode"): Z[j][i] += X[i] * Y[j], here with a in Y and b in X.
constexpr Documented kAmx = {[](int, int i) { return Place{i, 0}; }, [](int, int i) { return Place{0, i}; },
                             [](int, int i) { return Place{i / 16, i % 16}; }};

/// An element of a buffer that a lane of a vector is loaded from.
struct Element {
  int64_t buffer, index;
};

/// A matmul of one tile and two steps along K, as a linear program made for one tensor core: what it moves where.
class Tile {
 public:
  Tile(const Target& target, const TensorCore& core)
      : n_(core.dims[0]), m_(core.dims[1]), k_(core.dims[2]), target_(target) {
    target_.tensor_cores = {core};
    Kernel kernel(matmul(graph_, m_, n_, 2 * k_, core.dtype_in, core.dtype_out), target_);
    kernel.apply(Opt{OptOp::TC, 0, 0});
    program_ = lower(kernel.optimized_ast(), target_);
    for (UOp u : all(program_, Op::Special)) {
      const auto& arg = *std::get<const SpecialArg*>(u.arg());
      if (arg.name[0] != 'l') throw std::runtime_error("more than a tile");
      items_[arg.name.back() - '0'] = {u, static_cast<int>(arg.size.value())};
    }
    wmma_ = all(program_, Op::Wmma).at(0);
    loop_ = all(program_, Op::Range).at(0);
    if (all(program_, Op::Wmma).size() != 1 || all(program_, Op::Range).size() != 1)
      throw std::runtime_error("more than a loop over one instruction");
  }

  int lanes() const {
    int count = 1;
    for (const auto& [dimension, item] : items_) count *= item.second;
    return count;
  }
  int m() const { return m_; }
  int n() const { return n_; }
  int k() const { return k_; }
  int elements(int operand) const { return (operand < 2 ? wmma_.src(size_t(operand)) : wmma_).dtype().count; }

  /// Where element `i` of operand 0 (A) or 1 (B) comes from, in step `step` of the loop.
  Place loaded(int operand, int lane, int i, int step) const {
    auto [load, part] = lane_of(wmma_.src(static_cast<size_t>(operand)), i);
    while (load.is(Op::Bitcast)) load = load.src(0);
    if (!load.is(Op::Load))
      throw std::runtime_error("an operand that is not loaded: " + std::string(to_string(load.op())));
    const auto [buffer, index] = element(load.src(0), lane, step);
    if (buffer != operand + 1) throw std::runtime_error("an operand from the wrong buffer");
    const int64_t at = index + part, width = operand == 0 ? 2 * k_ : n_;
    return {static_cast<int>(at / width), static_cast<int>(at % width)};
  }

  /// Where each element of the result of a lane is stored. Each has to be summed up in one accumulator.
  std::map<int, Place> stored(int lane) const {
    std::map<int, Place> places;
    for (UOp store : all(program_, Op::Store)) {
      const Element to = element(store.src(0), lane, 0);
      for (int i = 0; i < store.src(1).dtype().count; ++i) {
        const int64_t at = to.index + i;
        places[result_of(lane_of(store.src(1), i).first)] = {static_cast<int>(at / n_), static_cast<int>(at % n_)};
      }
    }
    return places;
  }

 private:
  /// What lane `i` of a value is made of: a value, and which of its lanes.
  static std::pair<UOp, int> lane_of(UOp value, int i) {
    for (;;) {
      if (value.is(Op::Vectorize)) {
        value = value.src(static_cast<size_t>(i));
        i = 0;
      } else if (value.is(Op::Gep)) {
        i = (*std::get<const Lanes*>(value.arg()))[static_cast<size_t>(i)];
        value = value.src(0);
        if (!value.is(Op::Vectorize)) return {value, i};
      } else {
        return {value, i};
      }
    }
  }

  /// The element of the instruction's result that is accumulated in `acc` and left there.
  int result_of(UOp value) const {
    UOp acc = value.is(Op::Assign) ? value.src(0) : value;
    for (UOp assign : all(program_, Op::Assign)) {
      if (assign.src(0) != acc) continue;
      auto [result, i] = lane_of(assign.src(1), 0);
      if (result != wmma_ || lane_of(wmma_.src(2), i).first != acc)
        throw std::runtime_error("an accumulator that is not the instruction's");
      return i;
    }
    throw std::runtime_error("a store of what is not accumulated");
  }

  Element element(UOp address, int lane, int step) const {
    UOp index = address.is(Op::Cast) ? address.src(0) : address;
    if (!index.is(Op::Index)) throw std::runtime_error("an address that is no INDEX");
    Evaluator evaluate;
    for (const auto& [dimension, item] : items_) {  // lanes count along x first
      evaluate.set_int(item.first, lane % item.second);
      lane /= item.second;
    }
    evaluate.set_int(loop_, step);
    const ConstBits at = evaluate(index.src(1));
    return {std::get<int64_t>(index.src(0).arg()), static_cast<int64_t>(int_of_const(index.src(1).dtype().scalar, at))};
  }

  int n_, m_, k_;
  Target target_;
  Graph graph_;
  LinearProgram program_;
  std::map<int, std::pair<UOp, int>> items_;
  UOp wmma_, loop_;
};

/// Which row (or column) of memory stands where the instruction has row `i`: any order will do, as long as all operands agree.
class Order {
 public:
  Order(const char* name, int size) : name_(name), to_(static_cast<size_t>(size)), from_(static_cast<size_t>(size)) {}
  /// Empty, or what is wrong.
  std::string add(int documented, int memory) {
    auto& to = to_.at(static_cast<size_t>(documented));
    if (memory < 0 || memory >= static_cast<int>(from_.size()))
      return fmt::format("{} {} is taken from {}, outside of the tile", name_, documented, memory);
    auto& from = from_.at(static_cast<size_t>(memory));
    if (to.value_or(memory) != memory || from.value_or(documented) != documented)
      return fmt::format("{} {} is {} of memory here, but {} there", name_, documented, memory,
                         to ? fmt::format("{}", *to) : fmt::format("that was {}", *from));
    to = memory;
    from = documented;
    return {};
  }
  bool is_complete() const { return std::find(to_.begin(), to_.end(), std::nullopt) == to_.end(); }

 private:
  const char* name_;
  std::vector<std::optional<int>> to_, from_;
};

/// What is wrong with a tensor core's operands; empty where they are as documented.
std::string mismatch(const Target& target, const TensorCore& core, const Documented& documented, int warp) {
  const Tile tile(target, core);
  if (tile.lanes() != warp) return fmt::format("{} lanes instead of {}", tile.lanes(), warp);
  Order rows("row", tile.m()), columns("column", tile.n()), inner("k", tile.k());
  const auto agree = [&](const char* matrix, int lane, int i, Order& first, Order& second, Place is, Place at) {
    for (const std::string& wrong : {first.add(is.row, at.row), second.add(is.column, at.column)})
      if (!wrong.empty()) return fmt::format("{}, lane {}, element {}: {}", matrix, lane, i, wrong);
    return std::string();
  };
  for (int lane = 0; lane < warp; ++lane) {
    const std::map<int, Place> stored = tile.stored(lane);
    if (static_cast<int>(stored.size()) != tile.elements(2)) return fmt::format("lane {} does not store all", lane);
    for (const auto& [i, at] : stored)
      if (auto wrong = agree("C", lane, i, rows, columns, documented.c(lane, i), at); !wrong.empty()) return wrong;
    for (int step = 0; step < 2; ++step) {
      const int past = step * tile.k();
      for (int i = 0; i < tile.elements(0); ++i) {
        Place at = tile.loaded(0, lane, i, step);
        at.column -= past;
        if (auto wrong = agree("A", lane, i, rows, inner, documented.a(lane, i), at); !wrong.empty()) return wrong;
      }
      for (int i = 0; i < tile.elements(1); ++i) {
        Place at = tile.loaded(1, lane, i, step);
        at.row -= past;
        if (auto wrong = agree("B", lane, i, inner, columns, documented.b(lane, i), at); !wrong.empty()) return wrong;
      }
    }
  }
  return rows.is_complete() && columns.is_complete() && inner.is_complete() ? "" : "a part of the tile is nowhere";
}

struct Row {
  const char* target;
  size_t core;  // which of the target's
  const Documented& documented;
  int warp;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {"cuda:sm_80", 0, kMmaM16N8K16, 32}, {"cuda:sm_80", 1, kMmaM16N8K16, 32}, {"cuda:sm_90", 0, kMmaM16N8K16, 32},
      {"cuda:sm_90", 1, kMmaM16N8K16, 32}, {"nv", 0, kMmaM16N8K16, 32},         {"nv", 1, kMmaM16N8K16, 32},
      {"ptx:sm_80", 0, kMmaM16N8K16, 32},  {"ptx:sm_90", 0, kMmaM16N8K16, 32},  {"hip:gfx1100", 0, kRdna3, 32},
      {"hip:gfx1100", 1, kRdna3, 32},      {"metal", 0, kSimdgroup8x8, 32},     {"metal", 1, kSimdgroup8x8, 32},
      {"metal", 2, kSimdgroup8x8, 32},     {"intel", 0, kIntelMad, 8},          {"intel", 1, kIntelMad, 8},
      {"clang:amx", 0, kAmx, 1},           {"cuda:sm_80", 2, kMmaM16N8K8, 32},  {"cuda:sm_90", 2, kMmaM16N8K8, 32},
      {"nv", 2, kMmaM16N8K8, 32},          {"ptx:sm_80", 1, kMmaM16N8K8, 32},   {"ptx:sm_90", 1, kMmaM16N8K8, 32}};
  return all;
}

TEST(TensorCoreLayout, is_the_documented_one_of_every_tensor_core) {
  for (const Row& r : rows()) {
    const Target& target = with_tf32(find_target(r.target));
    ASSERT_LT(r.core, target.tensor_cores.size()) << r.target;
    const TensorCore& core = target.tensor_cores[r.core];
    EXPECT_EQ(mismatch(target, core, r.documented, r.warp), "") << r.target << " " << core.name();
  }
}

TEST(TensorCoreLayout, is_checked_for_all_there_are) {
  for (const std::string& name : target_names())
    for (size_t core = 0; core < with_tf32(find_target(name)).tensor_cores.size(); ++core) {
      const auto is_it = [&](const Row& r) { return r.target == name && r.core == core; };
      EXPECT_EQ(std::count_if(rows().begin(), rows().end(), is_it), 1) << name << ", tensor core " << core;
    }
}

/// A matrix as the instruction sees it: nothing where no lane has told, or lanes disagree.
class Matrix {
 public:
  void tell(Place place, int64_t value) {
    auto [known, first] = values_.try_emplace({place.row, place.column}, value);
    if (!first && known->second != value) known->second = std::nullopt;
  }
  std::optional<int64_t> at(int row, int column) const {
    auto known = values_.find({row, column});
    return known == values_.end() ? std::nullopt : known->second;
  }

 private:
  std::map<std::pair<int, int>, std::optional<int64_t>> values_;
};

/// Whether the first step along K multiplies: with numbers in the matrices, by what the instruction is documented to do.
bool multiplies(const Target& target, const TensorCore& core, const Documented& documented, int warp) {
  const Tile tile(target, core);
  const auto a_in_memory = [](int row, int k) { return (row * 7919 + k * 104729 + 13) % 1009; };
  const auto b_in_memory = [](int k, int column) { return (k * 6421 + column * 7307 + 5) % 997; };
  Matrix a, b;
  for (int lane = 0; lane < warp; ++lane) {
    for (int i = 0; i < tile.elements(0); ++i) {
      const Place from = tile.loaded(0, lane, i, 0);
      a.tell(documented.a(lane, i), a_in_memory(from.row, from.column));
    }
    for (int i = 0; i < tile.elements(1); ++i) {
      const Place from = tile.loaded(1, lane, i, 0);
      b.tell(documented.b(lane, i), b_in_memory(from.row, from.column));
    }
  }
  for (int lane = 0; lane < warp; ++lane)
    for (const auto& [i, to] : tile.stored(lane)) {
      const Place is = documented.c(lane, i);
      int64_t sum = 0, wanted = 0;
      for (int k = 0; k < tile.k(); ++k) {
        const std::optional<int64_t> x = a.at(is.row, k), y = b.at(k, is.column);
        if (!x || !y) return false;
        sum += *x * *y;
        wanted += int64_t{a_in_memory(to.row, k)} * b_in_memory(k, to.column);
      }
      if (sum != wanted) return false;
    }
  return true;
}

/// The tensor core with two entries of a swizzle exchanged, in all ways.
std::vector<TensorCore> exchanged(const TensorCore& core, std::optional<TensorCore::Swizzle> TensorCore::* which) {
  std::vector<TensorCore> all;
  if (!(core.*which)) return all;
  const size_t warp = (core.*which)->warp.size(), size = warp + (core.*which)->expanded.size();
  for (size_t i = 0; i < size; ++i)
    for (size_t j = i + 1; j < size; ++j) {
      TensorCore& changed = all.emplace_back(core);
      TensorCore::Swizzle& s = *(changed.*which);
      const auto entry = [&](size_t at) -> std::pair<int, int>& {
        return at < warp ? s.warp[at] : s.expanded[at - warp];
      };
      std::swap(entry(i), entry(j));
    }
  return all;
}

TEST(TensorCoreLayout, is_found_wrong_for_a_changed_swizzle_where_the_product_is) {
  for (const Row& r : rows()) {
    const Target& target = with_tf32(find_target(r.target));
    const TensorCore& core = target.tensor_cores[r.core];
    EXPECT_TRUE(multiplies(target, core, r.documented, r.warp)) << r.target;
    for (auto which : {&TensorCore::swizzle_a, &TensorCore::swizzle_b}) {
      int wrong = 0;
      const std::vector<TensorCore> all = exchanged(core, which);
      for (const TensorCore& changed : all) {
        const bool is_right = multiplies(target, changed, r.documented, r.warp);
        const std::string found = mismatch(target, changed, r.documented, r.warp);
        EXPECT_EQ(found.empty(), is_right) << r.target << " " << core.name() << ": " << found;
        wrong += !is_right;
      }
      EXPECT_GE(wrong, static_cast<int>(all.size()) / 2) << r.target << " " << core.name();
    }
  }
}

}  // namespace
}  // namespace quern
