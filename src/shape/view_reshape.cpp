// Reshape of one view, and what is a special case of it: fewest axes, and the inverse of a movement.

#include <algorithm>
#include <numeric>

#include "quern/error.h"

#include "ir/graph.h"
#include "ir/text.h"
#include "shape/view.h"
#include "shape/view_parts.h"
#include "symbolic/simplify.h"

namespace quern {

namespace {

/// Neighbouring axes that step through memory as one.
struct MergedAxis {
  SInt size;
  SInt stride;
  SInt
      strided_size;  ///< how far from the end (in elements) the stride holds; the outer rest repeats: 0 if all of it does
};

bool leaves_one_index(const View& v, size_t axis) {
  if (!v.mask) return v.shape[axis] == 1;
  const auto& [begin, end] = (*v.mask)[axis];
  return begin.is_int() && end.is_int() && end.value() - begin.value() == 1;
}

std::vector<MergedAxis> merge_axes(const View& v) {
  std::vector<MergedAxis> merged;
  if (v.shape.empty()) return merged;
  merged.reserve(v.shape.size());
  auto strided = [](const SInt& stride, const SInt& size) { return stride == 0 ? SInt(0) : size; };
  merged.push_back({v.shape[0], v.strides[0], strided(v.strides[0], v.shape[0])});
  bool joins = leaves_one_index(v, 0);  // an axis of one index joins the next, whatever its stride
  for (size_t i = 1; i < v.shape.size(); ++i) {
    const SInt& size = v.shape[i];
    const SInt& stride = v.strides[i];
    if (size == 1) continue;
    MergedAxis& last = merged.back();
    if (joins || last.stride == size * stride)
      last = {last.size * size, stride, strided(stride, joins ? size : last.strided_size * size)};
    else
      merged.push_back({size, stride, strided(stride, size)});
    joins = leaves_one_index(v, i);
  }
  return merged;
}

/// Strides for `shape`, by filling each merged axis from the back with sizes of the new shape; nothing if one cuts across.
std::optional<std::vector<SInt>> distribute_strides(const View& v, const Shape& shape) {
  std::vector<SInt> strides(shape.size());
  size_t left = shape.size();
  std::vector<MergedAxis> merged = merge_axes(v);
  for (size_t m = merged.size(); m-- > 0;) {
    const MergedAxis& axis = merged[m];
    SInt filled = 1, stride = axis.stride;
    while (is_greater_equal(axis.size, filled) && is_not_equal(axis.size, filled)) {
      if (left == 0 || !is_less(0, shape[left - 1])) break;
      const SInt& size = shape[--left];
      strides[left] = stride;
      if (!is_not_equal(size, 1)) continue;
      filled *= size;
      stride = is_less(filled, axis.strided_size) ? stride * size : SInt(0);
    }
    if (is_not_equal(filled, axis.size)) return std::nullopt;
  }
  return strides;
}

/// Walks a mask's axes and the new sizes from the back, splitting and joining the mask's bounds as sizes do.
class MaskReshape {
 public:
  MaskReshape(const Mask& mask, const Shape& old_shape, const Shape& new_shape)
      : mask_(mask),
        old_shape_(old_shape),
        new_shape_(new_shape),
        old_left_(mask.size()),
        new_left_(new_shape.size()) {}

  /// Nothing if the mask is no mask of the new shape.
  std::optional<Mask> run() {
    Mask result(new_shape_.size());
    size_t at = result.size();
    next_old();
    int64_t size = next_new(), done = 1;  // of the current old axis, the innermost `done` indices are dealt with
    while (at > 0) {
      Int128 through = Int128{size} * done;
      if (size_ == through) {
        result[--at] = {begin_ / done, (end_ - 1) / done + 1};
        done = 1;
        next_old();
        size = next_new();
      } else if (size_ > through) {
        if (cuts_across(static_cast<int64_t>(through))) return std::nullopt;
        auto stride = static_cast<int64_t>(through);
        result[--at] = {begin_ % stride / done, (end_ - 1) % stride / done + 1};
        done = stride;
        size = next_new();
      } else if (!join_next()) {
        return std::nullopt;
      }
    }
    return result;  // old axes left over have size 1 and are inside: the mask is not empty
  }

 private:
  void next_old() {
    size_ = old_left_ ? old_shape_[old_left_ - 1].value() : 1;
    begin_ = old_left_ ? mask_[old_left_ - 1].first.value() : 0;
    end_ = old_left_ ? mask_[old_left_ - 1].second.value() : 1;
    if (old_left_) --old_left_;
  }
  int64_t next_new() { return new_left_ ? new_shape_[--new_left_].value() : 1; }

  /// A split at `stride` must leave the mask within one row, or whole rows of it.
  bool cuts_across(int64_t stride) const {
    bool whole_rows = begin_ % stride == 0 && end_ % stride == 0;
    return size_ % stride != 0 || (!whole_rows && begin_ / stride != (end_ - 1) / stride);
  }

  /// Takes the next outer old axis in: its mask must be one index, or the current one whole.
  bool join_next() {
    if (old_left_ == 0) return false;
    int64_t begin = begin_, end = end_, size = size_;
    next_old();
    if (!(begin == 0 && end == size) && end_ - begin_ != 1) return false;
    begin_ = begin_ * size + begin;
    end_ = (end_ - 1) * size + end;
    size_ *= size;
    return true;
  }

