#include <algorithm>

#include "quern/error.h"

#include "optimize/kernel_parts.h"

namespace quern {

void Kernel::TensorCoreAxes::axis_was_removed(int axis) {
  const std::array<bool, 2> before = exist;
  for (size_t dim = 0; dim < 2; ++dim) {
    if (!before[dim]) continue;
    if (axis < axes[dim])
      --axes[dim];
    else if (axis == axes[dim])
      exist[dim] = false;
  }
}

Kernel::Refusal Kernel::try_tensor_core(const Opt& opt) {
  if (!applied_opts_.empty()) return "tensor core opts must be first";
  if (!opt.axis || !opt.amount) return "tensor core opts must have an axis and an amount";
  if (*opt.axis < 0) return "invalid axis";
  if (fixed_->use != TensorCoreUse::ShapeOnly && fixed_->target->tensor_cores.empty())
    return "the target has no tensor cores";
  Kernel changed = *this;
  if (Refusal why = changed.use_tensor_core(*opt.axis, *opt.amount)) return why;
  changed.applied_opts_.push_back(opt);
  *this = std::move(changed);
  return std::nullopt;
}

/// Lays the axes out for the first of the target's tensor cores that fits. May leave a refused kernel half changed.
Kernel::Refusal Kernel::use_tensor_core(int axis, int tc_opt) {
  std::string none = "no tensor core available";
  const auto is_sum = [](UOp reduce) { return std::get<const ReduceArg*>(reduce.arg())->op == Op::Add; };
  const std::vector<UOp>& reduces = fixed_->reduces;
  if (fixed_->use == TensorCoreUse::Off || reduces.empty() || !std::all_of(reduces.begin(), reduces.end(), is_sum))
    return none;
  for (const TensorCore& core : fixed_->target->tensor_cores) {
    const auto found = find_tensor_core_axes(0, core, axis, tc_opt);
    if (!found) continue;
    bool agree = true;  // all reduces run through the same instruction
    for (size_t r = 1; r < reduces.size(); ++r) agree = agree && find_tensor_core_axes(r, core, axis, tc_opt) == found;
    if (!agree) continue;
    tensor_core_axes_ = found;
    bool padded = true;
    for (const auto& [padded_axis, multiple] : found->pads) {
      axis = padded_axis;  // which choice the next core is asked for, as in the reference
      padded = padded && !change({OptOp::PADTO, padded_axis, multiple});
      if (!padded) break;
    }
    if (!padded) continue;
    if (Refusal why = lay_out_tensor_core(core)) return why;
    tensor_core_ = &core;
    return std::nullopt;
  }
  return none;
}

/// Unrolls K, upcasts what threads leave of N and M, and makes the threads local.
Kernel::Refusal Kernel::lay_out_tensor_core(const TensorCore& core) {
  const int k = tensor_core_axes_->axes[2];
  for (const AxisSize& reduce : core.reduce_axes)
    if (Refusal why = change({OptOp::UNROLL, k - first_reduce(), reduce.size})) return why;
  for (const char order : core.opts_order) {
    const bool upcasts = order == 'U';
    for (const AxisSize& part : upcasts ? core.early_upcast_axes() : core.threads) {
      const int axis = tensor_core_axes_->axes[static_cast<size_t>(part.axis)];
      if (Refusal why = change({upcasts ? OptOp::UPCAST : OptOp::LOCAL, axis, part.size})) return why;
    }
  }
  return std::nullopt;
}

/// The buffer that an operand of a multiplication loads from, if a tensor core can take it.
std::optional<size_t> Kernel::tensor_core_operand(UOp operand, Scalar type, int tc_opt) const {
  if (operand.dtype() != DType(type)) return std::nullopt;
  if (operand.is(Op::Cast) && tc_opt >= 1)
    operand = operand.src(0);
  else if (!operand.is(Op::Load))
    return std::nullopt;
  const size_t buffer = fixed_->buffer_index(operand);
  return buffer < fixed_->buffers.size() ? std::optional<size_t>(buffer) : std::nullopt;
}

/// N is an axis that the first operand does not have, M one that the second has not, K a reduced one; `axis` numbers the choices
/// from the last.
std::optional<Kernel::TensorCoreAxes> Kernel::find_tensor_core_axes(size_t reduce, const TensorCore& core, int axis,
                                                                    int tc_opt) const {
  UOp product = fixed_->reduces[reduce].src(0);
  if (core.dtype_in != core.dtype_out) {
    if (!product.is(Op::Cast) || product.dtype() != DType(core.dtype_out)) return std::nullopt;
    product = product.src(0);
  }
  if (!product.is(Op::Mul)) return std::nullopt;
  const std::optional<size_t> a = tensor_core_operand(product.src(0), core.dtype_in, tc_opt);
  const std::optional<size_t> b = tensor_core_operand(product.src(1), core.dtype_in, tc_opt);
  if (!a || !b) return std::nullopt;

  const int first = first_reduce();
  const auto absent_axes = [&](size_t buffer) {
    const TrackedView::Strides& strides = buffer_view(buffer).strides(fixed_->graph());
    std::vector<int> axes;
    for (int i = 0; i < first; ++i)
      if (const std::optional<SInt>& s = strides[static_cast<size_t>(i)]; s && *s == 0) axes.push_back(i);
    return axes;
  };
  const std::vector<int> n = absent_axes(*a), m = absent_axes(*b);
  const int reduced = num_axes() - first;
  if (n.empty() || m.empty() || reduced == 0 || (reduced != 1 && tc_opt < 1)) return std::nullopt;
  const size_t choices = n.size() * m.size() * static_cast<size_t>(reduced);
  if (static_cast<size_t>(axis) >= choices) return std::nullopt;
  const size_t choice = choices - 1 - static_cast<size_t>(axis);
  const size_t k = choice % static_cast<size_t>(reduced), pair = choice / static_cast<size_t>(reduced);

  TensorCoreAxes found{{n[pair / m.size()], m[pair % m.size()], first + static_cast<int>(k)}, {true, true}, {}};
  for (size_t dim = 0; dim < 3; ++dim) {
    const SInt& size = axes_[static_cast<size_t>(found.axes[dim])].size;
    if (is_not_equal(floor_mod(size, core.dims[dim]), 0)) found.pads.emplace_back(found.axes[dim], core.dims[dim]);
  }
  if (!found.pads.empty() && tc_opt < 2) return std::nullopt;
  return found;
}

bool Kernel::apply_tensor_cores(int tc_opt, int axis, const std::vector<Opt>* extra) {
  if (fixed_->target->tensor_cores.empty() && fixed_->use != TensorCoreUse::ShapeOnly) return false;
  if (try_apply({OptOp::TC, axis, tc_opt})) return false;
  if (!extra) return upcast_and_localize_tensor_core();
  return std::all_of(extra->begin(), extra->end(), [this](const Opt& opt) { return !try_apply(opt); });
}

/// Upcasts M and N and makes some of N local, so that several instructions share their operands.
bool Kernel::upcast_and_localize_tensor_core() {
  if (fixed_->target->amx) return true;  // one instruction fills its registers
  const auto largest = [this](int axis, std::initializer_list<int> sizes) {
    const SInt& size = axes_[static_cast<size_t>(axis)].size;
    const auto divides = [&](int s) { return size.is_int() && size.value() % s == 0; };
    const auto found = std::find_if(sizes.begin(), sizes.end(), divides);
    return found == sizes.end() ? 0 : *found;
  };
  const TensorCoreAxes& tc = *tensor_core_axes_;
  const std::array<bool, 2> exist = tc.exist;
  for (const size_t dim : {1u, 0u}) {
    if (!exist[dim]) continue;
    const int axis = tc.axes[dim];
    if (const int amount = largest(axis, {5, 4, 3, 2}); amount != 0 && try_apply({OptOp::UPCAST, axis, amount}))
      return false;
  }
  if (!tc.exist[0]) return true;
  const int amount = largest(tc.axes[0], {4, 2});
  return amount == 0 || !try_apply({OptOp::LOCAL, tc.axes[0], amount});
}

}  // namespace quern
