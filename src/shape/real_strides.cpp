// What a tracker's axes do in the buffer: strides, masked axes, the size read.

#include <algorithm>
#include <limits>

#include "quern/error.h"

#include "ir/graph.h"
#include "shape/shapetracker.h"
#include "symbolic/simplify.h"

namespace quern {

namespace {

using Strides = std::vector<std::optional<SInt>>;

/// All ints: what the index and mask clauses simplify to can be read off.
bool is_plain(const View& v) {
  if (!v.offset.is_int() || !all_int(v.shape) || !all_int(v.strides)) return false;
  return !v.mask || std::all_of(v.mask->begin(), v.mask->end(),
                                [](const Bounds& b) { return b.first.is_int() && b.second.is_int(); });
}

/// The only view, if it is plain.
const View* plain_view(const ShapeTracker& st) {
  return st.views.size() == 1 && is_plain(st.views[0]) ? &st.views[0] : nullptr;
}

/// Of a plain view, inside its mask.
Int128 largest_index(const View& v) {
  Int128 largest = v.offset.value();
  for (size_t i = 0; i < v.shape.size(); ++i) {
    Int128 begin = v.mask ? (*v.mask)[i].first.value() : 0;
    Int128 end = v.mask ? (*v.mask)[i].second.value() : v.shape[i].value();
    Int128 stride = v.strides[i].value();
    largest += stride * (stride > 0 ? end - 1 : begin);
  }
  return largest;
}

bool nothing_inside(const View& v) {
  return v.mask && std::any_of(v.mask->begin(), v.mask->end(),
                               [](const Bounds& b) { return b.second.value() <= b.first.value(); });
}

/// The mask cuts this axis.
bool is_cut(const View& v, size_t axis) {
  if (!v.mask) return false;
  const auto& [begin, end] = (*v.mask)[axis];
  return !(begin == 0) || !(end == v.shape[axis]);
}

/// Axes whose RANGE an expression has.
std::vector<bool> axes_in(UOp expr, size_t count) {
  std::vector<bool> found(count);
  for (UOp u : toposort(expr))
    if (u.is(Op::Range)) found[static_cast<size_t>(std::get<RangeArg>(u.arg()).axis)] = true;
  return found;
}

/// Index and validity, each simplified as far as the other lets it. `index` is empty if nothing is ever valid.
Indexed simplified_index(Graph& graph, const ShapeTracker& st) {
  Indexed at = index_tracker(graph, st);
  at.index = graph_rewrite(at.index, symbolic_flat());
  at.valid = graph_rewrite(at.valid, symbolic_flat());
  if (std::optional<UOp> valid = simplify_valid(at.valid)) at.valid = *valid;
  if (std::optional<UOp> index = simplify_given(at.valid, at.index)) at.index = graph_rewrite(*index, symbolic_flat());
  return at;
}

/// The axis and stride of a term: RANGE, or RANGE * constant.
std::optional<std::pair<size_t, SInt>> axis_stride(UOp term) {
  UOp range = term;
  SInt stride = 1;
  if (term.is(Op::Mul)) {
    int at = term.src(1).is_const() ? 1 : 0;
    if (!term.src(static_cast<size_t>(at)).is_const()) return std::nullopt;
    stride = SInt(term.src(static_cast<size_t>(at)));
    range = term.src(static_cast<size_t>(1 - at));
  }
  if (!range.is(Op::Range)) return std::nullopt;
  return std::pair(static_cast<size_t>(std::get<RangeArg>(range.arg()).axis), stride);
}

}  // namespace

std::vector<std::optional<SInt>> real_strides_by_index(Graph& graph, const ShapeTracker& st, bool ignore_valid) {
  size_t n = st.shape().size();
  Indexed at = simplified_index(graph, st);
  Strides strides(n);
  for (UOp term : split(at.index, Op::Add))
    if (auto found = axis_stride(term)) strides[found->first] = found->second;
  std::vector<bool> used = axes_in(at.index, n), masked = axes_in(at.valid, n);
  for (size_t i = 0; i < n; ++i) {
    if (!used[i]) strides[i] = SInt(0);
    if (masked[i] && !ignore_valid) strides[i].reset();
  }
  return strides;
}

std::vector<std::optional<SInt>> real_strides(Graph& graph, const ShapeTracker& st, bool ignore_valid) {
  const View& last = st.views.back();
  if (st.views.size() == 1 && !last.mask) return {last.strides.begin(), last.strides.end()};
  const View* plain = plain_view(st);
  if (!plain) return real_strides_by_index(graph, st, ignore_valid);
  if (nothing_inside(*plain)) return Strides(last.shape.size(), SInt(0));
  Strides strides(plain->strides.begin(), plain->strides.end());
  for (size_t i = 0; i < strides.size(); ++i)
    if (!ignore_valid && is_cut(*plain, i)) strides[i].reset();
  return strides;
}

std::vector<int> unit_stride_axes(Graph& graph, const ShapeTracker& st, bool ignore_valid) {
  std::vector<int> axes;
  Strides strides = real_strides(graph, st, ignore_valid);
  for (size_t i = 0; i < strides.size(); ++i)
    if (strides[i] && *strides[i] == 1) axes.push_back(static_cast<int>(i));
  return axes;
}

std::vector<bool> masked_axes(Graph& graph, const ShapeTracker& st) {
  std::vector<bool> masked(st.shape().size());
  if (std::none_of(st.views.begin(), st.views.end(), [](const View& v) { return v.mask.has_value(); })) return masked;
  if (const View* plain = plain_view(st)) {
    for (size_t i = 0; i < masked.size(); ++i) masked[i] = !nothing_inside(*plain) && is_cut(*plain, i);
    return masked;
  }
  return axes_in(graph_rewrite(index_tracker(graph, st).valid, symbolic_flat()), masked.size());
}

bool axis_is_masked(Graph& graph, const ShapeTracker& st, int axis) {
  return masked_axes(graph, st)[static_cast<size_t>(axis)];
}

int64_t real_size(Graph& graph, const ShapeTracker& st) {
  for (const View& v : st.views)
    if (std::find(v.shape.begin(), v.shape.end(), SInt(0)) != v.shape.end() || (is_plain(v) && nothing_inside(v)))
      return 0;
  const View& first = st.views.front();
  std::optional<Int128> largest;
  if (is_plain(first)) largest = largest_index(first);
  if (st.views.size() > 1 || !largest) {
    Indexed at = index_tracker(graph, st);
    if (at.valid.vmax() == 0) return 0;
    largest = largest ? std::min(*largest, at.index.vmax()) : at.index.vmax();
  }
  if (*largest >= std::numeric_limits<int64_t>::max())
    throw InvalidKernel("[shape] a view reads element " + to_string(*largest) + ": more than 64 bits can count");
  return *largest < 0 ? 0 : static_cast<int64_t>(*largest) + 1;
}

}  // namespace quern
