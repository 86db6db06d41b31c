#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "quern/error.h"

#include "optimize/kernel_parts.h"

// The reference's heuristics, decision by decision: which opts to apply when nothing is measured.

namespace quern {
namespace {

bool divides(int64_t amount, const SInt& size) { return size.is_int() && size.value() % amount == 0; }
bool at_most(const SInt& size, int64_t limit) { return size.is_int() && size.value() <= limit; }

// Matrix by vector: threads a row, rows a thread, and the block of threads.
constexpr int kThreadsPerRow = 8, kBlock = 4, kRowsPerThread = 4;

}  // namespace

bool Kernel::apply_if_legal(OptOp op, int axis, int64_t amount) {
  return !try_apply({op, axis, static_cast<int>(amount)});
}

void Kernel::required_optimizations() {
  if (!fixed_->memory_type(0).is_image()) return;
  const TrackedView& output = output_view();
  std::vector<int> axes = output.unit_stride_axes(fixed_->graph(), true);
  std::erase_if(axes, [&](int i) { return !divides(4, output.size(i)); });
  if (axes.empty()) throw InvalidKernel("an image store needs an axis of stride 1 and a size that is a multiple of 4");
  const int last = first_upcast();
  if (std::any_of(axes.begin(), axes.end(), [&](int i) { return i >= last; })) return;
  if (axes_[static_cast<size_t>(axes[0])].kind != AxisKind::UpcastMid) apply({OptOp::UPCAST, axes[0], 4});
}

void Kernel::hand_coded_optimizations() {
  required_optimizations();
  if (matvec()) return;
  const Shape& output = output_view().shape();
  const bool fixed_sizes = all_int(std::span(output).first(static_cast<size_t>(first_reduce())));
  if (target().has_local && target().has_shared && fixed_sizes) {
    group_reduce();
    upcast_mid_reduce();
  }
  upcast_images();
  if (group_dims() != 0) return;
  upcast_masked();
  upcast_shared();
  unroll_reduce();
  if (const int end = first_upcast();
      upcasted() == 0 && end > 0 && divides(4, axes_[static_cast<size_t>(end) - 1].size))
    apply_if_legal(OptOp::UPCAST, end - 1, 4);
  if (target().has_local) make_local();
}

/// A sum of products of two loads of which one is contiguous along the reduce: several threads a row, several rows a thread.
bool Kernel::matvec() {
  if (!target().has_local || !target().has_shared || fixed_->reduces.empty() || num_axes() < 2) return false;
  const UOp reduce = fixed_->reduces[0], product = reduce.src(0);
  if (std::get<const ReduceArg*>(reduce.arg())->op != Op::Add || !product.is(Op::Mul)) return false;
  if (!product.src(0).is(Op::Load) || !product.src(1).is(Op::Load)) return false;
  const auto first = static_cast<size_t>(first_reduce());
  if (first >= axes_.size()) return false;
  const TrackedView& a = buffer_view(fixed_->buffer_index(product.src(0)));
  const TrackedView& b = buffer_view(fixed_->buffer_index(product.src(1)));
  const auto is_expanded = [this](const TrackedView& view) {
    const TrackedView::Strides& strides = view.strides(fixed_->graph());
    for (size_t i = 0; i < strides.size(); ++i)
      if (is_less(1, view.shape()[i]) && strides[i] && !is_not_equal(*strides[i], 0)) return true;
    return false;
  };
  const std::optional<SInt>& stride = a.strides(fixed_->graph())[first];
  if (!stride || !(*stride == 1) || (is_expanded(a) && is_expanded(b))) return false;
  if (!divides(kThreadsPerRow, axes_[first].size)) return false;
  for (int axis = 0; axis < global_dims(); ++axis) {
    if (!divides(kBlock * kRowsPerThread, axes_[static_cast<size_t>(axis)].size)) continue;
    apply_if_legal(OptOp::GROUP, 0, kThreadsPerRow);
    apply_if_legal(OptOp::LOCAL, axis, kBlock);
    apply_if_legal(OptOp::UPCAST, axis, kRowsPerThread);
    return true;
  }
  return false;
}

/// Few outputs: threads share the reduce.
void Kernel::group_reduce() {
  const int first = first_reduce();
  if (first > 2 || first + 1 > num_axes() || !float4_axes(0).empty()) return;
  const SInt outputs = prod(std::span(output_view().shape()).first(static_cast<size_t>(first)));
  if (outputs.value() > 2048) return;
  for (const int amount : {256, 16}) {
    if (amount == 256 && outputs.value() > 32) continue;
    const bool fits = std::all_of(views_->begin(), views_->end(), [&](const TrackedView& view) {
      return view.size(first) == 1 || divides(amount, view.size(first));
    });
    if (fits && apply_if_legal(OptOp::GROUPTOP, 0, amount)) return;
  }
}

void Kernel::upcast_mid_reduce() {
  if (!fixed_->memory_type(0).is_image() || group_dims() == 0 || first_reduce() > 2 || !float4_axes(0).empty()) return;
  const std::vector<int> axes = output_view().unit_stride_axes(fixed_->graph());
  if (axes.size() == 1 && divides(4, output_view().size(axes[0]))) apply_if_legal(OptOp::UPCASTMID, axes[0], 4);
}

/// Images are read four channels at a time.
void Kernel::upcast_images() {
  for (size_t i = 0; i < fixed_->buffers.size(); ++i) {
    if (!fixed_->memory_type(i).is_image()) continue;
    const TrackedView& view = buffer_view(i);
    std::vector<int> axes = view.unit_stride_axes(fixed_->graph(), true);
    std::erase_if(axes, [&](int axis) { return !divides(4, view.size(axis)); });
    const int last = first_upcast(), reduce = first_reduce();
    if (axes.empty() || std::any_of(axes.begin(), axes.end(), [&](int axis) { return axis >= last; })) continue;
    if (axes_[static_cast<size_t>(axes[0])].kind == AxisKind::UpcastMid) continue;
    if (axes[0] < reduce)
      apply_if_legal(OptOp::UPCAST, axes[0], 4);
    else
      apply_if_legal(OptOp::UNROLL, axes[0] - reduce, 4);
  }
}

/// Product of the sizes of all upcasted and unrolled axes.
int64_t Kernel::upcast_size() const {
  int64_t size = 1;
  for (auto i = static_cast<size_t>(first_upcast()); i < axes_.size(); ++i) size *= axes_[i].size.value();
  return size;
}

/// Small axes along which something is masked, as stacking makes them: upcasted, the masks are known.
void Kernel::upcast_masked() {
  constexpr int64_t kSmall = 7;
  std::vector<int> chosen;
  int64_t size = upcast_size();
  for (int axis = 0; axis < first_reduce(); ++axis) {
    const SInt& extent = axes_[static_cast<size_t>(axis)].size;
    if (!at_most(extent, kSmall) || size * extent.value() > kSmall * kSmall) continue;
    const auto masks = [&](uint32_t view) { return (*views_)[view].is_masked(fixed_->graph(), axis); };
    if (std::none_of(fixed_->view_of.begin(), fixed_->view_of.end(), masks)) continue;
    chosen.push_back(axis);
    size *= extent.value();
  }
  for (auto axis = chosen.rbegin(); axis != chosen.rend(); ++axis) apply_if_legal(OptOp::UPCAST, *axis, 0);
}

namespace {

struct UpcastChoice {
  int strides = 0;    ///< views that step along the axis
  SInt distance = 0;  ///< sum of those steps
  int axis = 0;
  int amount = 0;
};

bool is_better(const UpcastChoice& a, const UpcastChoice& b) {
  if (a.strides != b.strides) return a.strides < b.strides;
  if (!(a.distance == b.distance)) return is_less(a.distance, b.distance, false);
  return std::pair(a.axis, a.amount) < std::pair(b.axis, b.amount);
}

}  // namespace

/// Is an upcasted axis one along which view number `view` does not move?
bool Kernel::has_upcast_without_stride(uint32_t view) const {
  const auto first = static_cast<size_t>(first_upcast());
  if (first == axes_.size()) return false;
  const TrackedView::Strides& strides = (*views_)[view].strides(fixed_->graph());
  return std::any_of(strides.begin() + static_cast<std::ptrdiff_t>(first), strides.end(),
                     [](const std::optional<SInt>& s) { return s && *s == 0; });
}

/// Axes along which some buffer stays put: upcasted, its value is loaded once. As long as there are outputs enough.
void Kernel::upcast_shared() {
  constexpr int64_t kEnough = 1024;
  std::vector<int> done;
  const auto outputs = [this] {
    return prod(std::span(output_view().shape()).first(static_cast<size_t>(first_reduce())));
  };
  while (is_greater_equal(outputs(), kEnough)) {
    std::vector<bool> stays_elsewhere;
    for (uint32_t view = 0; view < views_->size(); ++view) stays_elsewhere.push_back(has_upcast_without_stride(view));
    std::optional<UpcastChoice> best;
    for (int axis = 0; axis < first_reduce(); ++axis) {
      const SInt& size = axes_[static_cast<size_t>(axis)].size;
      if (std::find(done.begin(), done.end(), axis) != done.end()) continue;
      const int amount = divides(3, size) ? 3 : divides(4, size) ? 4 : 0;  // 3 comes before 4 where both divide
      if (amount == 0) continue;
      UpcastChoice choice{0, 0, axis, amount};
      bool shared = false;
      for (const uint32_t view : fixed_->view_of) {
        const SInt& stride = (*views_)[view].top_stride(axis);
        shared = shared || (stride == 0 && !stays_elsewhere[view]);
        choice.strides += is_less(0, stride) ? 1 : 0;
        choice.distance = choice.distance + stride;
      }
      if (shared && (!best || is_better(choice, *best))) best = choice;
    }
    if (!best) return;
    if (!apply_if_legal(OptOp::UPCAST, best->axis, best->amount)) return;
    done.push_back(best->axis);
  }
}

/// A short last reduce loop is unrolled whole, a long one by 4.
void Kernel::unroll_reduce() {
  const auto last_size = [this] { return axes_[static_cast<size_t>(first_upcast()) - 1].size; };
  const auto unroll_last = [this](int64_t amount) {
    apply_if_legal(OptOp::UNROLL, first_upcast() - 1 - first_reduce(), amount);
  };
  if (first_reduce() >= first_upcast()) return;
  const bool unrolled =
      std::any_of(axes_.begin(), axes_.end(), [](const Axis& a) { return a.kind == AxisKind::Unroll; });
  const int64_t size = upcast_size();
  if ((size > 4 && unrolled) || size >= 64) return;
  const SInt last = last_size();
  if (!at_most(last, 32)) {
    if (divides(4, last)) unroll_last(4);
    return;
  }
  unroll_last(0);
  if (first_reduce() < first_upcast() && at_most(last, 3) && at_most(last_size(), 3)) unroll_last(0);
}

/// Up to three axes become local, those along which a buffer stays put first.
void Kernel::make_local() {
  constexpr int64_t kMaxThreads = 128;
  std::vector<std::pair<bool, int>> ranking;
  for (int axis = 0; axis < first_reduce(); ++axis) {
    const auto stays = [&](uint32_t view) { return (*views_)[view].top_stride(axis) == 0; };
    ranking.emplace_back(std::any_of(fixed_->view_of.begin(), fixed_->view_of.end(), stays), axis);
  }
  std::sort(ranking.rbegin(), ranking.rend());
  std::vector<std::pair<int, int>> chosen;
  int64_t threads = 1;
  for (const auto& [stays, axis] : ranking) {
    for (const int amount : {32, 16, 8, 4, 3, 2}) {
      if ((amount == 32 && axis != 0) || !divides(amount, axes_[static_cast<size_t>(axis)].size)) continue;
      if (threads * amount > kMaxThreads) continue;
      chosen.emplace_back(axis, amount);
      threads *= amount;
      break;
    }
  }
  chosen.resize(std::min<size_t>(chosen.size(), 3));
  std::sort(chosen.begin(), chosen.end());
  int removed = 0;
  for (const auto& [axis, amount] : chosen) {
    const bool whole = axes_[static_cast<size_t>(axis - removed)].size == amount;
    apply_if_legal(OptOp::LOCAL, axis - removed, amount);
    removed += whole ? 1 : 0;
  }
}

Kernel optimize(UOp ast, const Target& on, const OptimizeOptions& options) {
  const Target& target = options.allow_tf32 ? with_tf32(on) : on;
  Kernel kernel(ast, target, options.tensor_cores);
  if (options.opts == "none") {
    kernel.required_optimizations();
  } else if (options.opts == "heuristic" && target.vector_bytes != 0) {
    kernel.cpu_optimizations();
  } else if (options.opts == "heuristic" || options.opts == "reference") {
    if (!target.tensor_cores.empty() || options.tensor_cores == TensorCoreUse::ShapeOnly) {
      Kernel with_tensor_core = kernel;
      with_tensor_core.required_optimizations();
      if (with_tensor_core.apply_tensor_cores(options.tc_opt)) return with_tensor_core;
    }
    kernel.hand_coded_optimizations();
  } else {
    kernel.apply(parse_opts(options.opts));
  }
  return kernel;
}

}  // namespace quern
