#include "shape/view.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "quern/error.h"

#include "ir/graph.h"
#include "ir/text.h"
#include "symbolic/simplify.h"

namespace quern {

namespace {

std::string join(size_t count, auto&& item) {
  std::string text = "(";
  for (size_t i = 0; i < count; ++i) text += (i ? ", " : "") + item(i);
  return text + (count == 1 ? ",)" : ")");
}

/// Simplified: a message should show "v + 1", not how it came about.
std::string text_of(const SInt& s) { return print(simplified(s)); }

[[noreturn]] void refuse(const std::string& op, const std::string& what) {
  throw InvalidKernel("[" + op + "] " + what);
}

void check_sizes(const Shape& shape) {
  for (const SInt& s : shape)
    if (is_less(s, 0, false)) refuse("view", "a size cannot be negative: " + print(shape));
}

/// A view's symbolic parts must stay within 64 bits for every value of their variables.
void check_fits(const SInt& s) {
  auto fits = [](UOp expr) {
    return expr.vmin() >= std::numeric_limits<int64_t>::min() && expr.vmax() <= std::numeric_limits<int64_t>::max();
  };
  if (s.is_int() || fits(s.expr())) return;
  UOp simple = simplify(s.expr());
  if (!fits(simple))
    refuse("view", "a symbolic part does not fit 64 bits: it goes from " + to_string(simple.vmin()) + " to " +
                       to_string(simple.vmax()));
}

void check_count(const char* op, size_t given, const View& v) {
  if (given != v.shape.size())
    refuse(op, std::to_string(given) + " arguments for the " + std::to_string(v.shape.size()) + " axes of " +
                   print(v.shape));
}

bool has_zero(const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](const SInt& s) { return s == 0; });
}

bool covers(const Mask& mask, const Shape& shape) {
  for (size_t i = 0; i < shape.size(); ++i)
    if (!(mask[i].first == 0 && mask[i].second == shape[i])) return false;
  return true;
}

bool is_row_major(const Shape& shape, const std::vector<SInt>& strides) {
  SInt expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (!(strides[i] == (shape[i] == 1 ? SInt(0) : expected))) return false;
    if (i > 0) expected *= shape[i];
  }
  return true;
}

/// Axes of which the mask leaves one index read one place only: their stride goes into the offset.
void fold_single_indices(std::vector<SInt>& strides, SInt& offset, Mask& mask) {
  bool empty = false, any = false;
  for (const auto& [begin, end] : mask) {
    if (is_less(begin + 1, end)) continue;
    any = true;
    empty |= !is_less(begin, end);
  }
  if (empty) {
    std::fill(strides.begin(), strides.end(), 0);
    std::fill(mask.begin(), mask.end(), Bounds{0, 0});
    offset = 0;
    return;
  }
  if (!any) return;
  SInt moved = 0;
  for (size_t i = 0; i < mask.size(); ++i) {
    if (is_less(mask[i].first + 1, mask[i].second)) continue;
    moved += strides[i] * mask[i].first;
    strides[i] = 0;
  }
  offset += moved;
}

/// The window [begin, end) of each axis, beyond the view's edges where it is padded (`padding`: what of it is inside).
View resize(const View& v, const Mask& window, std::optional<Mask> padding) {
  size_t n = v.shape.size();
  SInt moved_by = 0;
  Shape shape(n);
  std::optional<Mask> mask = std::move(padding);
  if (v.mask) {
    Mask moved(n);
    for (size_t i = 0; i < n; ++i) {
      const auto& [begin, end] = (*v.mask)[i];
      const auto& [first, last] = window[i];
      SInt size = last - first;
      moved[i] = {smax(0, smin(begin - first, size)), smax(0, smin(end - first, size))};
      if (mask) moved[i] = {smax(moved[i].first, (*mask)[i].first), smin(moved[i].second, (*mask)[i].second)};
    }
    mask = std::move(moved);
  }
  for (size_t i = 0; i < n; ++i) {
    moved_by += v.strides[i] * window[i].first;
    shape[i] = simplified(window[i].second - window[i].first);
  }
  return make_view(std::move(shape), v.strides, v.offset + moved_by, std::move(mask));
}

