#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "quern/error.h"

#include "ir/node_map.h"
#include "optimize/kernel_parts.h"
#include "optimize/padding.h"

// The AST for the axes as they are laid out now: every buffer gets its view in the new shape, reduces of grouped axes go through
// local memory, and products that a tensor core takes become its instruction.

namespace quern {

namespace {

int64_t product(const Axes& axes) {
  int64_t size = 1;
  for (const AxisSize& a : axes) size *= a.size;
  return size;
}

Axes from(int first, Axes axes) {
  for (AxisSize& a : axes) a.axis += first;
  return axes;
}

UOp local_buffer(Graph& graph, std::string name, DType dtype, const ShapeTracker& st) {
  return graph.node(Op::DefineLocal, dtype.ptr(Space::Local), {}, graph.intern(LocalArg{std::move(name), size_of(st)}));
}

/// What `value` gives after it was stored to local memory through `stored` and loaded through `loaded`.
UOp through_local(UOp buffer, UOp stored, UOp loaded, UOp value) {
  Graph& graph = value.graph();
  const UOp store = graph.node(Op::Store, Scalar::Void, {buffer, stored, value});
  return graph.node(Op::Load, value.dtype(), {buffer, loaded, store});
}

}  // namespace

struct Kernel::AstBuilder {
  explicit AstBuilder(const Kernel& k)
      : kernel(k), fixed(*k.fixed_), graph(k.fixed_->graph()), views(k.views_->size()) {
    for (size_t i = 0; i < fixed.buffers.size(); ++i)
      buffer_numbers.set(fixed.buffers[i], static_cast<uint32_t>(i) + 1);
    for (size_t i = 0; i < fixed.reduces.size(); ++i) reduce_numbers.set(fixed.reduces[i], static_cast<uint32_t>(i));
  }

  UOp build();
  UOp rebuilt(UOp node);
  UOp with_new_view(UOp buffer, size_t number);
  UOp packed(UOp load, size_t number);
  UOp reduce(UOp node);
  UOp reduced_in_parts(UOp operand, Op op, const std::vector<int32_t>& axes);
  UOp grouped_reduce(UOp node, size_t number, UOp partial, std::vector<int32_t> axes);
  UOp tensor_core_reduce(UOp node, size_t number, UOp operand, const std::vector<int32_t>& axes);
  UOp instruction(UOp a, UOp b, const std::vector<int32_t>& reduced);
  UOp masked_operand(UOp node, size_t number, UOp operand);
  std::vector<int32_t> reduced_axes(size_t number, int begin, int end) const;
  ShapeTracker swizzled(const ShapeTracker& st, const TensorCore::Swizzle& swizzle) const;
  UOp swizzled_operand(UOp operand, const TensorCore::Swizzle& swizzle);

  /// The node for a view of the kernel, made once.
  UOp view_node(size_t view) {
    if (!views[view]) views[view] = graph.view((*kernel.views_)[view].tracker());
    return views[view];
  }

