#include <gtest/gtest.h>

#include "quern/error.h"

#include "arrays.h"
#include "ir/text.h"

namespace quern::test {
namespace {

constexpr int64_t kLow = 2, kHigh = 5;

/// A tracker made with sizes that use v, which may be a variable or a number.
struct Case {
  const char* what;
  std::function<ShapeTracker(const SInt& v)> make;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"rows of a variable count", [](const SInt& v) { return tracker({v, 3}); }},
      {"inner variable size", [](const SInt& v) { return tracker({4, v}); }},
      {"sum as a size", [](const SInt& v) { return tracker({4, v + 1, 3}); }},
      {"permuted", [](const SInt& v) { return permute(tracker({2, v, 3}), std::vector{2, 0, 1}); }},
      {"reshaped", [](const SInt& v) { return reshape(tracker({2, v, 6}), {v * 2, 3, 2}); }},
      {"reshaped after a permute",
       [](const SInt& v) { return reshape(permute(tracker({6, v}), std::vector{1, 0}), {v, 2, 3}); }},
      {"padded", [](const SInt& v) { return pad(tracker({v, 3}), {{1, 2}, {0, 1}}); }},
      {"padded by a variable", [](const SInt& v) { return pad(tracker({4}), {{v, 0}}); }},
      {"shrunk to a variable size", [](const SInt& v) { return shrink(tracker({7, 3}), {{0, v}, {0, 3}}); }},
      {"shrunk at a variable place", [](const SInt& v) { return shrink(tracker({8, 3}), {{v, v + 2}, {1, 3}}); }},
      {"expanded", [](const SInt& v) { return expand(reshape(tracker({3}), {1, 3}), {v, 3}); }},
      {"expanded under a mask",
       [](const SInt& v) { return expand(reshape(pad(tracker({3}), {{1, 1}}), {1, 5}), {v, 5}); }},
      {"flipped", [](const SInt& v) { return stride(tracker({v, 3}), std::vector<int64_t>{-1, 1}); }},
      {"strided", [](const SInt& v) { return stride(tracker({v, 3}), std::vector<int64_t>{2, -1}); }},
      {"padded and flipped",
       [](const SInt& v) { return stride(pad(tracker({v, 3}), {{1, 2}, {0, 0}}), std::vector<int64_t>{-1, -1}); }},
      {"padded and shrunk",
       [](const SInt& v) { return shrink(pad(tracker({v, 3}), {{1, 2}, {0, 0}}), {{0, v + 1}, {0, 2}}); }},
      {"two views", [](const SInt& v) { return reshape(permute(tracker({4, v}), std::vector{1, 0}), {v * 2, 2}); }},
      {"composed",
       [](const SInt& v) {
         return compose(permute(tracker({4, v}), std::vector{1, 0}), permute(tracker({v, 4}), std::vector{1, 0}));
       }},
      {"composed with a shrink at a variable place",
       [](const SInt& v) {
         return compose(permute(tracker({4, 9}), std::vector{1, 0}), shrink(tracker({9, 4}), {{v, v + 3}, {0, 4}}));
       }},
  };
  return all;
}

TEST(SymbolicShapes, index_the_same_elements_as_numbers_at_both_bounds_and_between) {
  for (const Case& c : cases()) {
    Graph graph;
    ShapeTracker symbolic = c.make(graph.variable("v", kLow, kHigh));
    for (int64_t v = kLow; v <= kHigh; ++v)
      EXPECT_EQ(elements_by_index(graph, symbolic, v), elements_of(c.make(v))) << c.what << " at " << v << "\n"
                                                                               << print(symbolic);
  }
}

TEST(SymbolicShapes, give_sizes_and_strides_that_hold_for_every_value) {
  for (const Case& c : cases()) {
    Graph graph;
    ShapeTracker symbolic = c.make(graph.variable("v", kLow, kHigh));
    std::vector<std::optional<SInt>> strides = real_strides(graph, symbolic);
    for (int64_t v = kLow; v <= kHigh; ++v) {
      ShapeTracker at = c.make(v);
      Graph other;
      EXPECT_GE(size_of(symbolic), size_of(at)) << c.what;
      EXPECT_GE(real_size(graph, symbolic), real_size(other, at)) << c.what;
      std::vector<std::optional<SInt>> numbers = real_strides(other, at);
      for (size_t i = 0; i < strides.size(); ++i) {
        if (!strides[i] || !strides[i]->is_int() || !numbers[i] || at.shape()[i] == 1) continue;
        EXPECT_EQ(*strides[i], *numbers[i]) << c.what << " axis " << i << " at " << v;
      }
    }
  }
}