  const Mask& mask_;
  const Shape& old_shape_;
  const Shape& new_shape_;
  size_t old_left_, new_left_;
  int64_t size_ = 1, begin_ = 0, end_ = 1;  // the current old axis, or several joined, and its mask
};

std::optional<Mask> reshape_mask(const View& v, const Shape& shape) {
  for (const auto& [begin, end] : *v.mask)
    if (!begin.is_int() || !end.is_int()) return std::nullopt;
  for (const auto& [begin, end] : *v.mask)
    if (end.value() <= begin.value()) return Mask(shape.size(), Bounds{0, 0});
  if (!all_int(v.shape) || !all_int(shape)) return std::nullopt;
  return MaskReshape(*v.mask, v.shape, shape).run();
}

/// The value of a size whose variables are all bound (BIND nodes), or nothing.
std::optional<int64_t> bound_value(const SInt& size) {
  if (size.is_int()) return size.value();
  std::vector<std::pair<UOp, UOp>> values;
  for (UOp u : toposort(size.expr()))
    if (u.is(Op::Bind)) values.emplace_back(u, u.src(1));
  SInt value = simplified(substitute(size.expr(), values));
  return value.is_int() ? std::optional(value.value()) : std::nullopt;
}

/// Sizes that are ints, renamed to symbolic ones of the same values.
std::optional<View> rename_sizes(const View& v, const Shape& shape) {
  if (shape.size() != v.shape.size()) return std::nullopt;
  for (size_t i = 0; i < shape.size(); ++i) {
    std::optional<int64_t> value = bound_value(shape[i]);
    if (!value || !(v.shape[i] == *value)) return std::nullopt;
  }
  return View{shape, v.strides, v.offset, v.mask, v.contiguous};
}

[[noreturn]] void refuse(const View& v, const Shape& shape, const std::string& why) {
  throw InvalidKernel("[reshape] cannot view " + print(v.shape) + " as " + print(shape) + ": " + why);
}

void check_same_size(const View& v, const Shape& shape) {
  SInt from = prod(v.shape), to = prod(shape);
  if (!is_not_equal(from, to, false)) return;
  refuse(v, shape, print(simplified(from)) + " elements, not " + print(simplified(to)));
}

}  // namespace

std::optional<View> view_parts::reshape_same_size(const View& v, const Shape& shape) {
  if (shape.empty() && v.mask)
    for (const auto& [begin, end] : *v.mask)
      if (begin == end) return std::nullopt;
  if (v.contiguous) return make_view(shape);
  if (all_int(v.shape) && !all_int(shape)) return rename_sizes(v, shape);
  std::optional<std::vector<SInt>> strides = distribute_strides(v, shape);
  if (!strides) return std::nullopt;
  if (!v.mask) return make_view(shape, std::move(*strides), v.offset);

  std::optional<Mask> mask = reshape_mask(v, shape);
  if (!mask) return std::nullopt;
  SInt from = 0, to = 0;  // both views read the same place at the mask's first index
  for (size_t i = 0; i < v.shape.size(); ++i) from += (*v.mask)[i].first * v.strides[i];
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto& [begin, end] = (*mask)[i];
    if (end.value() - begin.value() == 1) (*strides)[i] = 0;
    to += begin * (*strides)[i];
  }
  return make_view(shape, std::move(*strides), v.offset + (from - to), std::move(mask));
}

std::optional<View> reshape(const View& v, const Shape& shape) {
  if (v.shape == shape) return v;
  for (const SInt& s : shape)
    if (is_less(s, 0, false)) refuse(v, shape, "a size cannot be negative");
  check_same_size(v, shape);
  if (std::find(v.shape.begin(), v.shape.end(), SInt(0)) != v.shape.end()) return make_view(shape);
  bool to_symbolic = !v.contiguous && all_int(v.shape) && !all_int(shape);
  std::optional<View> result = view_parts::reshape_same_size(v, shape);
  if (!result && to_symbolic) refuse(v, shape, "a view that is not contiguous takes only variables bound to its sizes");
  return result;
}

std::optional<View> invert(const View& v, const Shape& out_shape) {
  View inverse = make_view(v.shape);
  if (v.mask) inverse = shrink(inverse, *v.mask);
  std::vector<int64_t> steps;
  std::vector<int> order;
  for (const SInt& s : v.strides) {
    if (min_of(s) < 0 && max_of(s) > 0) return std::nullopt;
    steps.push_back(max_of(s) > 0 || min_of(s) == 0 ? 1 : -1);
    order.push_back(static_cast<int>(order.size()));
  }
  // Row-major order: larger steps through memory first.
  auto magnitude = [&](int axis) {
    const SInt& s = v.strides[static_cast<size_t>(axis)];
    return max_of(s) > 0 ? std::pair(-max_of(s), -min_of(s)) : std::pair(min_of(s), max_of(s));
  };
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return std::pair(magnitude(a), a) < std::pair(magnitude(b), b); });
  inverse = permute(stride(inverse, steps), order);
  if (prod(inverse.shape) != prod(out_shape)) return std::nullopt;
  return inverse;
}

View minify(const View& v) {
  Shape shape;
  for (const MergedAxis& axis : merge_axes(v)) shape.push_back(axis.size);
  if (shape == v.shape) return v;
  return view_parts::reshape_same_size(v, shape).value_or(v);
}

}  // namespace quern