/// x elements, every `step`-th of them from the first on.
SInt strided_count(const SInt& x, int64_t step) { return step == 1 ? x : floor_div(x + (step - 1), step); }

}  // namespace

std::string print(const Shape& shape) {
  return join(shape.size(), [&](size_t i) { return text_of(shape[i]); });
}

std::string print(const Mask& mask) {
  return join(mask.size(),
              [&](size_t i) { return "(" + text_of(mask[i].first) + ", " + text_of(mask[i].second) + ")"; });
}

std::vector<SInt> strides_for_shape(const Shape& shape) {
  std::vector<SInt> strides(shape.size());
  SInt stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (!(shape[i] == 1)) strides[i] = stride;
    if (i > 0) stride *= shape[i];
  }
  return strides;
}

View make_view(Shape shape) {
  check_sizes(shape);
  for (SInt& s : shape) s = simplified(s);
  std::vector<SInt> strides = has_zero(shape) ? std::vector<SInt>(shape.size()) : strides_for_shape(shape);
  for (const SInt& s : strides) check_fits(s);
  return {std::move(shape), std::move(strides), 0, std::nullopt, true};
}

View make_view(Shape shape, std::vector<SInt> strides, SInt offset, std::optional<Mask> mask) {
  if (strides.size() != shape.size() || (mask && mask->size() != shape.size()))
    refuse("view", std::to_string(strides.size()) + " strides" +
                       (mask ? " and a mask of " + std::to_string(mask->size()) + " axes" : "") + " for the shape " +
                       print(shape));
  check_sizes(shape);
  for (size_t i = 0; i < shape.size(); ++i) {
    shape[i] = simplified(shape[i]);
    if (shape[i] == 1) strides[i] = 0;
  }
  if (has_zero(shape)) return make_view(std::move(shape));
  if (mask && covers(*mask, shape)) mask.reset();
  if (mask) fold_single_indices(strides, offset, *mask);
  offset = simplified(offset);
  check_fits(offset);
  for (const SInt& s : strides) check_fits(s);
  bool contiguous = offset == 0 && !mask && is_row_major(shape, strides);
  return {std::move(shape), std::move(strides), offset, std::move(mask), contiguous};
}

int64_t view_size(const View& v) {
  SInt size = 1;
  for (const SInt& s : v.shape) {
    Int128 most = max_of(s);
    if (most > std::numeric_limits<int64_t>::max()) refuse("view", "a size of " + print(v.shape) + " has no bound");
    size *= static_cast<int64_t>(most);
  }
  return size.value();
}

View permute(const View& v, std::span<const int> axes) {
  size_t n = v.shape.size();
  std::vector<bool> used(n);
  for (int a : axes) {
    bool fits = a >= 0 && static_cast<size_t>(a) < n && axes.size() == n && !used[static_cast<size_t>(a)];
    if (!fits) break;
    used[static_cast<size_t>(a)] = true;
  }
  if (axes.size() != n || std::find(used.begin(), used.end(), false) != used.end())
    refuse("permute", join(axes.size(), [&](size_t i) { return std::to_string(axes[i]); }) + " does not order the " +
                          std::to_string(n) + " axes of " + print(v.shape));
  Shape shape(n);
  std::vector<SInt> strides(n);
  std::optional<Mask> mask;
  if (v.mask) mask.emplace(n);
  for (size_t i = 0; i < n; ++i) {
    auto from = static_cast<size_t>(axes[i]);
    shape[i] = v.shape[from];
    strides[i] = v.strides[from];
    if (mask) (*mask)[i] = (*v.mask)[from];
  }
  return make_view(std::move(shape), std::move(strides), v.offset, std::move(mask));
}

View expand(const View& v, const Shape& shape) {
  check_count("expand", shape.size(), v);
  for (size_t i = 0; i < shape.size(); ++i)
    if (!(v.shape[i] == 1) && is_not_equal(v.shape[i], shape[i], false))
      refuse("expand", "cannot grow " + print(v.shape) + " to " + print(shape) + ": axis " + std::to_string(i) +
                           " has size " + text_of(v.shape[i]) + ", not 1");
  if (has_zero(v.shape)) return make_view(shape);
  std::optional<Mask> mask = v.mask;
  if (mask)
    for (size_t i = 0; i < shape.size(); ++i)
      if (v.shape[i] == 1 && !(shape[i] == 1))
        (*mask)[i] = (*mask)[i] == Bounds{0, 1} ? Bounds{0, shape[i]} : Bounds{0, 0};
  return make_view(shape, v.strides, v.offset, std::move(mask));
}

