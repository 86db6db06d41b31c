#include "optimize/kernel.h"

#include <algorithm>

#include <fmt/format.h>

#include "quern/error.h"

#include "base/hash.h"
#include "ir/node_map.h"
#include "ir/text.h"
#include "optimize/kernel_parts.h"
#include "optimize/node_views.h"
#include "symbolic/simplify.h"

namespace quern {
namespace {

/// Buffers above `root` in the reference's order: a node's sources, then what is above each of them in turn.
std::vector<UOp> buffers_above(UOp root) {
  enum : uint8_t { kListed = 1, kEntered = 2 };
  struct Frame {
    UOp node;
    size_t next;
  };
  NodeScratch<uint8_t> state;
  std::vector<UOp> buffers;
  std::vector<Frame> stack;
  const auto enter = [&](UOp node) {
    state.set(node, kEntered);
    for (UOp source : node.src()) {
      if (state.get(source) != 0) continue;
      state.set(source, kListed);
      if (source.is(kBufferOps)) buffers.push_back(source);
    }
    stack.push_back({node, 0});
  };
  enter(root);
  while (!stack.empty()) {
    Frame& top = stack.back();
    if (top.next == top.node.num_src()) {
      stack.pop_back();
      continue;
    }
    const UOp source = top.node.src(top.next++);
    if (state.get(source) != kEntered && source.num_src() != 0) enter(source);
  }
  return buffers;
}

bool has_variable(const View& view) {
  const auto symbolic = [](const SInt& s) { return !s.is_int(); };
  if (!all_int(view.shape) || !all_int(view.strides) || symbolic(view.offset)) return true;
  return view.mask && std::any_of(view.mask->begin(), view.mask->end(),
                                  [&](const Bounds& b) { return symbolic(b.first) || symbolic(b.second); });
}

Op reduce_op(UOp reduce) { return std::get<const ReduceArg*>(reduce.arg())->op; }

bool any_axis_twice(std::span<const UOp> reduces) {
  std::vector<int32_t> axes;
  for (UOp reduce : reduces) {
    const std::vector<int32_t>& more = std::get<const ReduceArg*>(reduce.arg())->axes;
    axes.insert(axes.end(), more.begin(), more.end());
  }
  std::sort(axes.begin(), axes.end());
  return std::adjacent_find(axes.begin(), axes.end()) != axes.end();
}

bool is_sum_that_keeps_zeros(UOp reduce) {
  if (reduce_op(reduce) != Op::Add) return false;
  const std::vector<UOp> nodes = toposort(reduce);
  return std::none_of(nodes.begin(), nodes.end(), [](UOp node) { return node.is(kUnsafePadOps); });
}

/// For each axis of `to`, the axes of `from` that merge into it; nothing if they do not.
std::optional<std::vector<std::pair<size_t, size_t>>> merged_ranges(const Shape& from, const std::vector<int64_t>& to) {
  std::vector<SInt> reached;
  SInt product = 1;
  for (const SInt& s : from) reached.push_back(product *= s);
  std::vector<std::pair<size_t, size_t>> ranges;
  size_t begin = 0;
  int64_t wanted = 1;
  for (size_t i = 0; i < to.size(); ++i) {
    wanted *= to[i];
    const auto at = std::find_if(reached.begin(), reached.end(), [&](const SInt& s) { return s == wanted; });
    if (wanted != 1 && at == reached.end()) return std::nullopt;
    size_t end = wanted == 1 ? 0 : static_cast<size_t>(at - reached.begin()) + 1;
    if (i + 1 == to.size()) end = from.size();
    ranges.emplace_back(begin, std::max(begin, end));
    begin = std::max(begin, end);
  }
  return ranges;
}

}  // namespace

const ShapeTracker& view_of_buffer(UOp buffer) {
  return *std::get<const ShapeTracker*>(buffer.src(buffer.is(Op::Valid) ? 0 : 1).arg());
}

size_t Kernel::Fixed::buffer_index(UOp node) const {
  return static_cast<size_t>(std::find(buffers.begin(), buffers.end(), node) - buffers.begin());
}

DType Kernel::Fixed::memory_type(size_t buffer) const {
  return buffers[buffer].is(Op::Valid) ? DType() : buffers[buffer].src(0).dtype();
}

std::string_view to_string(AxisKind kind) {
  switch (kind) {
    case AxisKind::Thread: return "thread";
    case AxisKind::Global: return "global";
    case AxisKind::Local: return "local";
    case AxisKind::GroupReduce: return "group reduce";
    case AxisKind::UpcastMid: return "mid upcast";
    case AxisKind::Reduce: return "reduce";
    case AxisKind::Upcast: return "upcast";
    case AxisKind::Unroll: return "unroll";
    case AxisKind::Partial: return "partial";
  }
  throw InternalError("an axis of no kind");
}

std::string_view color_of(AxisKind kind, bool dont_use_locals) {
  switch (kind) {
    case AxisKind::Thread: return "BLUE";
    case AxisKind::Global: return dont_use_locals ? "BLUE" : "blue";
    case AxisKind::Local: return "cyan";
    case AxisKind::GroupReduce: return "green";
    case AxisKind::UpcastMid: return "white";
    case AxisKind::Reduce: return "red";
    case AxisKind::Upcast: return "yellow";
    case AxisKind::Unroll: return "magenta";
    case AxisKind::Partial: return "MAGENTA";
  }
  throw InternalError("an axis of no kind");
}

// ---- building ----

Kernel::Kernel(UOp ast, const Target& target, TensorCoreUse use) {
  NodeViews node_views;
  verify_views(ast, node_views);
  auto fixed = std::make_shared<Fixed>();
  fixed->ast = ast;
  fixed->target = &target;
  fixed->use = use;
  fixed->buffers = buffers_above(ast);
  const std::vector<UOp> nodes = toposort(ast);
  for (UOp node : nodes) {
    if (node.is(Op::ReduceAxis)) fixed->reduces.push_back(node);
    if (node.is(Op::DefineVar)) fixed->symbolic = true;
  }
  if (!fixed->reduces.empty()) {
    const std::vector<UOp> below = buffers_above(fixed->reduces[0]);
    if (!below.empty()) fixed->full_buffer = fixed->buffer_index(below[0]);
    fixed->reduces_share_axes = any_axis_twice(fixed->reduces);
    fixed->can_pad_reduce = is_sum_that_keeps_zeros(fixed->reduces[0]);
  }

  std::vector<const ShapeTracker*> distinct;
  const auto add_view = [&](const ShapeTracker* view) {
    size_t i = 0;
    while (i < distinct.size() && distinct[i] != view) ++i;
    if (i == distinct.size()) distinct.push_back(view);
    fixed->view_of.push_back(static_cast<uint32_t>(i));
  };
  for (UOp buffer : fixed->buffers) add_view(&view_of_buffer(buffer));
  for (UOp reduce : fixed->reduces) {
    add_view(node_views.get(reduce));
    add_view(node_views.get(reduce.src(0)));
  }
  auto views = std::make_shared<Views>();
  views->reserve(distinct.size());
  for (const ShapeTracker* view : distinct) {
    views->emplace_back(*view);
    fixed->symbolic = fixed->symbolic || std::any_of(view->views.begin(), view->views.end(), has_variable);
  }
  fixed_ = std::move(fixed);
  views_ = std::move(views);

  order_axes();
  drop_ones();
  merge_adjacent();
}

/// Gives every axis its kind and puts those that the output does not have last.
void Kernel::order_axes() {
  const Shape& output = output_view().shape();
  const Shape& full = buffer_view(fixed_->full_buffer).shape();
  std::vector<int> order, reduced;
  std::vector<Axis> last;
  for (size_t i = 0; i < output.size(); ++i) {
    SInt size = full[i];
    for (const TrackedView& view : *views_)
      if (size == 1) size = view.shape()[i];
    const bool reduces = is_not_equal(size, output[i]);
    (reduces ? reduced : order).push_back(static_cast<int>(i));
    (reduces ? last : axes_).push_back({size, reduces ? AxisKind::Reduce : AxisKind::Global});
  }
  order.insert(order.end(), reduced.begin(), reduced.end());
  axes_.insert(axes_.end(), last.begin(), last.end());
  if (std::is_sorted(order.begin(), order.end())) return;
  views_ = mapped_views([&](const ShapeTracker& st) { return permute(st, order); });
}

void Kernel::drop_ones() {
  std::vector<size_t> kept;
  for (size_t i = 0; i < axes_.size(); ++i)
    if (!(axes_[i].size == 1)) kept.push_back(i);
  if (kept.size() == axes_.size()) return;
  views_ = mapped_views([&](const ShapeTracker& st) {
    Shape shape;
    for (size_t i : kept) shape.push_back(st.shape()[i]);
    return reshape(st, shape);
  });
  std::erase_if(axes_, [](const Axis& axis) { return axis.size == 1; });
}

/// Strides that keep an image's rows, columns and channels apart; none if the output is not an image of that shape.
std::vector<SInt> Kernel::image_strides() const {
  const DType memory = fixed_->memory_type(0);
  if (!memory.is_image()) return {};
  const Shape& output = output_view().shape();
  const auto ranges = merged_ranges(output, {memory.image_height, memory.image_width, 4});
  if (!ranges) return {};
  std::vector<SInt> strides;
  for (const auto& [begin, end] : *ranges) {
    const Shape part(output.begin() + static_cast<std::ptrdiff_t>(begin),
                     output.begin() + static_cast<std::ptrdiff_t>(end));
    const std::vector<SInt> more = strides_for_shape(part);
    strides.insert(strides.end(), more.begin(), more.end());
  }
  return strides;
}

/// Joins neighbouring axes of one kind that every buffer steps through evenly.
void Kernel::merge_adjacent() {
  if (axes_.empty()) return;
  Graph& graph = fixed_->graph();
  const int reduce = first_reduce();
  const auto joins = [](const SInt& size, const std::optional<SInt>& stride, const std::optional<SInt>& before) {
    if (!stride) return false;
    if (*stride == 0) return before && *before == 0;
    return before && *before == size * *stride;
  };
  const std::vector<SInt> image = image_strides();
  std::vector<bool> joined(axes_.size(), false);
  for (size_t i = 1; i < axes_.size(); ++i) {
    bool all = static_cast<int>(i) != reduce;
    for (size_t v = 0; all && v < views_->size(); ++v) {
      const TrackedView& view = (*views_)[v];
      const TrackedView::Strides& strides = view.strides(graph);
      all = joins(view.shape()[i], strides[i], strides[i - 1]);
    }
    if (all && !image.empty()) all = joins(output_view().shape()[i], image[i], image[i - 1]);
    joined[i] = all;
  }
  if (std::none_of(joined.begin(), joined.end(), [](bool j) { return j; })) return;
  views_ = mapped_views([&](const ShapeTracker& st) {
    Shape shape;
    for (size_t i = 0; i < joined.size(); ++i) {
      if (joined[i])
        shape.back() = shape.back() * st.shape()[i];
      else
        shape.push_back(st.shape()[i]);
    }
    return reshape(st, shape);
  });
  std::vector<Axis> merged;
  for (size_t i = 0; i < joined.size(); ++i) {
    if (joined[i])
      merged.back().size = merged.back().size * axes_[i].size;
    else
      merged.push_back(axes_[i]);
  }
  axes_ = std::move(merged);
}

// ---- what it is ----

UOp Kernel::ast() const { return fixed_->ast; }
const Target& Kernel::target() const { return *fixed_->target; }

const TrackedView& Kernel::buffer_view(size_t buffer) const { return (*views_)[fixed_->view_of[buffer]]; }
const TrackedView& Kernel::reduce_result_view(size_t reduce) const {
  return (*views_)[fixed_->view_of[fixed_->buffers.size() + 2 * reduce]];
}
const TrackedView& Kernel::reduce_operand_view(size_t reduce) const {
  return (*views_)[fixed_->view_of[fixed_->buffers.size() + 2 * reduce + 1]];
}

Shape Kernel::full_shape() const {
  Shape shape;
  for (const Axis& axis : axes_) shape.push_back(axis.size);
  return shape;
}

Shape Kernel::output_shape() const { return output_view().shape(); }

int Kernel::global_dims() const {
  int n = 0;
  while (n < num_axes() && axes_[static_cast<size_t>(n)].kind <= AxisKind::Global) ++n;
  return n;
}

int Kernel::first_reduce() const {
  int n = 0;
  while (n < num_axes() && axes_[static_cast<size_t>(n)].kind <= AxisKind::Local) ++n;
  return n;
}

int Kernel::local_dims() const { return first_reduce() - global_dims(); }

int Kernel::group_dims() const {
  const int first = first_reduce();
  int n = first;
  while (n < num_axes() && axes_[static_cast<size_t>(n)].kind <= AxisKind::UpcastMid) ++n;
  return n - first;
}

int Kernel::first_upcast() const {
  int n = num_axes();
  while (n > 0 && axes_[static_cast<size_t>(n) - 1].kind >= AxisKind::Upcast) --n;
  return n;
}

bool Kernel::operator==(const Kernel& other) const {
  const auto same_views = [&] {
    return std::equal(views_->begin(), views_->end(), other.views_->begin(), other.views_->end(),
                      [](const TrackedView& a, const TrackedView& b) { return a.tracker() == b.tracker(); });
  };
  return fixed_->ast == other.fixed_->ast && fixed_->target == other.fixed_->target &&
         fixed_->use == other.fixed_->use && axes_ == other.axes_ && applied_opts_ == other.applied_opts_ &&
         dont_use_locals_ == other.dont_use_locals_ && tensor_core_ == other.tensor_core_ &&
         tensor_core_axes_ == other.tensor_core_axes_ && padded_reduce_ == other.padded_reduce_ &&
         (views_ == other.views_ || same_views());
}

// ---- text ----

namespace {

std::string size_text(const SInt& size) {
  return size.is_int() ? std::to_string(size.value()) : print(simplified(size));
}

/// Letters, digits and _ stay; everything else becomes two hex digits.
void append_identifier(std::string& name, std::string_view text) {
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (plain)
      name += c;
    else
      name += fmt::format("{:02X}", static_cast<unsigned char>(c));
  }
}

std::string_view ansi_code(AxisKind kind, bool dont_use_locals) {
  switch (kind) {
    case AxisKind::Thread: return "94";
    case AxisKind::Global: return dont_use_locals ? "94" : "34";
    case AxisKind::Local: return "36";
    case AxisKind::GroupReduce: return "32";
    case AxisKind::UpcastMid: return "37";
    case AxisKind::Reduce: return "31";
    case AxisKind::Upcast: return "33";
    case AxisKind::Unroll: return "35";
    case AxisKind::Partial: return "95";
  }
  throw InternalError("an axis of no kind");
}

}  // namespace

std::string Kernel::name() const {
  std::string name = fixed_->reduces.empty() ? "E" : "r";
  if (const size_t outputs = fixed_->ast.num_src(); outputs > 1) name += std::to_string(outputs);
  if (axes_.empty()) name += '_';
  for (const Axis& axis : axes_) {
    name += '_';
    append_identifier(name, size_text(axis.size));
  }
  // Compilers and drivers make file names of it. Those of real kernels have some 40 letters.
  constexpr size_t kLongest = 128, kKept = 100;
  if (name.size() <= kLongest) return name;
  uint64_t hash = name.size();
  for (char c : name) hash = hash_mix(hash, static_cast<unsigned char>(c));
  return fmt::format("{}_{:016x}", name.substr(0, kKept), hash);
}

std::string Kernel::shape_text(bool colored) const {
  std::string text;
  for (const Axis& axis : axes_) {
    if (!text.empty()) text += ' ';
    const std::string size = size_text(axis.size);
    text += colored ? fmt::format("\033[{}m{}\033[0m", ansi_code(axis.kind, dont_use_locals_), size) : size;
  }
  return text;
}

}  // namespace quern
