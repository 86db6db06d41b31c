#include <gtest/gtest.h>

#include "quern/error.h"

#include "arrays.h"
#include "ir/text.h"

namespace quern::test {
namespace {

View strided(Shape shape, std::vector<SInt> strides, SInt offset = 0, std::optional<Mask> mask = std::nullopt) {
  return make_view(std::move(shape), std::move(strides), offset, std::move(mask));
}

/// The message of the InvalidKernel that `action` throws.
std::string refusal(auto&& action) {
  try {
    action();
  } catch (const InvalidKernel& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(MakeView, is_contiguous_with_row_major_strides) {
  View v = make_view(Shape{2, 1, 3});
  EXPECT_EQ(v.strides, (std::vector<SInt>{3, 0, 1}));
  EXPECT_TRUE(v.contiguous);
  EXPECT_FALSE(strided({2, 1, 3}, {3, 0, 1}, 1).contiguous);
  EXPECT_FALSE(strided({2, 1, 3}, {1, 0, 2}).contiguous);
  EXPECT_TRUE(strided({2, 1, 3}, {3, 7, 1}).contiguous);  // the stride of one element means nothing
}

TEST(MakeView, has_one_form_for_equal_views) {
  struct Case {
    const char* what;
    View given, form;
  };
  for (const auto& [what, given, form] : std::vector<Case>{
           {"a mask of everything", strided({4, 3}, {3, 1}, 0, Mask{{0, 4}, {0, 3}}), make_view(Shape{4, 3})},
           {"a mask of one row", strided({4, 3}, {3, 1}, 5, Mask{{2, 3}, {0, 3}}),
            View{{4, 3}, {0, 1}, 11, Mask{{2, 3}, {0, 3}}, false}},
           {"a mask of nothing", strided({4, 3}, {3, 1}, 5, Mask{{2, 2}, {0, 3}}),
            View{{4, 3}, {0, 0}, 0, Mask{{0, 0}, {0, 0}}, false}},
           {"no elements", strided({4, 0}, {7, 1}, 5, Mask{{2, 3}, {0, 0}}),
            View{{4, 0}, {0, 0}, 0, std::nullopt, true}},
           {"no axes", strided({}, {}, 0, Mask{}), View{{}, {}, 0, std::nullopt, true}}})
    EXPECT_EQ(given, form) << what << ": " << print(ShapeTracker{{given}});
}

TEST(Reshape, keeps_one_view_when_sizes_split_and_join_where_strides_allow) {
  struct Case {
    View from;
    Shape to;
    size_t views;
  };
  for (const auto& [from, to, views] :
       std::vector<Case>{{make_view(Shape{4, 3}), {12}, 1},        // row-major
                         {strided({4, 3}, {1, 4}), {12}, 2},       // transposed
                         {strided({4, 6}, {1, 4}), {4, 2, 3}, 1},  // splits one axis of it
                         {strided({4, 6}, {1, 4}), {2, 12}, 2},    // cuts across both
                         {strided({4, 3}, {6, 2}), {2, 6}, 1},     // evenly spaced
                         {strided({4, 3}, {6, 1}), {12}, 2},       // rows with gaps
                         {strided({5, 4}, {0, 1}), {5, 2, 2}, 1},  // repeated rows
                         {strided({5, 4}, {0, 1}), {20}, 2},
                         {strided({2, 3, 4}, {0, 0, 1}), {6, 4}, 1},                  // two repeats are one
                         {strided({2, 3}, {-3, -1}, 5), {6}, 1},                      // flipped whole
                         {strided({2, 3}, {3, -1}, 2), {6}, 2},                       // flipped rows
                         {strided({1, 6, 1}, {0, 1, 0}), {2, 1, 3}, 1},               // ones come and go
                         {pad(make_view(Shape{4, 3}), {{0, 2}, {0, 0}}), {18}, 1},    // padded rows at the end
                         {pad(make_view(Shape{4, 3}), {{0, 2}, {0, 0}}), {2, 9}, 2},  // the mask ends inside a row
                         {pad(make_view(Shape{4, 3}), {{0, 0}, {0, 1}}), {16}, 2},    // gaps between masked rows
                         {pad(make_view(Shape{1, 3}), {{2, 1}, {1, 1}}), {4, 5}, 1},
                         {pad(make_view(Shape{1, 3}), {{2, 1}, {1, 1}}), {20}, 1}}) {  // one row inside: one stretch
    ShapeTracker st = reshape(ShapeTracker{{from}}, to);
    EXPECT_EQ(st.views.size(), views) << print(ShapeTracker{{from}}) << " to " << print(to);
    EXPECT_EQ(elements_of(st).elements, elements_of(from).elements) << print(st);
  }
}

// https://github.com/tinygrad/tinygrad/issues/2844: a reshape through a mask keeps the offset.
TEST(Reshape, through_a_mask_keeps_the_offset) {
  ShapeTracker st = reshape(reshape(pad(tracker({2, 5, 5}), {{2, 0}, {0, 0}, {0, 0}}), {2, 2, 5, 5}), {4, 5, 5});
  Array rows = elements_of(st);
  for (size_t i = 0; i < 100; ++i)
    EXPECT_EQ(rows.elements[i], i < 50 ? kZero : static_cast<int64_t>(i) - 50) << i << " " << print(st);

  ShapeTracker inner = pad(tracker({1, 2, 2}), {{0, 0}, {0, 0}, {2, 2}});
  ShapeTracker joined = reshape(reshape(inner, {1, 2, 3, 2}), {1, 2, 6});
  EXPECT_EQ(elements_of(joined), elements_of(inner)) << print(joined);
}

TEST(Minify, takes_the_fewest_axes) {
  EXPECT_EQ(minify(make_view(Shape{2, 3, 4})).shape, (Shape{24}));
  EXPECT_EQ(minify(strided({2, 3, 4}, {3, 1, 0})).shape, (Shape{6, 4}));
  EXPECT_EQ(minify(strided({4, 1, 3}, {1, 0, 4})).shape, (Shape{4, 3}));
}

TEST(Compose, merges_a_view_of_a_permuted_one) {
  View permuted = strided({4, 3}, {1, 4});
  EXPECT_EQ(compose(permuted, strided({3, 4}, {1, 3})), make_view(Shape{3, 4}));
  EXPECT_EQ(compose(make_view(Shape{4, 3}), permuted), permuted);
  EXPECT_EQ(compose(permuted, make_view(Shape{12})), std::nullopt);
  EXPECT_EQ(compose(permuted, strided({2}, {3}, 3)), strided({2}, {1}, 1));
}

TEST(Compose, carries_the_inner_mask_to_the_outer_axes) {
  View padded = pad(make_view(Shape{4}), {{2, 2}});
  EXPECT_EQ(compose(padded, strided({2, 4}, {4, 1})), std::nullopt);  // of either row a part is outside
  EXPECT_EQ(compose(padded, strided({4}, {2})), strided({4}, {2}, -2, Mask{{1, 3}}));
  EXPECT_EQ(compose(padded, strided({3}, {1}, 2)), strided({3}, {1}));
  EXPECT_EQ(compose(padded, strided({2, 2}, {0, 1})), strided({2, 2}, {0, 0}, 0, Mask{{0, 0}, {0, 0}}));
}

TEST(Shapes, refuse_wrong_arguments_with_their_values) {
  const View v = make_view(Shape{2, 3});
  std::vector<std::pair<std::string, std::string>> cases = {
      {refusal([&] { (void)reshape(v, {4, 2}); }), "[reshape] cannot view (2, 3) as (4, 2): 6 elements, not 8"},
      {refusal([&] { (void)reshape(v, {-2, -3}); }),
       "[reshape] cannot view (2, 3) as (-2, -3): a size cannot be negative"},
      {refusal([&] { (void)reshape(make_view(Shape{0, 3}), {2}); }),
       "[reshape] cannot view (0, 3) as (2,): 0 elements, not 2"},
      {refusal([&] { expand(v, {4, 3}); }), "[expand] cannot grow (2, 3) to (4, 3): axis 0 has size 2, not 1"},
      {refusal([&] { expand(v, {2, 3, 1}); }), "[expand] 3 arguments for the 2 axes of (2, 3)"},
      {refusal([&] { permute(v, std::vector{0, 0}); }), "[permute] (0, 0) does not order the 2 axes of (2, 3)"},
      {refusal([&] { permute(v, std::vector{1, -1}); }), "[permute] (1, -1) does not order the 2 axes of (2, 3)"},
      {refusal([&] { permute(v, std::vector{0}); }), "[permute] (0,) does not order the 2 axes of (2, 3)"},
      {refusal([&] { pad(v, {{1, 1}, {-1, 0}}); }),
       "[pad] cannot pad (2, 3) by ((1, 1), (-1, 0)): an amount is negative"},
      {refusal([&] { shrink(v, {{0, 2}, {1, 4}}); }),
       "[shrink] cannot take ((0, 2), (1, 4)) of (2, 3): axis 1 has size 3"},
      {refusal([&] { shrink(v, {{1, 0}, {0, 3}}); }),
       "[shrink] cannot take ((1, 0), (0, 3)) of (2, 3): axis 0 has size 2"},
      {refusal([&] { stride(v, std::vector<int64_t>{1, 0}); }), "[stride] the step 0 of axis 1 of (2, 3)"},
      {refusal([&] { make_view(Shape{2, -3}); }), "[view] a size cannot be negative: (2, -3)"},
      {refusal([&] { make_view(Shape{2, 3}, {1}); }), "[view] 1 strides for the shape (2, 3)"},
      {refusal([&] { (void)reduced_shape(Shape{2, 3}, std::vector<int32_t>{2}); }),
       "[reduce] axis 2 is not one of (2, 3)"},
  };
  for (const auto& [message, expected] : cases) EXPECT_EQ(message, expected);
}

TEST(Shapes, refuse_what_does_not_fit_64_bits) {
  const int64_t big = int64_t{1} << 40;
  EXPECT_EQ(refusal([&] { make_view(Shape{2, big, big}); }),
            "[shape] 1099511627776 * 1099511627776 does not fit 64 bits");
  EXPECT_EQ(refusal([&] { stride(strided({4}, {big}), std::vector<int64_t>{int64_t{1} << 30}); }),
            "[shape] 1099511627776 * 1073741824 does not fit 64 bits");
  EXPECT_EQ(refusal([&] { pad(make_view(Shape{4}), {{0, INT64_MAX}}); }),
            "[shape] 4 + 9223372036854775807 does not fit 64 bits");
  EXPECT_NE(refusal([&] { (void)reshape(strided({big, big}, {0, 0}), {4}); }), "nothing was thrown");
  EXPECT_EQ(size_of(ShapeTracker{{strided({1 << 20, 1 << 20}, {0, 0})}}), big);
}

// https://github.com/tinygrad/tinygrad/issues/3604: indices past 32 bits.
TEST(Index, has_bounds_past_32_bits_where_the_view_has) {
  Graph graph;
  View conv = strided({64, 1, 64, 112, 112, 3, 7, 7}, {10156800, 0, 0, 3680, 2, 3385600, 425040, 231});
  UOp index = index_tracker(graph, ShapeTracker{{conv}}).index;
  Int128 largest = Int128{63} * 10156800 + 111 * 3680 + 111 * 2 + 2 * 3385600 + 6 * 425040 + 6 * 231;
  EXPECT_EQ(to_string(index.vmax()), to_string(largest));
  EXPECT_EQ(real_size(graph, ShapeTracker{{conv}}), static_cast<int64_t>(largest) + 1);

  ShapeTracker expanded = tracker({58, 262144, 3, 16, 3});
  UOp flat = index_tracker(graph, expanded).index;
  EXPECT_EQ(to_string(flat.vmax()), "2189426687");
  EXPECT_GT(flat.vmax(), Int128{INT32_MAX});
}

TEST(ReducedShape, has_ones_on_the_axes) {
  EXPECT_EQ(reduced_shape(Shape{2, 3, 4}, std::vector<int32_t>{0, 2}), (Shape{1, 3, 1}));
}

TEST(RealStrides, have_nothing_on_masked_axes_and_zero_on_unused_ones) {
  Graph graph;
  using Strides = std::vector<std::optional<SInt>>;
  ShapeTracker padded = pad(tracker({4, 3}), {{1, 1}, {0, 0}});
  EXPECT_EQ(real_strides(graph, padded), (Strides{std::nullopt, 1}));
  EXPECT_EQ(real_strides(graph, padded, true), (Strides{3, 1}));
  EXPECT_EQ(unit_stride_axes(graph, padded), (std::vector<int>{1}));
  EXPECT_TRUE(axis_is_masked(graph, padded, 0));
  EXPECT_FALSE(axis_is_masked(graph, padded, 1));
  EXPECT_EQ(real_strides(graph, expand(reshape(tracker({4}), {4, 1}), {4, 3})), (Strides{1, 0}));
}

TEST(RealStrides, are_found_through_two_views) {
  Graph graph;
  ShapeTracker st = reshape(permute(tracker({4, 6}), std::vector{1, 0}), {2, 12});  // two views
  ASSERT_EQ(st.views.size(), 2u);
  EXPECT_EQ(real_strides(graph, st), (std::vector<std::optional<SInt>>{3, std::nullopt}));
}

}  // namespace
}  // namespace quern::test