  const Kernel& kernel;
  const Fixed& fixed;
  Graph& graph;
  std::vector<UOp> views;
  NodeScratch<UOp> done;
  NodeScratch<uint32_t> buffer_numbers, reduce_numbers;  ///< buffers from 1
  std::vector<UOp> src;
};

UOp Kernel::optimized_ast() const { return AstBuilder(*this).build(); }

UOp Kernel::AstBuilder::build() {
  for (UOp node : toposort(fixed.ast)) done.set(node, rebuilt(node));
  return done.get(fixed.ast);
}

UOp Kernel::AstBuilder::rebuilt(UOp node) {
  if (const uint32_t buffer = buffer_numbers.get(node); buffer != 0) return with_new_view(node, buffer - 1);
  if (node.is(Op::ReduceAxis)) return reduce(node);
  if (node.num_src() == 0) return node;
  src.clear();
  for (UOp s : node.src()) src.push_back(done.get(s));
  if (!node.is(Op::Sink)) return node.with_src(src);
  const KernelInfo info{static_cast<int16_t>(kernel.local_dims()), static_cast<int16_t>(kernel.upcasted()),
                        kernel.dont_use_locals_,
                        kernel.axes_.empty() || kernel.axes_[0].kind != AxisKind::Thread ? int16_t{0} : int16_t{1}};
  return graph.node(Op::Sink, node.dtype(), src, info);
}

UOp Kernel::AstBuilder::with_new_view(UOp buffer, size_t number) {
  const UOp view = view_node(fixed.view_of[number]);
  if (buffer.is(Op::Valid)) return buffer.with_src(std::span(&view, 1));
  src.clear();
  for (UOp s : buffer.src()) src.push_back(done.get(s));
  src[1] = view;
  const UOp access = buffer.with_src(src);
  return access.is(Op::Load) && !kernel.packed_.empty() ? packed(access, number) : access;
}

/// A LOAD of a packed buffer goes through scratch memory, which has the axes that are packed and no others.
UOp Kernel::AstBuilder::packed(UOp load, size_t number) {
  const auto is_its = [&](const Packed& p) {
    return load.src(0).is(Op::DefineGlobal) && std::get<int64_t>(load.src(0).arg()) == p.global;
  };
  const auto found = std::find_if(kernel.packed_.begin(), kernel.packed_.end(), is_its);
  if (found == kernel.packed_.end()) return load;
  const Shape& shape = kernel.buffer_view(number).shape();
  const std::vector<int> axes = kernel.packed_axes(number, found->axis);
  std::vector<int> order;
  for (int i = 0; i < kernel.num_axes(); ++i)
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) order.push_back(i);
  Shape sizes(order.size(), SInt(1));
  order.insert(order.end(), axes.begin(), axes.end());
  for (int i : axes) sizes.push_back(shape[static_cast<size_t>(i)]);
  std::vector<int> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int>(i);
  const ShapeTracker scratch = tracker(sizes);
  const UOp view = graph.view(expand(permute(scratch, back), shape));
  return through_local(local_buffer(graph, fmt::format("packed{}", number), load.dtype(), scratch), view, view, load);
}

std::vector<int32_t> Kernel::AstBuilder::reduced_axes(size_t number, int begin, int end) const {
  const TrackedView& result = kernel.reduce_result_view(number);
  const TrackedView& operand = kernel.reduce_operand_view(number);
  std::vector<int32_t> axes;
  for (int i = begin; i < end; ++i)
    if (is_not_equal(result.size(i), operand.size(i))) axes.push_back(i);
  return axes;
}

UOp Kernel::AstBuilder::reduce(UOp node) {
  const size_t number = reduce_numbers.get(node);
  const int first = kernel.first_reduce(), loops = first + kernel.group_dims();
  const std::vector<int32_t> axes = reduced_axes(number, loops, kernel.num_axes());
  const UOp operand = masked_operand(node, number, done.get(node.src(0)));
  if (kernel.tensor_core_ && fixed.use != TensorCoreUse::ShapeOnly)
    return tensor_core_reduce(node, number, operand, axes);
  const Op op = std::get<const ReduceArg*>(node.arg())->op;
  const UOp reduced = reduced_in_parts(operand, op, axes);
  std::vector<int32_t> grouped = reduced_axes(number, first, loops);
  return grouped.empty() ? reduced : grouped_reduce(node, number, reduced, std::move(grouped));
}

/// Over the other axes first, each part by itself, then over the parts.
UOp Kernel::AstBuilder::reduced_in_parts(UOp operand, Op op, const std::vector<int32_t>& axes) {
  std::vector<int32_t> parts, others;
  for (int32_t i : axes) (kernel.axes_[static_cast<size_t>(i)].kind == AxisKind::Partial ? parts : others).push_back(i);
  if (!parts.empty() && others.empty()) std::swap(parts, others);
  const UOp reduced = graph.node(Op::ReduceAxis, operand.dtype(), {operand}, graph.intern(ReduceArg{op, others}));
  if (parts.empty()) return reduced;
  return graph.node(Op::ReduceAxis, operand.dtype(), {reduced}, graph.intern(ReduceArg{op, parts}));
}

