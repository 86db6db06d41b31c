#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "quern/error.h"

#include "ir/text.h"
#include "optimize/kernel_parts.h"

namespace quern {
namespace {

constexpr int64_t kMaxUnroll = 32;
constexpr int64_t kMaxUpcast = 16;
constexpr int64_t kMaxLanes = 256;  ///< to upcast, unroll or reduce in parts, on CPUs with vectors
constexpr int64_t kMaxThreads = 1024;
constexpr int64_t kMaxPackedBytes = int64_t{1} << 21;

bool is_group(OptOp op) { return op == OptOp::GROUP || op == OptOp::GROUPTOP; }
bool needs_locals(OptOp op) { return is_group(op) || op == OptOp::LOCAL || op == OptOp::UPCASTMID; }

}  // namespace

std::optional<std::string> Kernel::try_apply(const Opt& opt) {
  if (opt.op == OptOp::TC) return try_tensor_core(opt);
  if (Refusal why = change(opt)) return why;
  applied_opts_.push_back(opt);
  return std::nullopt;
}

void Kernel::apply(const Opt& opt) {
  if (const Refusal why = try_apply(opt)) throw OptError(fmt::format("{} does not apply: {}", to_string(opt), *why));
}

void Kernel::apply(const std::vector<Opt>& opts) {
  for (const Opt& opt : opts) apply(opt);
}

/// The kernel's axis that `opt` means: GROUPs count from the first reduce loop, UNROLLs from the first reduce.
std::optional<int> Kernel::real_axis(const Opt& opt) const {
  if (!opt.axis || *opt.axis < 0 || *opt.axis >= num_axes()) return std::nullopt;
  int axis = *opt.axis;
  if (opt.op == OptOp::UNROLL || opt.op == OptOp::RFACTOR) axis += first_reduce();
  if (is_group(opt.op)) axis += first_reduce() + group_dims();
  return axis < num_axes() ? std::optional<int>(axis) : std::nullopt;
}

// ---- legality ----

namespace {

/// The amount an opt means along an axis of this size: 0 is all of it. Nothing if there is no such amount.
std::optional<int64_t> amount_along(const Opt& opt, const SInt& size) {
  if (opt.op == OptOp::SWAP || opt.op == OptOp::PACK || *opt.amount != 0) return *opt.amount;
  if (!size.is_int()) return std::nullopt;
  return size.value();
}

}  // namespace

Kernel::Refusal Kernel::why_not(const Opt& opt) const {
  const Target& target = *fixed_->target;
  if (dont_use_locals_ && needs_locals(opt.op)) return "not using locals";
  if (opt.op == OptOp::NOLOCALS) {
    if (!target.has_local) return "the target has no locals to do without";
    if (dont_use_locals_) return "locals are not used already";
    if (local_dims() != 0 || group_dims() != 0) return "locals are in use";
    return std::nullopt;
  }
  if (!opt.axis || !opt.amount) return "it needs an axis and an amount";
  const std::optional<int> real = real_axis(opt);
  if (!real) return fmt::format("invalid axis: there are {} axes", num_axes());
  const int axis = *real;
  const SInt& size = axes_[static_cast<size_t>(axis)].size;
  const std::optional<int64_t> given = amount_along(opt, size);
  if (!given) return fmt::format("axis {} has the symbolic size {}", axis, print(size));
  const int64_t amount = *given;
  if (opt.op != OptOp::SWAP && opt.op != OptOp::PACK) {
    if (amount < 2) return fmt::format("an amount of {} is meaningless", amount);
    if (opt.op != OptOp::PADTO && (!size.is_int() || size.value() % amount != 0))
      return fmt::format("{} does not divide axis {} of size {}", amount, axis, print(size));
  }
  if (Refusal why = why_not_shared_memory(opt, amount)) return why;
  if (axes_[static_cast<size_t>(axis)].kind == AxisKind::Thread)
    return fmt::format("axis {} is shared out among threads already", axis);
  if (!packed_.empty() && opt.op != OptOp::PACK && opt.op != OptOp::THREAD)
    return "an operand is packed: only PACK and THREAD go with that";
  const bool vectors = target.vector_bytes != 0;

  switch (opt.op) {
    case OptOp::LOCAL:
      if (!target.has_local) return "the target has no locals";
      if (axis >= global_dims()) return fmt::format("axis {} is not global: local is for globals", axis);
      return std::nullopt;
    case OptOp::GROUP:
    case OptOp::GROUPTOP:
      if (!target.has_local || !target.has_shared) return "the target has no locals or no shared memory";
      if (axis >= first_upcast()) return fmt::format("axis {} is not a reduce loop", axis);
      if (tensor_core_) return "tensor cores leave nothing to group";
      if (fixed_->reduces_share_axes) return "reduces of the same axis can't be grouped";
      return std::nullopt;
    case OptOp::UNROLL:
      if (axis >= first_upcast()) return fmt::format("axis {} is already upcasted", axis);
      if (const int64_t most = vectors ? kMaxLanes : kMaxUnroll; amount > most)
        return fmt::format("{} is more than {} to unroll", amount, most);
      if (leads_mid_upcast(axis) && size == amount) return "a mid-reduce upcast stands after a group reduce";
      return std::nullopt;
    case OptOp::UPCAST: {
      if (axis >= first_reduce()) return fmt::format("axis {} is reduced: upcast is for the others", axis);
      const int globals = global_dims();
      if (tensor_core_ && axis >= globals && axis < globals + static_cast<int>(tensor_core_->threads.size()))
        return fmt::format("axis {} is the tensor core's", axis);
      if (const int64_t most = vectors ? kMaxLanes : kMaxUpcast; amount > most)
        return fmt::format("{} is more than {} to upcast", amount, most);
      return std::nullopt;
    }
    case OptOp::THREAD:
      if (!target.has_threads) return "the target has no threads to share an axis out among";
      if (axes_[0].kind == AxisKind::Thread) return "an axis is shared out among threads already";
      if (axis >= global_dims()) return fmt::format("axis {} is not global: threads are for globals", axis);
      if (amount > kMaxThreads) return fmt::format("{} is more than {} threads", amount, kMaxThreads);
      for (const Packed& p : packed_)
        if (p.axis == axis && size == amount)
          return fmt::format("nothing would be left of axis {}, inside of which data{} is packed", axis, p.global);
      return std::nullopt;
    case OptOp::RFACTOR:
      if (!vectors) return "the target has no vectors to keep partial results in";
      if (axis >= first_upcast()) return fmt::format("axis {} is not a reduce loop", axis);
      if (amount > kMaxLanes) return fmt::format("{} is more than {} partial results", amount, kMaxLanes);
      return std::nullopt;
    case OptOp::PACK: return why_not_pack(axis, amount);
    case OptOp::UPCASTMID: return why_not_upcast_mid(axis, amount);
    case OptOp::SWAP:
      if (amount <= axis || amount >= global_dims())
        return fmt::format("swaps axis {} with a global axis after it, not with {} of {}", axis, amount, global_dims());
      return std::nullopt;
    case OptOp::PADTO: return why_not_pad(axis, amount);
    case OptOp::TC:
    case OptOp::NOLOCALS: break;
  }
  throw InternalError("an opt that is not judged here: " + to_string(opt));
}

/// Is the axis the first group reduce, with a mid-reduce upcast after it?
bool Kernel::leads_mid_upcast(int axis) const {
  const size_t next = static_cast<size_t>(axis) + 1;
  return axis == first_reduce() && next < axes_.size() && axes_[next].kind == AxisKind::UpcastMid;
}

/// Group reduces keep a value a thread and upcast in shared memory; any later split of axes is counted as multiplying it.
Kernel::Refusal Kernel::why_not_shared_memory(const Opt& opt, int64_t amount) const {
  if (fixed_->reduces.empty()) return std::nullopt;
  const int groups = group_dims();
  if (!is_group(opt.op) && (groups == 0 || opt.op == OptOp::PADTO)) return std::nullopt;
  Int128 bytes = Int128{amount} * fixed_->reduces[0].dtype().itemsize();
  const auto times = [&bytes](const SInt& size) {
    if (size.is_int() && bytes < kUnbounded) bytes *= size.value();
  };
  const int end = first_reduce() + groups;
  for (int i = global_dims(); i < end; ++i) times(axes_[static_cast<size_t>(i)].size);
  for (const Axis& axis : axes_)
    if (axis.kind == AxisKind::Upcast) times(axis.size);
  if (bytes <= fixed_->target->shared_max) return std::nullopt;
  return fmt::format("exceeds maximum shared memory size: needs {}, max {}", to_string(bytes),
                     fixed_->target->shared_max);
}

Kernel::Refusal Kernel::why_not_upcast_mid(int axis, int64_t amount) const {
  if (!fixed_->memory_type(0).is_image()) return "the output is not an image";
  if (group_dims() == 0) return "there is no group reduce to be in the middle of";
  if (first_reduce() > 2) return fmt::format("there are {} axes before the reduce, not up to 2", first_reduce());
  if (!float4_axes(0).empty()) return "the output has its vector axis already";
  if (!is_less(1, prod(output_view().shape()))) return "the output is a single value";
  const std::vector<int> unit = output_view().unit_stride_axes(fixed_->graph());
  if (unit.size() != 1) return fmt::format("the output has {} axes of stride 1, not one", unit.size());
  if (unit[0] != axis) return fmt::format("axis {} is not the output's axis of stride 1, {}", axis, unit[0]);
  if (amount != 4) return fmt::format("an image's vectors have 4 lanes, not {}", amount);
  return std::nullopt;
}

Kernel::Refusal Kernel::why_not_pad(int axis, int64_t amount) const {
  if (fixed_->symbolic) return "padding does not work with symbolic shapes";
  if (axis >= first_upcast()) return fmt::format("axis {} is upcasted: it can't be padded", axis);
  // On Quern's own targets what is reduced is replaced where it is padding; others refuse what the reference refuses.
  const bool is_replaced = fixed_->target->vector_bytes != 0;
  if (!fixed_->reduces.empty() && axis >= first_reduce() && !fixed_->can_pad_reduce && !is_replaced)
    return "the reduce is not a sum of values that are 0 where the padding is";
  const int64_t size = axes_[static_cast<size_t>(axis)].size.value();
  if (size <= amount / 4)
    return fmt::format("padding axis {} from {} to {} more than quadruples the work", axis, size, amount);
  if (size % amount == 0)
    return fmt::format("axis {} of size {} needs no padding to a multiple of {}", axis, size, amount);
  return std::nullopt;
}

Kernel::Refusal Kernel::why_not_pack(int axis, int64_t buffer) const {
  if (fixed_->target->vector_bytes == 0) return "the target has no vectors to pack an operand for";
  if (axes_[static_cast<size_t>(axis)].kind != AxisKind::Global)
    return fmt::format("axis {} is not global: operands are packed inside of globals", axis);
  bool is_read = false;
  for (size_t i = 0; i < fixed_->buffers.size(); ++i) {
    const UOp node = fixed_->buffers[i];
    if (node.is(Op::Valid) || !node.src(0).is(Op::DefineGlobal) || std::get<int64_t>(node.src(0).arg()) != buffer)
      continue;
    if (!node.is(Op::Load)) return fmt::format("the kernel writes data{}", buffer);
    is_read = true;
    const TrackedView& view = buffer_view(i);
    const std::optional<SInt>& stride = view.strides(fixed_->graph())[static_cast<size_t>(axis)];
    if (!(view.size(axis) == 1) && !(stride && *stride == 0))
      return fmt::format("data{} moves along axis {}: there is nothing to be read again", buffer, axis);
    Int128 bytes = fixed_->memory_type(i).itemsize();
    const std::vector<int> axes = packed_axes(i, axis);
    if (axes.empty()) return fmt::format("data{} does not move inside of axis {}", buffer, axis);
    for (int a : axes) {
      if (!view.size(a).is_int()) return fmt::format("axis {} has the symbolic size {}", a, print(view.size(a)));
      bytes = std::min<Int128>(bytes * view.size(a).value(), kUnbounded);
    }
    if (bytes > kMaxPackedBytes)
      return fmt::format("packing takes {} bytes of scratch memory, max {}", to_string(bytes), kMaxPackedBytes);
  }
  if (!is_read) return fmt::format("the kernel reads no data{}", buffer);
  if (std::any_of(packed_.begin(), packed_.end(), [&](const Packed& p) { return p.global == buffer; }))
    return fmt::format("data{} is packed already", buffer);
  return std::nullopt;
}

const DotProduct* Kernel::dot_product() const {
  if (fixed_->reduces.size() != 1) return nullptr;
  UOp sum = fixed_->reduces[0], product = sum.src(0);
  if (std::get<const ReduceArg*>(sum.arg())->op != Op::Add || !product.is(Op::Mul)) return nullptr;
  const auto is_operand = [](UOp u, const DotProduct& dot) {
    return u.is(Op::Cast) && u.src(0).is(Op::Load) && u.src(0).dtype() == DType(dot.in);
  };
  for (const DotProduct& dot : target().dots)
    if (sum.dtype() == DType(dot.out) && is_operand(product.src(0), dot) && is_operand(product.src(1), dot))
      return &dot;
  return nullptr;
}

std::vector<int> Kernel::packed_axes(size_t buffer, int axis) const {
  const TrackedView& view = buffer_view(buffer);
  std::vector<int> axes;
  for (int i = axis + 1; i < num_axes(); ++i) {
    const std::optional<SInt>& stride = view.strides(fixed_->graph())[static_cast<size_t>(i)];
    if (!(view.size(i) == 1) && !(stride && *stride == 0)) axes.push_back(i);
  }
  // Loops, then steps that are unrolled, then lanes: those are side by side. Of dot products a lane takes some steps at once.
  const DotProduct* dot = dot_product();
  const auto rank = [&](int i) {
    const AxisKind kind = axes_[static_cast<size_t>(i)].kind;
    const bool is_taken_at_once = dot != nullptr && axes_[static_cast<size_t>(i)].size == SInt(dot->steps);
    return kind == AxisKind::Unroll    ? (is_taken_at_once ? 4 : 1)
           : kind == AxisKind::Upcast  ? 2
           : kind == AxisKind::Partial ? 3
                                       : 0;
  };
  std::ranges::sort(axes, {}, [&](int i) { return std::pair(rank(i), i); });
  return axes;
}

/// Upcasted axes along which the buffer is contiguous in fours.
std::vector<int> Kernel::float4_axes(size_t buffer) const {
  const TrackedView& view = buffer_view(buffer);
  const int first = first_upcast();
  std::vector<int> axes = view.unit_stride_axes(fixed_->graph());
  std::erase_if(axes, [&](int i) { return i < first || !view.size(i).is_int() || view.size(i).value() % 4 != 0; });
  return axes;
}

// ---- effect ----

/// What `opt` does to the axes, without noting it in the list of opts. All is as before if it is refused.
Kernel::Refusal Kernel::change(const Opt& opt) {
  if (Refusal why = why_not(opt)) return why;
  if (opt.op == OptOp::NOLOCALS) {
    dont_use_locals_ = true;
    return std::nullopt;
  }
  const int axis = *real_axis(opt);
  try {
    carry_out(opt, axis, *amount_along(opt, axes_[static_cast<size_t>(axis)].size));
  } catch (const InvalidKernel& overflow) {  // sizes past 64 bits; nothing has changed yet
    return overflow.what();
  }
  return std::nullopt;
}

void Kernel::carry_out(const Opt& opt, int axis, int64_t amount) {
  const int reduce = first_reduce(), groups = group_dims();
  const AxisKind kind = axes_[static_cast<size_t>(axis)].kind;
  bool removed = false;
  switch (opt.op) {
    case OptOp::LOCAL: removed = split(axis, amount, false, reduce, AxisKind::Local); break;
    case OptOp::GROUP:
    case OptOp::GROUPTOP:
      removed = split(axis, amount, opt.op == OptOp::GROUPTOP, reduce + groups, AxisKind::GroupReduce);
      break;
    case OptOp::UPCASTMID: removed = split(axis, amount, false, reduce + groups, AxisKind::UpcastMid); break;
    case OptOp::UPCAST: removed = split(axis, amount, false, num_axes(), AxisKind::Upcast); break;
    case OptOp::UNROLL:
      removed = split(axis, amount, false, num_axes(), is_output_axis(kind) ? AxisKind::Upcast : AxisKind::Unroll);
      break;
    case OptOp::THREAD:
      removed = split(axis, amount, true, 0, AxisKind::Thread);
      for (Packed& p : packed_) p.axis += removed && axis < p.axis ? 0 : 1;
      break;
    case OptOp::PACK: packed_.push_back({amount, axis}); break;
    case OptOp::RFACTOR: removed = split(axis, amount, false, num_axes(), AxisKind::Partial); break;
    case OptOp::SWAP: swap_axes(axis, static_cast<int>(amount)); break;
    case OptOp::PADTO: pad_axis(axis, amount); break;
    case OptOp::TC:
    case OptOp::NOLOCALS: throw InternalError("an opt that is not carried out here: " + to_string(opt));
  }
  if (removed && tensor_core_axes_) tensor_core_axes_->axis_was_removed(axis);
}

/// Takes `amount` of an axis (its slow part if `top`, else its fast part) and puts it before axis `before`, as `kind`. True if
/// nothing else was left of the axis.
bool Kernel::split(int axis, int64_t amount, bool top, int before, AxisKind kind) {
  const auto at = static_cast<size_t>(axis);
  const int64_t rest = axes_[at].size.value() / amount;
  const size_t taken = top ? at : at + 1;
  const size_t place = static_cast<size_t>(before) + (taken < static_cast<size_t>(before) ? 1 : 0);
  std::vector<int> order;
  for (size_t i = 0; i <= axes_.size(); ++i) {
    if (i == place) order.push_back(static_cast<int>(taken));
    if (i != taken) order.push_back(static_cast<int>(i));
  }
  if (place > axes_.size()) order.push_back(static_cast<int>(taken));
  const int left = top ? axis + 1 : axis;  // where the rest is before reordering
  const auto rest_place = std::find(order.begin(), order.end(), left) - order.begin();

  views_ = mapped_views([&](const ShapeTracker& st) {
    Shape shape = st.shape();
    const bool has_axis = !(shape[at] == 1);
    const SInt first = !has_axis ? 1 : top ? amount : rest, second = !has_axis ? 1 : top ? rest : amount;
    shape[at] = first;
    shape.insert(shape.begin() + axis + 1, second);
    ShapeTracker moved = permute(reshape(st, shape), order);
    if (rest != 1) return moved;
    shape = moved.shape();
    shape.erase(shape.begin() + rest_place);
    return reshape(moved, shape);
  });

  std::vector<Axis> parts = axes_;
  parts[at].size = rest;
  parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(taken), {amount, kind});
  axes_.clear();
  for (int i : order) axes_.push_back(parts[static_cast<size_t>(i)]);
  if (rest == 1) axes_.erase(axes_.begin() + rest_place);
  return rest == 1;
}

