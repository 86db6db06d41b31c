// One view of another as a single view, where there is one.

#include <algorithm>

#include "quern/error.h"

#include "ir/graph.h"
#include "shape/view.h"
#include "shape/view_parts.h"

namespace quern {

namespace {

/// The indices that give element `offset` of a row-major array with these strides.
void unflatten(const std::vector<SInt>& strides, SInt offset, std::vector<SInt>& indices) {
  indices.assign(strides.size(), 0);
  for (size_t i = 0; i < strides.size(); ++i) {
    if (strides[i] == 0) continue;
    indices[i] = floor_div(offset, strides[i]);
    offset = offset - indices[i] * strides[i];
  }
}

/// The outer view seen by the inner one's axes: the index on inner axis d is origin[d] + sum over outer axes of index * step.
struct Projection {
  std::vector<SInt> origin;   ///< of outer index (0, 0, ...)
  std::vector<SInt> steps;    ///< [inner axis][outer axis]
  std::vector<SInt> strides;  ///< of outer axes through the inner view
  size_t outer_axes;
  std::span<const SInt> steps_of(size_t inner_axis) const {
    return std::span(steps).subspan(inner_axis * outer_axes, outer_axes);
  }
};

Projection project(const View& inner, const View& outer) {
  size_t rows = inner.shape.size(), columns = outer.shape.size();
  std::vector<SInt> row_major = strides_for_shape(inner.shape);
  Projection p{{}, std::vector<SInt>(rows * columns), std::vector<SInt>(columns), columns};
  unflatten(row_major, outer.offset, p.origin);
  std::vector<SInt> stepped;
  for (size_t c = 0; c < columns; ++c) {
    if (outer.strides[c] == 0) continue;
    unflatten(row_major, outer.offset + outer.strides[c], stepped);
    for (size_t r = 0; r < rows; ++r) {
      SInt step = stepped[r] - p.origin[r];
      if (step == 0) continue;
      p.steps[r * columns + c] = step;
      p.strides[c] += step * inner.strides[r];
    }
  }
  return p;
}

/// Inner axes taken together so that the outer view's index into them never carries into the next one.
struct Extent {
  SInt size;
  Int128 min = 0, max = 0;  ///< of the index
};

/// The index into joined inner axes while they are collected, all ints: a constant and a coefficient an outer axis.
class LinearIndex {
 public:
  explicit LinearIndex(const Shape& outer) : outer_(outer), coefficients_(outer.size()) {}

  void add(const SInt& origin, std::span<const SInt> steps, const SInt& scale) {
    Int128 by = scale.value();
    for (Int128* bound : {&exact_.min, &exact_.max, &summed_.min, &summed_.max}) *bound += by * origin.value();
    for (size_t c = 0; c < steps.size(); ++c) {
      if (steps[c] == 0) continue;
      Int128 last = outer_[c].value() - 1;
      widen(exact_, coefficients_[c], -last);
      coefficients_[c] += by * steps[c].value();
      widen(exact_, coefficients_[c], last);
      widen(summed_, by * steps[c].value(), last);
    }
  }
  /// Where the bounds hold only because an axis steps up in one inner axis and down in another, whether the reference sees
  /// that depends on how far it simplifies: `undecided` then, and false.
  bool fits(const SInt& size) {
    auto inside = [&](const Extent& e) { return e.min >= 0 && e.max < size.value(); };
    if (!inside(exact_)) return false;
    undecided_ |= !inside(summed_);
    return inside(summed_);
  }
  bool is_zero() const { return exact_.min == 0 && exact_.max == 0; }
  bool undecided() const { return undecided_; }
  Int128 min() const { return summed_.min; }
  Int128 max() const { return summed_.max; }
  void clear() {
    std::fill(coefficients_.begin(), coefficients_.end(), 0);
    exact_ = summed_ = {};
  }

 private:
  static void widen(Extent& bounds, Int128 coefficient, Int128 last) {
    (coefficient < 0 ? bounds.min : bounds.max) += coefficient * last;
  }

  const Shape& outer_;
  std::vector<Int128> coefficients_;
  Extent exact_;   // with the steps of each axis added up
  Extent summed_;  // each inner axis by itself
  bool undecided_ = false;
};

/// The same with symbolic sizes or strides: an expression over a variable an outer axis.
class SymbolicIndex {
 public:
  SymbolicIndex(Graph& graph, const Shape& outer) {
    for (size_t c = 0; c < outer.size(); ++c)
      axes_.push_back(graph.variable("idx" + std::to_string(c), 0, outer[c].value() - 1));
  }

  void add(const SInt& origin, std::span<const SInt> steps, const SInt& scale) {
    SInt index = 0;
    for (size_t c = 0; c < steps.size(); ++c)
      if (!(steps[c] == 0)) index += SInt(axes_[c]) * steps[c];
    index_ += (index + origin) * scale;
  }
  bool fits(const SInt& size) const { return is_less(index_, size, false) && is_greater_equal(index_, 0, false); }
  bool is_zero() const { return !is_not_equal(index_, 0); }
  Int128 min() const { return min_of(index_); }
  Int128 max() const { return max_of(index_); }
  void clear() { index_ = 0; }