TEST(SymbolicShapes, are_contiguous_as_made) {
  Graph graph;
  SInt v = graph.variable("v", 1, 10);
  EXPECT_TRUE(is_contiguous(tracker({4, v, 3})));
  EXPECT_EQ(tracker({4, v, 3}).views[0], make_view({4, v, 3}, {SInt(3) * v, 3, 1}));
  EXPECT_FALSE(is_contiguous(permute(tracker({4, v}), std::vector{1, 0})));
  EXPECT_TRUE(is_contiguous(permute(permute(tracker({4, v}), std::vector{1, 0}), std::vector{1, 0})));
  EXPECT_EQ(size_of(tracker({4, v, 3})), 120);
}

TEST(SymbolicShapes, keep_one_view_when_the_variable_axis_stays_whole) {
  Graph graph;
  SInt v = graph.variable("v", 1, 10);
  EXPECT_EQ(reshape(permute(tracker({6, v}), std::vector{1, 0}), {v, 2, 3}).views.size(), 1u);
  EXPECT_EQ(reshape(tracker({v, 6}), {v, 3, 2}).views.size(), 1u);
}

TEST(SymbolicShapes, take_bound_variables_for_the_sizes_they_are_bound_to) {
  Graph graph;
  UOp v = graph.variable("v", 1, 10);
  UOp bound = graph.node(Op::Bind, Scalar::Index, {v, graph.const_index(3)});
  View permuted = permute(make_view(Shape{4, 3}), std::vector{1, 0});
  std::optional<View> renamed = reshape(permuted, {SInt(bound), 4});
  ASSERT_TRUE(renamed);
  EXPECT_EQ(renamed->strides, permuted.strides);
  EXPECT_THROW((void)reshape(permuted, {SInt(v), 4}), InvalidKernel);
}

TEST(SymbolicShapes, refuse_sizes_that_never_match) {
  Graph graph;
  SInt v = graph.variable("v", 1, 10);
  try {
    (void)reshape(make_view(Shape{v, 3}), {v, 50});
    FAIL();
  } catch (const InvalidKernel& e) {
    EXPECT_EQ(std::string(e.what()), "[reshape] cannot view (v, 3) as (v, 50): (v*3) elements, not (v*50)");
  }
  EXPECT_THROW(shrink(make_view(Shape{v}), {{0, 11}}), InvalidKernel);
  EXPECT_THROW(expand(make_view(Shape{2, v}), {3, v}), InvalidKernel);
}

TEST(Variables, are_listed_once_by_name_and_bounds) {
  Graph graph;
  UOp b = graph.variable("b", 1, 10), a = graph.variable("a", 1, 10), a5 = graph.variable("a", 1, 5);
  ShapeTracker st{{make_view({SInt(b), 3}, {SInt(b) * 2, 1}, SInt(a), Mask{{0, b}, {0, SInt(a5)}})}};
  EXPECT_EQ(variables(st), (std::vector<UOp>{a5, a, b}));
}

TEST(SInt, arithmetic_on_numbers_stays_numbers) {
  EXPECT_EQ(floor_div(SInt(-7), 2), -4);
  EXPECT_EQ(floor_mod(SInt(-7), 2), 1);
  EXPECT_EQ(smax(3, 5), 5);
  EXPECT_EQ(smin(3, 5), 3);
  EXPECT_THROW(SInt(INT64_MAX) + 1, InvalidKernel);
  EXPECT_THROW(-SInt(INT64_MIN), InvalidKernel);
}

TEST(SInt, compares_by_bounds_and_says_otherwise_where_they_leave_it_open) {
  Graph graph;
  SInt v = graph.variable("v", 2, 5);
  EXPECT_TRUE(is_less(v, 6, false));
  EXPECT_FALSE(is_less(v, 2, true));
  for (bool otherwise : {false, true}) {
    EXPECT_EQ(is_less(v, 4, otherwise), otherwise);
    EXPECT_EQ(is_greater_equal(v, 4, otherwise), otherwise);
    EXPECT_EQ(is_not_equal(v, 4, otherwise), otherwise);
  }
  EXPECT_TRUE(is_less(v * 2 - v, 6, false));  // once simplified
  EXPECT_FALSE(is_not_equal(v - v, 0, true));
  EXPECT_EQ(smax(v, 1), v);
  EXPECT_EQ(smin(v, 1), 1);
}

TEST(SymbolicShapes, past_64_bits_are_refused) {
  Graph graph;
  SInt v = graph.variable("v", 1, int64_t{1} << 40);
  EXPECT_THROW(make_view(Shape{4, v, v}), InvalidKernel);
  EXPECT_THROW(make_view(Shape{4}, {1}, v * (int64_t{1} << 40)), InvalidKernel);
}

}  // namespace
}  // namespace quern::test