void Kernel::swap_axes(int a, int b) {
  std::vector<int> order(axes_.size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(a)], order[static_cast<size_t>(b)]);
  views_ = mapped_views([&](const ShapeTracker& st) { return permute(st, order); });
  std::swap(axes_[static_cast<size_t>(a)], axes_[static_cast<size_t>(b)]);
}

namespace {

/// Is what the view shows the same all along the axis?
bool stays_along(Graph& graph, const ShapeTracker& st, size_t axis) {
  if (st.views.size() > 1) {
    const std::optional<SInt> stride = real_strides(graph, st)[axis];
    return stride && *stride == 0;
  }
  const View& view = st.views.back();
  if (!(view.strides[axis] == 0)) return false;
  return !view.mask || ((*view.mask)[axis].first == 0 && (*view.mask)[axis].second == view.shape[axis]);
}

/// The same view with the axis longer: of one along which it stays.
ShapeTracker widened(const ShapeTracker& st, size_t axis, int64_t size) {
  Mask first;
  for (const SInt& s : st.shape()) first.emplace_back(0, s);
  first[axis].second = 1;
  Shape shape = st.shape();
  shape[axis] = size;
  return expand(shrink(st, first), shape);
}

}  // namespace

/// Pads an axis at its end to a multiple of `amount`. What is computed there for an axis of the output is stored nowhere, so
/// buffers that do not move along it need no mask; a tensor core's threads even have to hold the same values there.
/// For a reduce axis an extra view remembers what is padding, as the reduced values need not be 0 there. Where there are other
/// reduces, a mask on what does not move along the axis would make those depend on it.
void Kernel::pad_axis(int axis, int64_t amount) {
  const auto at = static_cast<size_t>(axis);
  const bool reduces = !is_output_axis(axes_[at].kind);
  const bool widens = !reduces || fixed_->reduces.size() > 1;
  const int64_t size = axes_[at].size.value(), padded = (size + amount - 1) / amount * amount;
  const auto pad_view = [&](const ShapeTracker& st) {
    if (st.shape()[at] == 1) return st;
    if (widens && stays_along(fixed_->graph(), st, at)) return widened(st, at, padded);
    Mask amounts(st.shape().size(), Bounds{0, 0});
    amounts[at].second = padded - size;
    return pad(st, amounts);
  };
  if (reduces && !padded_reduce_) {
    auto views = std::make_shared<Views>(*views_);
    views->emplace_back(tracker(full_shape()));
    views_ = std::move(views);
    padded_reduce_ = true;
  }
  views_ = mapped_views(pad_view);
  axes_[at].size = padded;
}

}  // namespace quern
