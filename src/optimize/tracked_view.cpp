#include "optimize/tracked_view.h"

namespace quern {
namespace {

TrackedView::Strides plain_strides(const View& view) { return {view.strides.begin(), view.strides.end()}; }

}  // namespace

const TrackedView::Strides& TrackedView::strides(Graph& graph, bool ignore_mask) const {
  std::optional<Strides>& known = ignore_mask ? unmasked_strides_ : strides_;
  if (!known) {
    const bool plain = tracker_.views.size() == 1 && !tracker_.views[0].mask;
    known = plain ? plain_strides(tracker_.views[0]) : real_strides(graph, tracker_, ignore_mask);
  }
  return *known;
}

std::vector<int> TrackedView::unit_stride_axes(Graph& graph, bool ignore_mask) const {
  std::vector<int> axes;
  const Strides& all = strides(graph, ignore_mask);
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i] && *all[i] == 1) axes.push_back(static_cast<int>(i));
  return axes;
}

bool TrackedView::is_masked(Graph& graph, int axis) const {
  if (!masked_) masked_ = masked_axes(graph, tracker_);
  return (*masked_)[static_cast<size_t>(axis)];
}

}  // namespace quern