/// Each thread stores what it reduced, and all threads' values are reduced once more.
UOp Kernel::AstBuilder::grouped_reduce(UOp node, size_t number, UOp partial, std::vector<int32_t> axes) {
  const Shape& output = kernel.output_view().shape();
  const TrackedView& result = kernel.reduce_result_view(number);
  Shape shape(kernel.axes_.size(), SInt(1));
  for (size_t i = 0; i < shape.size(); ++i) {
    const Axis& axis = kernel.axes_[i];
    const bool grouped = std::find(axes.begin(), axes.end(), static_cast<int32_t>(i)) != axes.end();
    // Threads along another reduce's group, and its unrolled turns, have values of their own.
    const bool is_reduce = axis.kind == AxisKind::GroupReduce || axis.kind == AxisKind::Unroll;
    const bool others = is_reduce && !(result.size(static_cast<int>(i)) == 1);
    if (axis.kind == AxisKind::Local || axis.kind == AxisKind::UpcastMid || grouped || others) shape[i] = axis.size;
    if (axis.kind == AxisKind::Upcast) shape[i] = output[i];
  }
  const Op op = std::get<const ReduceArg*>(node.arg())->op;
  const std::string name = fmt::format("temp{}", number + 1);
  const ShapeTracker all = tracker(shape);
  const UOp view = graph.view(all);
  const UOp loaded = through_local(local_buffer(graph, name, node.dtype(), all), view, view, partial);
  const UOp reduced = graph.node(Op::ReduceAxis, node.dtype(), {loaded}, graph.intern(ReduceArg{op, axes}));
  if (node == fixed.reduces.back()) return reduced;
  // Other reduces follow, in every thread: they all need the result. It has memory of its own, as some threads may still be
  // reading the others' values when the first one has it.
  for (int32_t i : axes) shape[static_cast<size_t>(i)] = 1;
  const ShapeTracker one = tracker(shape);
  const UOp result_view = graph.view(one);
  return through_local(local_buffer(graph, name + "r", node.dtype(), one), result_view, result_view, reduced);
}

// ---- padding ----

namespace {

UOp identity_of(Op op, const DType& dtype, Graph& graph) {
  if (op == Op::Mul) return graph.constant(dtype, 1);
  if (op == Op::Add) return graph.constant(dtype, 0);
  if (dtype.is_float()) return graph.const_float(dtype, -std::numeric_limits<double>::infinity());
  return graph.const_int(dtype, min_value(dtype.scalar));
}

}  // namespace

/// The operand of a reduce, replaced by what changes nothing where a padded axis is past its end, unless it is 0 there already.
UOp Kernel::AstBuilder::masked_operand(UOp node, size_t number, UOp operand) {
  if (!kernel.padded_reduce_) return operand;
  const Op op = std::get<const ReduceArg*>(node.arg())->op;
  if (op == Op::Add && fixed.reduces.size() == 1 && is_zero_in_padding(node.src(0))) return operand;
  const Shape& shape = kernel.reduce_operand_view(number).shape();
  Mask part(shape.size(), Bounds{0, 1});  // one step along what it does not reduce: it is not to depend on that
  for (int32_t axis : reduced_axes(number, kernel.first_reduce(), kernel.num_axes()))
    part[static_cast<size_t>(axis)].second = shape[static_cast<size_t>(axis)];
  const ShapeTracker inside = expand(shrink(kernel.views_->back().tracker(), part), shape);
  if (std::ranges::none_of(inside.views, [](const View& view) { return view.mask.has_value(); })) return operand;
  const UOp valid = graph.node(Op::Valid, Scalar::Bool, {graph.view(inside)});
  return valid.where(operand, identity_of(op, operand.dtype(), graph));
}

// ---- tensor cores ----

/// The view under which threads hold the elements that the instruction wants of them.
ShapeTracker Kernel::AstBuilder::swizzled(const ShapeTracker& st, const TensorCore::Swizzle& swizzle) const {
  const TensorCore& core = *kernel.tensor_core_;
  const size_t warp = static_cast<size_t>(kernel.global_dims()), warp_rank = core.threads.size();
  const auto unrolled = static_cast<size_t>(kernel.first_upcast());
  const size_t parts = core.reduce_axes.size() + core.early_upcast_axes().size();
  const Shape& shape = st.shape();
  Shape expanded(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(unrolled));
  for (int32_t size : core.expanded_shape) expanded.emplace_back(size);
  expanded.insert(expanded.end(), shape.begin() + static_cast<std::ptrdiff_t>(unrolled + parts), shape.end());

  std::vector<int> order;
  const auto plain = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) order.push_back(static_cast<int>(i));
  };
  const auto moved = [&](const TensorCore::Pattern& pattern) {
    for (const auto& [where, which] : pattern) order.push_back(which + static_cast<int>(where == 0 ? warp : unrolled));
  };
  plain(0, warp);
  moved(swizzle.warp);
  plain(warp + warp_rank, unrolled);
  moved(swizzle.expanded);
  plain(unrolled + core.expanded_shape.size(), expanded.size());
  return simplify(reshape(permute(reshape(st, expanded), order), shape));
}

