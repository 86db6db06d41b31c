#include <algorithm>

#include "optimize/kernel_parts.h"

namespace quern {
namespace {

bool is_kept(const Kernel& kernel, const ActionLimits& limits) {
  Int128 lanes = 1, threads = 1, core_lanes = 1;
  if (const TensorCore* core = kernel.tensor_core()) {
    int64_t core_threads = 1;
    for (const AxisSize& t : core->threads) core_threads *= t.size;
    core_lanes = int64_t{core->dims[0]} * core->dims[1] * core->dims[2] / core_threads;
  }
  for (const Axis& axis : kernel.axes()) {
    const bool upcasted = axis.kind >= AxisKind::Upcast;
    const bool threaded =
        axis.kind == AxisKind::Local || axis.kind == AxisKind::GroupReduce || axis.kind == AxisKind::UpcastMid;
    if (upcasted && lanes < kUnbounded) lanes *= axis.size.value();
    if (threaded && threads < kUnbounded) threads *= axis.size.value();
  }
  return lanes / core_lanes <= limits.max_lanes && threads <= limits.max_threads;
}

bool takes_whole_axes(const std::vector<Opt>& actions, OptOp op, int axis) {
  return std::find(actions.begin(), actions.end(), Opt{op, axis, 0}) != actions.end();
}

}  // namespace

const std::vector<Opt>& actions_for(const Target& target) {
  return target.vector_bytes != 0 ? cpu_search_actions() : search_actions();
}

std::vector<int> legal_actions(const Kernel& kernel, const ActionLimits& limits) {
  std::vector<int> legal;
  const std::vector<Opt>& actions = actions_for(kernel.target());
  for (size_t i = 0; i < actions.size(); ++i) {
    const Opt& action = actions[i];
    if (action.op != OptOp::TC) {
      const std::optional<int> axis = kernel.real_axis(action);
      if (!axis) continue;
      // The same action with the amount 0 says it already.
      if (kernel.axes_[static_cast<size_t>(*axis)].size == *action.amount &&
          takes_whole_axes(actions, action.op, *axis))
        continue;
      if (kernel.why_not(action)) continue;
    }
    Kernel changed = kernel;
    if (!changed.try_apply(action) && is_kept(changed, limits)) legal.push_back(static_cast<int>(i) + 1);
  }
  return legal;
}

std::vector<Kernel> variations(const Kernel& kernel, const ActionLimits& limits) {
  std::vector<Kernel> found;
  const std::vector<Opt>& opts = kernel.applied_opts();
  const auto add = [&](const std::vector<Opt>& list) {
    Kernel varied(kernel.ast(), kernel.target(), kernel.fixed_->use);
    for (const Opt& opt : list)
      if (varied.try_apply(opt)) return;
    if (is_kept(varied, limits)) found.push_back(std::move(varied));
  };
  for (size_t i = 0; i < opts.size(); ++i) {
    std::vector<Opt> list = opts;
    for (const Opt& action : actions_for(kernel.target())) {
      if (action.op != opts[i].op || action.axis != opts[i].axis || action.amount == opts[i].amount) continue;
      list[i] = action;
      add(list);
    }
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
    add(list);
  }
  return found;
}

}  // namespace quern
