#pragma once
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "shape/shapetracker.h"

namespace quern::test {

/// An array written out: what a tracker stands for. kZero is an element that is masked off.
struct Array {
  std::vector<int64_t> shape;
  std::vector<int64_t> elements;  ///< places in the buffer, row-major
  bool operator==(const Array&) const = default;
};
inline constexpr int64_t kZero = INT64_MIN;

Array iota(std::vector<int64_t> shape);
Array reshape(const Array& a, const std::vector<int64_t>& shape);
Array permute(const Array& a, const std::vector<int>& axes);
Array expand(const Array& a, const std::vector<int64_t>& shape);
Array pad(const Array& a, const std::vector<std::pair<int64_t, int64_t>>& amounts);
Array shrink(const Array& a, const std::vector<std::pair<int64_t, int64_t>>& ranges);
Array stride(const Array& a, const std::vector<int64_t>& steps);
/// `a` with each place looked up in `below`.
Array through(const Array& a, const Array& below);

/// The tracker's elements, by following the views for each index. All sizes ints.
Array elements_of(const ShapeTracker& st);
Array elements_of(const View& v);

/// The value of an index or bool expression; `value_of` gives those of RANGEs and variables.
int64_t evaluate(UOp expr, const std::function<int64_t(UOp)>& value_of);
/// The tracker's elements by its index expression, with all variables at the given value.
Array elements_by_index(Graph& graph, const ShapeTracker& st, int64_t variable);

using Random = std::mt19937_64;
int64_t uniform(Random& random, int64_t low, int64_t high);  ///< inclusive
std::vector<int64_t> random_shape(Random& random, int64_t most_elements);

/// A movement op for a shape, with its arguments and how it prints.
struct Movement {
  std::string text;
  std::function<ShapeTracker(const ShapeTracker&)> on_tracker;
  std::function<Array(const Array&)> on_array;
};
Movement random_movement(Random& random, const std::vector<int64_t>& shape, int64_t most_elements);

Shape to_shape(const std::vector<int64_t>& sizes);
Mask to_mask(const std::vector<std::pair<int64_t, int64_t>>& bounds);

}  // namespace quern::test