View pad(const View& v, const Mask& amounts) {
  check_count("pad", amounts.size(), v);
  bool any = false;
  for (const auto& [before, after] : amounts) {
    if (is_less(before, 0, false) || is_less(after, 0, false))
      refuse("pad", "cannot pad " + print(v.shape) + " by " + print(amounts) + ": an amount is negative");
    any |= is_not_equal(before, 0) || is_not_equal(after, 0);
  }
  if (!any) return v;
  size_t n = amounts.size();
  Mask window(n), inside(n);
  for (size_t i = 0; i < n; ++i) {
    const auto& [before, after] = amounts[i];
    window[i] = {-before, v.shape[i] + after};
    inside[i] = {before, v.shape[i] + before};
  }
  return resize(v, window, std::move(inside));
}

View shrink(const View& v, const Mask& ranges) {
  check_count("shrink", ranges.size(), v);
  for (size_t i = 0; i < ranges.size(); ++i) {
    const auto& [begin, end] = ranges[i];
    if (is_less(begin, 0, false) || is_less(end, begin, false) || is_less(v.shape[i], end, false))
      refuse("shrink", "cannot take " + print(ranges) + " of " + print(v.shape) + ": axis " + std::to_string(i) +
                           " has size " + text_of(v.shape[i]));
  }
  return resize(v, ranges, std::nullopt);
}

View stride(const View& v, std::span<const int64_t> steps) {
  check_count("stride", steps.size(), v);
  size_t n = steps.size();
  Shape shape(n);
  std::vector<SInt> strides(n);
  SInt moved_by = 0;
  std::optional<Mask> mask;
  if (v.mask) mask.emplace(n);
  for (size_t i = 0; i < n; ++i) {
    int64_t step = steps[i];
    if (step == 0 || step == std::numeric_limits<int64_t>::min())
      refuse("stride", "the step " + std::to_string(step) + " of axis " + std::to_string(i) + " of " + print(v.shape));
    int64_t length = step < 0 ? -step : step;
    const SInt& size = v.shape[i];
    shape[i] = strided_count(size, length);
    strides[i] = v.strides[i] * step;
    if (step < 0) moved_by += (size - 1) * v.strides[i];
    if (!mask) continue;
    const auto& [begin, end] = (*v.mask)[i];
    (*mask)[i] = {strided_count(step > 0 ? begin : size - end, length),
                  strided_count(step > 0 ? end : size - begin, length)};
  }
  return make_view(std::move(shape), std::move(strides), v.offset + moved_by, std::move(mask));
}

Indexed index_view(Graph& graph, const View& v, std::span<const UOp> axis_indices, UOp valid) {
  if (axis_indices.size() != v.shape.size())
    throw InternalError(std::to_string(axis_indices.size()) + " indices for " + print(v.shape));
  UOp index = v.offset == 0 ? UOp() : graph.index_of(v.offset);
  if (valid && valid.is_const_int(1)) valid = UOp();
  auto require = [&](UOp clause) { valid = valid ? valid & clause : clause; };
  for (size_t i = 0; i < v.shape.size(); ++i) {
    UOp axis = axis_indices[i];
    const SInt& size = v.shape[i];
    if (is_not_equal(size, 1) && is_not_equal(v.strides[i], 0)) {
      UOp term = v.strides[i] == 1 ? axis : axis * graph.index_of(v.strides[i]);
      index = index ? index + term : term;
    }
    if (!v.mask) continue;
    const auto& [begin, end] = (*v.mask)[i];
    if (is_not_equal(begin, 0)) require(axis.ge(graph.index_of(begin)));
    if (is_not_equal(end, size)) require(axis.lt(graph.index_of(end)));
  }
  return {index ? index : graph.const_index(0), valid ? valid : graph.const_bool(true)};
}

}  // namespace quern
