#include "lower/launch_dims.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/error.h"

#include "lower/evaluate.h"

namespace quern {
namespace {

using Sizes = std::vector<SInt>;
constexpr std::array<int64_t, 3> kCuda = {2147483647, 65535, 65535}, kNarrow = {65535, 65535, 65535},
                                 kTiny = {16, 16, 16};

TEST(LaunchDims, are_merged_or_split_until_they_keep_the_limits) {
  struct Case {
    Sizes dims;
    std::array<int64_t, 3> limits;
    Sizes sizes;
  };
  for (const auto& [dims, limits, sizes] : std::vector<Case>{
           {{}, kCuda, {}},
           {{7}, kCuda, {7}},
           {{2, 3, 4}, kCuda, {2, 3, 4}},
           {{2, 3, 4, 5}, kCuda, {6, 4, 5}},  // too many: the fastest two merge
           {{2, 8, 4, 4}, kTiny, {16, 4, 4}},
           {{16, 8, 2, 4}, kTiny, {16, 16, 4}},  // the first is full: the next two merge
           {{65536, 2}, kNarrow, {32768, 4}},    // none can merge: a factor moves on
           {{131072}, kNarrow, {32768, 4}},
           {{1, 1, 65536}, kNarrow, {2, 1, 32768}},
       })
    EXPECT_EQ(limited_dims(dims, limits), sizes) << testing::PrintToString(dims.size());
}

TEST(LaunchDims, that_no_factors_fit_are_refused_with_their_sizes) {
  try {
    limited_dims(Sizes{65537, 65537, 65537}, kTiny);
    FAIL();
  } catch (const InvalidKernel& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("(65537, 65537, 65537)"));
    EXPECT_THAT(error.what(), testing::HasSubstr("(16, 16, 16)"));
  }
}

TEST(LaunchDims, of_symbolic_size_are_left_alone_unless_there_are_too_many) {
  Graph graph;
  SInt n(graph.variable("n", 1, 100));
  EXPECT_EQ(limited_dims(Sizes{n, 100000}, kNarrow), (Sizes{n, 100000}));
  EXPECT_EQ(limited_dims(Sizes{n, 2, 3, 4}, kNarrow).size(), 3u);
}

/// Values of the indices for each of the launched threads.
std::vector<std::vector<int64_t>> launched(std::span<const UOp> indices) {
  std::vector<UOp> raw;
  for (UOp u : toposort(indices))
    if (u.is(Op::Special)) raw.push_back(u);
  std::vector<std::vector<int64_t>> threads;
  std::vector<int64_t> at(raw.size());
  for (;;) {
    Evaluator evaluate;
    for (size_t i = 0; i < raw.size(); ++i) evaluate.set_int(raw[i], at[i]);
    auto& thread = threads.emplace_back();
    for (UOp u : indices) thread.push_back(static_cast<int64_t>(evaluate(u).bits));
    size_t i = 0;
    while (i < raw.size() && ++at[i] == std::get<const SpecialArg*>(raw[i].arg())->size.value()) at[i++] = 0;
    if (i == raw.size()) return threads;
  }
}

TEST(LaunchDims, give_every_index_to_exactly_one_thread) {
  for (const Sizes& dims :
       std::vector<Sizes>{{5}, {2, 3}, {2, 3, 4}, {2, 3, 4, 2}, {2, 2, 2, 2, 3}, {40, 2}, {1, 45}, {36, 1, 3}})
    for (bool reversed : {false, true}) {
      Graph graph;
      std::vector<UOp> indices = launch_indices(graph, "gidx", dims, kTiny, reversed);
      ASSERT_EQ(indices.size(), dims.size());
      std::set<std::vector<int64_t>> seen;
      int64_t total = 1;
      for (const SInt& d : dims) total *= d.value();
      for (const auto& thread : launched(indices)) {
        EXPECT_TRUE(seen.insert(thread).second);
        for (size_t i = 0; i < dims.size(); ++i) EXPECT_LT(thread[i], dims[i].value());
      }
      EXPECT_EQ(static_cast<int64_t>(seen.size()), total) << dims.size() << reversed;
    }
}

TEST(LaunchDims, that_are_split_are_the_flat_index_taken_apart) {
  Graph graph;
  std::vector<UOp> indices = launch_indices(graph, "gidx", Sizes{65536, 2}, kNarrow, false);
  UOp g0 = graph.node(Op::Special, Scalar::Index, {}, graph.intern(SpecialArg{"gidx0", 32768}));
  UOp g1 = graph.node(Op::Special, Scalar::Index, {}, graph.intern(SpecialArg{"gidx1", 4}));
  for (int64_t a : {0, 1, 7, 32767})
    for (int64_t b : {0, 1, 2, 3}) {
      Evaluator evaluate;
      evaluate.set_int(g0, a);
      evaluate.set_int(g1, b);
      EXPECT_EQ(static_cast<int64_t>(evaluate(indices[0]).bits), (a * 4 + b) / 2);
      EXPECT_EQ(static_cast<int64_t>(evaluate(indices[1]).bits), (a * 4 + b) % 2);
    }
}

}  // namespace
}  // namespace quern