UOp Kernel::AstBuilder::swizzled_operand(UOp operand, const TensorCore::Swizzle& swizzle) {
  if (operand.is(Op::Cast)) {
    const UOp inner = swizzled_operand(operand.src(0), swizzle);
    return operand.with_src(std::span(&inner, 1));
  }
  const UOp view = graph.view(swizzled(view_of_buffer(operand), swizzle));
  if (operand.is(Op::Valid)) return operand.with_src(std::span(&view, 1));
  std::vector<UOp> sources(operand.src().begin(), operand.src().end());
  sources[1] = view;
  return operand.with_src(sources);
}

UOp Kernel::AstBuilder::tensor_core_reduce(UOp node, size_t number, UOp operand, const std::vector<int32_t>& axes) {
  const TensorCore& core = *kernel.tensor_core_;
  const UOp product = operand.is(Op::Cast) ? operand.src(0) : operand;
  std::vector<int32_t> inside, outside;
  for (const AxisSize& a : core.reduce_axes) inside.push_back(kernel.first_upcast() + a.axis);
  std::copy_if(axes.begin(), axes.end(), std::back_inserter(outside),
               [&](int32_t a) { return std::find(inside.begin(), inside.end(), a) == inside.end(); });

  std::array<UOp, 2> factors = {product.src(0), product.src(1)};
  const std::array<const std::optional<TensorCore::Swizzle>*, 2> swizzles = {&core.swizzle_a, &core.swizzle_b};
  Shape local_shape = kernel.full_shape();
  for (int i = kernel.first_reduce(); i < kernel.first_upcast(); ++i) local_shape[static_cast<size_t>(i)] = 1;
  for (size_t i = 0; i < 2; ++i) {
    if (*swizzles[i]) factors[i] = swizzled_operand(factors[i], **swizzles[i]);
    if (fixed.use != TensorCoreUse::Emulated) continue;
    const ShapeTracker loaded = tracker(local_shape);
    const ShapeTracker stored = *swizzles[i] ? swizzled(loaded, **swizzles[i]) : loaded;
    const UOp buffer = local_buffer(graph, fmt::format("temp{}", 2 * number + i + 1), core.dtype_in, loaded);
    factors[i] = through_local(buffer, graph.view(stored), graph.view(loaded), factors[i]);
  }

  UOp result;
  if (fixed.use == TensorCoreUse::Instruction) {
    result = instruction(factors[0], factors[1], inside);
  } else {
    const UOp products = (factors[0] * factors[1]).cast(core.dtype_out);
    result = graph.node(Op::ReduceAxis, core.dtype_out, {products}, graph.intern(ReduceArg{Op::Add, inside}));
  }
  if (outside.empty()) return result;
  return graph.node(Op::ReduceAxis, node.dtype(), {result}, graph.intern(ReduceArg{Op::Add, outside}));
}

UOp Kernel::AstBuilder::instruction(UOp a, UOp b, const std::vector<int32_t>& reduced) {
  const TensorCore& core = *kernel.tensor_core_;
  const int first = kernel.first_upcast();
  WmmaArg arg{core.name(), core.dims, core.dtype_in, core.dtype_out, fixed.target->device, 1, {}, reduced};
  for (const AxisSize& t : core.threads) arg.threads *= t.size;
  for (size_t i = 0; i < 3; ++i) arg.upcast_axes[i] = from(first, core.upcast_axes[i]);
  const auto contracted = [&](UOp value, const Axes& axes) {
    return graph.node(Op::Contract, value.dtype().vec(static_cast<int>(product(axes))), {value}, graph.intern(axes));
  };
  const UOp left = contracted(a, arg.upcast_axes[0]), right = contracted(b, arg.upcast_axes[1]);
  const DType sums = DType(core.dtype_out, static_cast<uint16_t>(product(arg.upcast_axes[2])));
  const Axes* lanes = graph.intern(arg.upcast_axes[2]);
  const UOp wmma = graph.node(Op::Wmma, sums, {left, right, graph.constant(sums, 0)}, graph.intern(std::move(arg)));
  return graph.node(Op::Expand, core.dtype_out, {wmma}, lanes);
}

}  // namespace quern
