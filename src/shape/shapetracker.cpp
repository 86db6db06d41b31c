#include "shape/shapetracker.h"

#include <algorithm>

#include "quern/error.h"

#include "ir/graph.h"

namespace quern {

namespace {

/// The tracker with another view on top in place of its last one.
ShapeTracker with_last(const ShapeTracker& st, View last) {
  ShapeTracker result;
  result.views.reserve(st.views.size());
  result.views.assign(st.views.begin(), st.views.end() - 1);
  result.views.push_back(std::move(last));
  return result;
}

void merge_last_views(std::vector<View>& views) {
  while (views.size() >= 2) {
    std::optional<View> merged = compose(views[views.size() - 2], views.back());
    if (!merged) return;
    views.pop_back();
    views.back() = std::move(*merged);
  }
}

}  // namespace

ShapeTracker tracker(Shape shape) { return {{make_view(std::move(shape))}}; }

int64_t size_of(const ShapeTracker& st) { return view_size(st.views.back()); }

bool is_contiguous(const ShapeTracker& st) { return st.views.size() == 1 && st.views[0].contiguous; }

Shape reduced_shape(const Shape& shape, std::span<const int32_t> axes) {
  Shape result = shape;
  for (int32_t a : axes) {
    if (a < 0 || static_cast<size_t>(a) >= shape.size())
      throw InvalidKernel("[reduce] axis " + std::to_string(a) + " is not one of " + print(shape));
    result[static_cast<size_t>(a)] = 1;
  }
  return result;
}

ShapeTracker permute(const ShapeTracker& st, std::span<const int> axes) {
  return with_last(st, permute(st.views.back(), axes));
}
ShapeTracker expand(const ShapeTracker& st, const Shape& shape) {
  return with_last(st, expand(st.views.back(), shape));
}
ShapeTracker pad(const ShapeTracker& st, const Mask& amounts) { return with_last(st, pad(st.views.back(), amounts)); }
ShapeTracker shrink(const ShapeTracker& st, const Mask& ranges) {
  return with_last(st, shrink(st.views.back(), ranges));
}
ShapeTracker stride(const ShapeTracker& st, std::span<const int64_t> steps) {
  return with_last(st, stride(st.views.back(), steps));
}

ShapeTracker reshape(const ShapeTracker& st, const Shape& shape) {
  if (std::optional<View> last = reshape(st.views.back(), shape)) return with_last(st, std::move(*last));
  ShapeTracker result = st;
  result.views.push_back(make_view(shape));
  return result;
}

std::optional<ShapeTracker> invert(const ShapeTracker& st, const Shape& out_shape) {
  ShapeTracker result;
  for (size_t i = st.views.size(); i-- > 0;) {
    std::optional<View> inverted = invert(st.views[i], i > 0 ? st.views[i - 1].shape : out_shape);
    if (!inverted) return std::nullopt;
    result.views.push_back(std::move(*inverted));
  }
  return reshape(result, out_shape);
}

ShapeTracker compose(const ShapeTracker& inner, const ShapeTracker& outer) {
  ShapeTracker result = inner;
  for (const View& view : outer.views) {  // merged one by one: more of them merge
    result.views.push_back(view);
    merge_last_views(result.views);
  }
  return result;
}

ShapeTracker simplify(const ShapeTracker& st) {
  ShapeTracker result = st;
  merge_last_views(result.views);
  return result;
}

Indexed index_tracker(Graph& graph, const ShapeTracker& st, std::span<const UOp> axis_indices) {
  const Shape& shape = st.shape();
  std::vector<UOp> indices(axis_indices.begin(), axis_indices.end());
  if (axis_indices.empty())
    for (size_t i = 0; i < shape.size(); ++i) indices.push_back(graph.range(0, shape[i], static_cast<int>(i)));
  Indexed at = index_view(graph, st.views.back(), indices, UOp());
  for (size_t i = st.views.size() - 1; i-- > 0;) {
    View view = minify(st.views[i]);
    indices.assign(view.shape.size(), UOp());
    SInt passed = 1;  // elements of the axes inside of this one
    for (size_t axis = view.shape.size(); axis-- > 0;) {
      UOp row = passed == 1 ? at.index : at.index.idiv(graph.index_of(passed));
      indices[axis] = row.mod(graph.index_of(view.shape[axis]));
      passed *= view.shape[axis];
    }
    at = index_view(graph, view, indices, at.valid);
  }
  return at;
}

std::vector<UOp> variables(const ShapeTracker& st) {
  std::vector<UOp> found;
  auto visit = [&](const SInt& s) {
    if (s.is_int()) return;
    for (UOp u : toposort(s.expr()))
      if (u.is(Op::DefineVar) && std::find(found.begin(), found.end(), u) == found.end()) found.push_back(u);
  };
  for (const View& v : st.views) {
    std::for_each(v.shape.begin(), v.shape.end(), visit);
    std::for_each(v.strides.begin(), v.strides.end(), visit);
    visit(v.offset);
    if (!v.mask) continue;
    for (const auto& [begin, end] : *v.mask) {
      visit(begin);
      visit(end);
    }
  }
  std::sort(found.begin(), found.end(), [](UOp a, UOp b) {
    const VarArg& x = *std::get<const VarArg*>(a.arg());
    const VarArg& y = *std::get<const VarArg*>(b.arg());
    return std::tie(x.name, x.min, x.max) < std::tie(y.name, y.min, y.max);
  });
  return found;
}

}  // namespace quern
