#include "engine/slice.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "lower/rebuild.h"
#include "shape/shapetracker.h"

namespace quern {

namespace {

const ShapeTracker& tracker_of(UOp view) { return *std::get<const ShapeTracker*>(view.arg()); }

bool reads_an_output(const std::vector<UOp>& nodes) {
  std::set<int64_t> written, read;
  for (UOp u : nodes)
    if (u.is({Op::Load, Op::Store}) && u.src(0).is(Op::DefineGlobal))
      (u.is(Op::Store) ? written : read).insert(std::get<int64_t>(u.src(0).arg()));
  return std::ranges::any_of(written, [&](int64_t number) { return read.contains(number); });
}

}  // namespace

std::vector<SliceAxis> slice_axes(UOp ast) {
  const std::vector<UOp> nodes = toposort(ast);
  const ShapeTracker* out = nullptr;
  std::set<size_t> reduced;
  for (UOp u : nodes) {
    if (u.is(Op::View) && u.num_src() != 0) return {};
    if (u.is(Op::Store)) out = &tracker_of(u.src(1));
    if (u.is(Op::ReduceAxis))
      for (int32_t axis : std::get<const ReduceArg*>(u.arg())->axes) reduced.insert(static_cast<size_t>(axis));
  }
  if (out == nullptr || reads_an_output(nodes)) return {};
  std::vector<SliceAxis> axes;
  for (size_t i = 0; i < out->shape().size(); ++i) {
    const SInt& size = out->shape()[i];
    const bool same = std::ranges::all_of(nodes, [&](UOp u) {
      return !u.is(Op::View) ||
             (tracker_of(u).shape().size() == out->shape().size() && tracker_of(u).shape()[i] == size);
    });
    if (same && size.is_int() && size.value() > 1 && !reduced.contains(i)) axes.push_back({i, size.value()});
  }
  std::ranges::sort(
      axes, [](const SliceAxis& a, const SliceAxis& b) { return std::tie(b.size, a.axis) < std::tie(a.size, b.axis); });
  return axes;
}

UOp slice_of(UOp ast, size_t axis, int64_t begin, int64_t end) {
  return rebuild(toposort(ast), [&](UOp u, std::span<const UOp> src, bool same) {
    if (!u.is(Op::View)) return on_sources(u, src, same);
    const ShapeTracker& st = tracker_of(u);
    Mask ranges;
    for (const SInt& size : st.shape()) ranges.emplace_back(0, size);
    ranges[axis] = {begin, end};
    return u.graph().view(shrink(st, ranges));
  });
}

}  // namespace quern