 private:
  std::vector<UOp> axes_;
  SInt index_ = 0;
};

/// Extents in the order of the inner axes; nothing if the index passes beyond the inner view.
template <class Index>
std::optional<std::vector<Extent>> join_axes(const View& inner, const Projection& p, Index& index) {
  std::vector<Extent> extents;
  SInt size = 1;
  for (size_t r = inner.shape.size(); r-- > 0;) {
    index.add(p.origin[r], p.steps_of(r), size);
    size *= inner.shape[r];
    if (!index.fits(size)) continue;
    extents.push_back({size, index.min(), index.max()});
    index.clear();
    size = 1;
  }
  if (!index.is_zero()) return std::nullopt;
  std::reverse(extents.begin(), extents.end());
  return extents;
}

/// Any symbolic part of the views: it knows the graph.
UOp symbolic_part(const View& v) {
  auto in = [](std::span<const SInt> values) {
    auto it = std::find_if(values.begin(), values.end(), [](const SInt& s) { return !s.is_int(); });
    return it == values.end() ? UOp() : it->expr();
  };
  if (UOp u = in(v.shape)) return u;
  if (UOp u = in(v.strides)) return u;
  return v.offset.is_int() ? UOp() : v.offset.expr();
}

std::optional<std::vector<Extent>> extents_of(const View& inner, const View& outer, const Projection& p) {
  UOp symbolic = symbolic_part(outer);
  if (!symbolic) symbolic = symbolic_part(View{inner.shape, {}, 0, std::nullopt});
  if (symbolic) {
    SymbolicIndex index(symbolic.graph(), outer.shape);
    return join_axes(inner, p, index);
  }
  LinearIndex index(outer.shape);
  std::optional<std::vector<Extent>> extents = join_axes(inner, p, index);
  if (!index.undecided()) return extents;
  Graph graph;  // rare
  SymbolicIndex expression(graph, outer.shape);
  return join_axes(inner, p, expression);
}

/// The inner mask as a mask of the outer view's axes.
struct ProjectedMask {
  Mask mask;
  bool exact = true;  ///< false: a part of the inner mask cannot be said on the outer axes
};

ProjectedMask project_mask(const View& inner, const View& outer, const Projection& p,
                           const std::vector<Extent>& extents) {
  ProjectedMask result;
  for (const SInt& s : outer.shape) result.mask.emplace_back(0, s);
  for (size_t r = 0; r < std::min(inner.mask->size(), extents.size()); ++r) {
    const auto& [begin, end] = (*inner.mask)[r];
    if (max_of(begin) <= extents[r].min && extents[r].max < min_of(end)) continue;  // always inside
    std::span<const SInt> steps = p.steps_of(r);
    auto moves = [](const SInt& s) { return !(s == 0); };
    auto first = std::find_if(steps.begin(), steps.end(), moves);
    bool all_known = begin.is_int() && end.is_int() && p.origin[r].is_int();
    if (all_known && first == steps.end()) {  // always outside
      if (result.mask.empty())
        result.exact = false;
      else
        result.mask[0].second = 0;
      continue;
    }
    if (!all_known || std::find_if(first + 1, steps.end(), moves) != steps.end() || !first->is_int()) {
      result.exact = false;
      continue;
    }
    auto& [outer_begin, outer_end] = result.mask[static_cast<size_t>(first - steps.begin())];
    Int128 step = first->value(), origin = p.origin[r].value();
    Int128 low = begin.value() - origin, high = end.value() - origin - 1;  // first and last step * index inside
    if (step < 0) std::swap(low, high);
    outer_begin = std::max(outer_begin.value(), static_cast<int64_t>(ceil_div(low, step)));
    outer_end = std::min(outer_end.value(), static_cast<int64_t>(floor_div(high, step) + 1));
  }
  return result;
}

View nothing_inside(const Shape& shape) {
  return make_view(shape, std::vector<SInt>(shape.size()), 0, Mask(shape.size(), Bounds{0, 0}));
}

/// What the outer mask leaves, composed without a mask and padded back.
std::optional<View> compose_inside_mask(const View& inner, const View& outer) {
  const Mask& mask = *outer.mask;
  for (const auto& [begin, end] : mask)
    if (is_greater_equal(begin, end, false)) return nothing_inside(outer.shape);
  std::optional<View> merged = compose(inner, shrink(outer, mask));
  if (!merged) return std::nullopt;
  Mask amounts;
  for (size_t i = 0; i < mask.size(); ++i) amounts.emplace_back(mask[i].first, outer.shape[i] - mask[i].second);
  return pad(*merged, amounts);
}

}  // namespace

std::optional<View> compose(const View& inner, const View& outer) {
  if (inner.contiguous) return outer;
  if (outer.contiguous && outer.shape == inner.shape) return inner;
  if (outer.contiguous && view_size(outer) == view_size(inner))
    if (std::optional<View> reshaped = view_parts::reshape_same_size(inner, outer.shape)) return reshaped;
  if (outer.mask && !outer.mask->empty()) return compose_inside_mask(inner, outer);

  Projection p = project(inner, outer);
  if (!all_int(outer.shape)) return std::nullopt;
  std::optional<std::vector<Extent>> extents = extents_of(inner, outer, p);
  if (!extents) return std::nullopt;
  Shape joined;
  for (const Extent& e : *extents) joined.push_back(e.size);
  if (joined != inner.shape) {
    std::optional<View> reshaped = view_parts::reshape_same_size(inner, joined);
    if (!reshaped) return std::nullopt;
    if (reshaped->shape != inner.shape) return compose(*reshaped, outer);
  }
  if (inner.mask) {
    ProjectedMask projected = project_mask(inner, outer, p, *extents);
    for (size_t i = 0; i < outer.shape.size(); ++i)
      if (projected.mask[i] != Bounds{0, outer.shape[i]})  // the outer view is masked off there: again, with that known
        return compose(inner, make_view(outer.shape, outer.strides, outer.offset, std::move(projected.mask)));
    if (!projected.exact) return std::nullopt;
  }
  SInt offset = 0;
  for (size_t r = 0; r < inner.shape.size(); ++r) offset += p.origin[r] * inner.strides[r];
  return make_view(outer.shape, std::move(p.strides), offset + inner.offset);
}

}  // namespace quern
