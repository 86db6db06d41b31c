#include <gtest/gtest.h>

#include "arrays.h"
#include "ir/text.h"

namespace quern::test {
namespace {

constexpr int64_t kMost = 2000;

struct Chain {
  ShapeTracker tracker;
  Array array;
  std::string text;
};

Chain random_chain(Random& random, std::vector<int64_t> shape, int64_t length) {
  Chain chain{tracker(to_shape(shape)), iota(shape), "view"};
  for (int64_t s : shape) chain.text += " " + std::to_string(s);
  for (; length > 0; --length) {
    Movement movement = random_movement(random, chain.array.shape, kMost);
    chain.text += "; " + movement.text;
    chain.tracker = movement.on_tracker(chain.tracker);
    chain.array = movement.on_array(chain.array);
  }
  return chain;
}

/// Runs `check` on this many cases, each with a seed of its own.
void for_seeds(uint64_t count, auto&& check) {
  for (uint64_t seed = 1; seed <= count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    check(random);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Movements, index_the_elements_they_say) {
  for_seeds(6000, [](Random& random) {
    Chain c = random_chain(random, random_shape(random, 300), uniform(random, 1, 8));
    EXPECT_EQ(elements_of(c.tracker), c.array) << c.text << "\n" << print(c.tracker);
  });
}

TEST(Movements, index_the_elements_they_say_by_expression) {
  for_seeds(600, [](Random& random) {
    Chain c = random_chain(random, random_shape(random, 100), uniform(random, 1, 6));
    Graph graph;
    EXPECT_EQ(elements_by_index(graph, c.tracker, 0), c.array) << c.text << "\n" << print(c.tracker);
  });
}

TEST(Simplify, keeps_the_elements_and_never_adds_views) {
  for_seeds(3000, [](Random& random) {
    Chain c = random_chain(random, random_shape(random, 300), uniform(random, 3, 9));
    ShapeTracker simple = simplify(c.tracker);
    EXPECT_LE(simple.views.size(), c.tracker.views.size()) << c.text;
    EXPECT_EQ(elements_of(simple), c.array) << c.text << "\n" << print(c.tracker) << "\n" << print(simple);
  });
}

TEST(Compose, is_the_outer_tracker_read_through_the_inner_one) {
  for_seeds(4000, [](Random& random) {
    Chain inner = random_chain(random, random_shape(random, 300), uniform(random, 1, 6));
    Chain outer = random_chain(random, inner.array.shape, uniform(random, 1, 5));
    ShapeTracker both = compose(inner.tracker, outer.tracker);
    EXPECT_EQ(elements_of(both), through(outer.array, inner.array)) << inner.text << "\n"
                                                                    << outer.text << "\n"
                                                                    << print(both);
  });
}

/// A view whose places (inside its mask) are all in [0, size).
View random_view(Random& random, int64_t size) {
  for (;;) {
    std::vector<int64_t> shape = random_shape(random, 200);
    std::vector<SInt> strides;
    Mask mask;
    int64_t low = 0, high = 0;
    for (int64_t s : shape) {
      int64_t stride = uniform(random, -12, 12), begin = 0, end = s;
      if (!uniform(random, 0, 2)) begin = uniform(random, 0, s - 1), end = uniform(random, begin + 1, s);
      strides.emplace_back(stride);
      mask.emplace_back(begin, end);
      low += std::min(stride * begin, stride * (end - 1));
      high += std::max(stride * begin, stride * (end - 1));
    }
    if (high - low < size) return make_view(to_shape(shape), strides, uniform(random, -low, size - 1 - high), mask);
  }
}

TEST(Compose, merges_arbitrary_views_only_where_the_result_is_the_same) {
  int merged = 0;
  for_seeds(8000, [&](Random& random) {
    View inner = random_view(random, 400);
    Array below = elements_of(inner);
    View outer = random_view(random, static_cast<int64_t>(below.elements.size()));
    std::optional<View> both = compose(inner, outer);
    if (!both) return;
    ++merged;
    EXPECT_EQ(elements_of(*both), through(elements_of(outer), below)) << print(ShapeTracker{{inner, outer}}) << "\n"
                                                                      << print(ShapeTracker{{*both}});
  });
  EXPECT_GT(merged, 300);
}

TEST(Reshape, of_arbitrary_views_keeps_the_elements) {
  for_seeds(6000, [](Random& random) {
    View view = random_view(random, 1000);
    ShapeTracker st{{view}};
    Array array = elements_of(view);
    Chain c{st, array, ""};
    for (int i = 0; i < 4; ++i) {
      Movement movement = random_movement(random, array.shape, kMost);
      if (movement.text.starts_with("reshape")) {
        EXPECT_EQ(elements_of(movement.on_tracker(st)), movement.on_array(array)) << print(st) << "\n" << movement.text;
      }
    }
    EXPECT_EQ(elements_of(minify(view)).elements, array.elements) << print(st);
  });
}

TEST(Invert, undoes_permutes_flips_and_reshapes) {
  int inverted = 0;
  for_seeds(3000, [&](Random& random) {
    std::vector<int64_t> shape = random_shape(random, 300);
    Chain c = random_chain(random, shape, uniform(random, 1, 5));
    std::optional<ShapeTracker> inverse = invert(c.tracker, to_shape(shape));
    if (!inverse || c.array.elements.size() != iota(shape).elements.size()) return;
    std::vector<int64_t> sorted = c.array.elements;
    std::sort(sorted.begin(), sorted.end());
    if (sorted != iota(shape).elements) return;  // not a rearrangement
    ++inverted;
    EXPECT_EQ(through(elements_of(*inverse), c.array), iota(shape)) << c.text << "\n" << print(*inverse);
  });
  EXPECT_GT(inverted, 300);
}

TEST(RealStrides, are_steps_between_neighbouring_elements) {
  for_seeds(500, [](Random& random) {
    Chain c = random_chain(random, random_shape(random, 200), uniform(random, 1, 6));
    Graph graph;
    std::vector<std::optional<SInt>> strides = real_strides(graph, c.tracker);
    int64_t inner = 1;
    for (size_t axis = strides.size(); axis-- > 0; inner *= c.array.shape[axis])
      for (size_t i = 0; strides[axis] && i < c.array.elements.size(); ++i) {
        int64_t here = c.array.elements[i];
        if (static_cast<int64_t>(i) / inner % c.array.shape[axis] == c.array.shape[axis] - 1) continue;
        int64_t next = c.array.elements[i + static_cast<size_t>(inner)];
        ASSERT_EQ(here == kZero, next == kZero) << c.text << " axis " << axis << "\n" << print(c.tracker);
        if (here == kZero) continue;
        ASSERT_EQ(next - here, strides[axis]->value()) << c.text << " axis " << axis << "\n" << print(c.tracker);
      }
  });
}

TEST(RealStrides, of_a_single_view_are_those_of_its_simplified_index) {
  for_seeds(2000, [](Random& random) {
    ShapeTracker st{{random_view(random, 400)}};
    Graph graph;
    for (bool ignore_valid : {false, true})
      EXPECT_EQ(real_strides(graph, st, ignore_valid), real_strides_by_index(graph, st, ignore_valid))
          << print(st) << (ignore_valid ? " ignoring the mask" : "");
  });
}

TEST(RealSize, is_one_past_the_largest_element_of_a_single_view) {
  for_seeds(2000, [](Random& random) {
    View view = random_view(random, 400);
    Graph graph;
    Array array = elements_of(view);
    int64_t largest = *std::max_element(array.elements.begin(), array.elements.end());
    EXPECT_EQ(real_size(graph, ShapeTracker{{view}}), largest == kZero ? 0 : largest + 1)
        << print(ShapeTracker{{view}});
  });
}

TEST(RealSize, covers_what_is_read_through_several_views) {
  for_seeds(500, [](Random& random) {
    Chain c = random_chain(random, random_shape(random, 200), uniform(random, 4, 8));
    Graph graph;
    int64_t largest = *std::max_element(c.array.elements.begin(), c.array.elements.end());
    EXPECT_GE(real_size(graph, c.tracker), largest == kZero ? 0 : largest + 1) << c.text << "\n" << print(c.tracker);
  });
}

TEST(AxisIsMasked, tells_of_every_axis_on_which_elements_turn_zero) {
  for_seeds(500, [](Random& random) {
    Chain c = random_chain(random, random_shape(random, 200), uniform(random, 2, 7));
    Graph graph;
    int64_t inner = 1;
    for (size_t axis = c.array.shape.size(); axis-- > 0; inner *= c.array.shape[axis]) {
      bool turns = false;
      for (size_t i = 0; i + static_cast<size_t>(inner) < c.array.elements.size(); ++i)
        if (static_cast<int64_t>(i) / inner % c.array.shape[axis] < c.array.shape[axis] - 1)
          turns |= (c.array.elements[i] == kZero) != (c.array.elements[i + static_cast<size_t>(inner)] == kZero);
      if (turns) {
        EXPECT_TRUE(axis_is_masked(graph, c.tracker, static_cast<int>(axis))) << c.text << " axis " << axis;
      }
    }
  });
}

}  // namespace
}  // namespace quern::test
