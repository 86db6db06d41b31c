#include "quern/builder.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "quern/error.h"

#include "engine/kernel_graph.h"
#include "ir/eval.h"
#include "ir/spec.h"
#include "shape/shapetracker.h"

namespace quern {

struct KernelBuilder::State {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  std::vector<UOp> stores;
};

struct Value::Impl {
  std::shared_ptr<KernelBuilder::State> state;
  UOp node;
  std::optional<Shape> shape;  // none: a constant
  bool reduced = false;        // a REDUCE_AXIS is below it
};

namespace {

using State = std::shared_ptr<KernelBuilder::State>;

Value make(const State& state, UOp node, std::optional<Shape> shape, bool reduced = false) {
  return Value(std::make_shared<const Value::Impl>(Value::Impl{state, node, std::move(shape), reduced}));
}
/// The same shape as `like`.
Value with_node(const Value& like, UOp node) {
  return make(like.impl().state, node, like.impl().shape, like.impl().reduced);
}

static_assert(static_cast<int>(DataType::Bool) + 1 == static_cast<int>(Scalar::Bool));
static_assert(static_cast<int>(DataType::Double) + 1 == static_cast<int>(Scalar::Double));
Scalar scalar_of(DataType type) {
  if (type < DataType::Bool || type > DataType::Double)
    throw InvalidKernel("a type that does not exist: " + std::to_string(static_cast<int>(type)));
  return static_cast<Scalar>(static_cast<int>(type) + 1);
}
DataType type_of(Scalar scalar) { return static_cast<DataType>(static_cast<int>(scalar) - 1); }

Shape shape_of(const std::vector<int64_t>& sizes) { return Shape(sizes.begin(), sizes.end()); }

std::string text_of(const Shape& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i].value());
  return text + (shape.size() == 1 ? ",)" : ")");
}

Mask mask_of(const std::vector<std::pair<int64_t, int64_t>>& ranges) { return Mask(ranges.begin(), ranges.end()); }

ShapeTracker tracker_of(const Shape& shape, const Layout& layout, std::string_view what) {
  for (const SInt& size : shape)
    if (size.value() < 1)
      throw InvalidKernel("[" + std::string(what) + "] shape " + text_of(shape) + " has no elements");
  if (layout.strides.empty() && layout.offset == 0 && layout.mask.empty()) return tracker(shape);
  std::vector<SInt> strides(layout.strides.begin(), layout.strides.end());
  if (strides.empty()) strides = strides_for_shape(shape);
  auto fits = [&](size_t n) { return n == shape.size(); };
  if (!fits(strides.size()) || (!layout.mask.empty() && !fits(layout.mask.size())))
    throw InvalidKernel("[" + std::string(what) + "] " + std::to_string(strides.size()) + " strides and " +
                        std::to_string(layout.mask.size()) + " mask ranges for the shape " + text_of(shape));
  for (size_t i = 0; i < layout.mask.size(); ++i)
    if (auto [first, last] = layout.mask[i]; first < 0 || first > last || last > shape[i].value())
      throw InvalidKernel("[" + std::string(what) + "] mask (" + std::to_string(first) + ", " + std::to_string(last) +
                          ") of an axis of " + std::to_string(shape[i].value()));
  std::optional<Mask> mask;
  if (!layout.mask.empty()) mask = mask_of(layout.mask);
  return {{make_view(shape, std::move(strides), layout.offset, std::move(mask))}};
}

UOp checked(Graph& graph, Op op, DType type, std::initializer_list<UOp> src, Arg arg = {}) {
  std::span<const UOp> sources(src.begin(), src.size());
  if (std::string error = form_error(op, type, sources, arg); !error.empty())
    throw InvalidKernel("[" + std::string(to_string(op)) + "] " + error);
  return graph.node(op, type, sources, arg);
}

UOp global(Graph& graph, int buffer, Scalar scalar) {
  if (buffer < 0) throw InvalidKernel("[DEFINE_GLOBAL] buffer number " + std::to_string(buffer));
  return graph.node(Op::DefineGlobal, DType(scalar).ptr(), {}, int64_t{buffer});
}

// ---- movement: every view below is moved ----

template <class F>
Value moved(const Value& v, std::string_view what, F&& move) {
  const Value::Impl& impl = v.impl();
  if (!impl.shape) throw InvalidKernel("[" + std::string(what) + "] a constant has no shape");
  if (impl.reduced)
    throw InvalidKernel("[" + std::string(what) + "] a reduced value of shape " + text_of(*impl.shape) +
                        ": store it and load it again in another kernel");
  Graph& graph = *impl.state->graph;
  std::vector<std::pair<UOp, UOp>> views;
  for (UOp u : toposort(impl.node))
    if (u.is(Op::View)) views.emplace_back(u, graph.view(move(*std::get<const ShapeTracker*>(u.arg()))));
  Shape shape = move(tracker(*impl.shape)).shape();
  return make(impl.state, substitute(impl.node, views), std::move(shape));
}

bool is_load(UOp u) { return u.is(Op::Load); }

/// `v` in the given shape by repeating axes of size 1; new axes are added in front.
Value broadcast_to(const Value& v, const Shape& shape) {
  const auto& have = v.impl().shape;
  if (!have || *have == shape) return v;
  std::vector<int64_t> aligned(shape.size() - have->size(), 1), wanted;
  for (const SInt& s : *have) aligned.push_back(s.value());
  for (const SInt& s : shape) wanted.push_back(s.value());
  return (have->size() == shape.size() ? v : v.reshape(aligned)).expand(wanted);
}

Shape common_shape(Op op, const Shape& a, const Shape& b) {
  Shape shape(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < shape.size(); ++i) {
    auto at = [&](const Shape& s) { return i < s.size() ? s[s.size() - 1 - i].value() : int64_t{1}; };
    int64_t x = at(a), y = at(b);
    if (x != y && x != 1 && y != 1)
      throw InvalidKernel("[" + std::string(to_string(op)) + "] shapes " + text_of(a) + " and " + text_of(b) +
                          " do not fit together");
    shape[shape.size() - 1 - i] = x == 1 ? y : x;
  }
  return shape;
}

/// An op of values that are brought to one shape first. The type is the last one's, or bool for comparisons.
Value elementwise(Op op, std::vector<Value> args) {
  const State& state = args[0].impl().state;
  std::optional<Shape> shape;
  for (const Value& v : args) {
    if (v.impl().state != state) throw InvalidKernel("[" + std::string(to_string(op)) + "] values of two builders");
    if (const auto& s = v.impl().shape) shape = shape ? common_shape(op, *shape, *s) : *s;
  }
  std::vector<UOp> src;
  bool reduced = false;
  for (const Value& v : args) {
    src.push_back(shape ? broadcast_to(v, *shape).impl().node : v.impl().node);
    reduced |= v.impl().reduced;
  }
  const bool compares = op == Op::Cmplt || op == Op::Cmpne;
  DType type = compares ? DType(Scalar::Bool) : src.back().dtype();
  if (std::string error = form_error(op, type, src, {}); !error.empty())
    throw InvalidKernel("[" + std::string(to_string(op)) + "] " + error);
  return make(state, state->graph->node(op, type, src), std::move(shape), reduced);
}

Value reduce(Op op, const Value& a, const std::vector<int>& axes) {
  const Value::Impl& impl = a.impl();
  if (!impl.shape) throw InvalidKernel("[REDUCE_AXIS] a constant has no shape");
  const int count = static_cast<int>(impl.shape->size());
  std::vector<int32_t> sorted;
  for (int axis : axes) {
    if (axis < -count || axis >= count)
      throw InvalidKernel("[REDUCE_AXIS] axis " + std::to_string(axis) + " of the shape " + text_of(*impl.shape));
    sorted.push_back(axis < 0 ? axis + count : axis);
  }
  std::sort(sorted.begin(), sorted.end());
  if (auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
    throw InvalidKernel("[REDUCE_AXIS] axis " + std::to_string(*twice) + " twice");
  Shape shape = reduced_shape(*impl.shape, sorted);
  Graph& graph = *impl.state->graph;
  UOp node =
      checked(graph, Op::ReduceAxis, impl.node.dtype(), {impl.node}, graph.intern(ReduceArg{op, std::move(sorted)}));
  return make(impl.state, node, std::move(shape), true);
}

Value logical_not(const Value& a) { return with_node(a, a.impl().node.logical_not()); }

}  // namespace

std::string_view to_string(DataType type) { return to_string(scalar_of(type)); }
int size_of(DataType type) { return bytes_of(scalar_of(type)); }

DataType Value::type() const { return type_of(impl_->node.dtype().scalar); }

std::vector<int64_t> Value::shape() const {
  std::vector<int64_t> sizes;
  if (impl_->shape)
    for (const SInt& s : *impl_->shape) sizes.push_back(s.value());
  return sizes;
}

Value Value::reshape(const std::vector<int64_t>& shape) const {
  return moved(*this, "reshape", [&](const ShapeTracker& st) { return quern::reshape(st, shape_of(shape)); });
}

Value Value::permute(const std::vector<int>& axes) const {
  return moved(*this, "permute", [&](const ShapeTracker& st) { return quern::permute(st, axes); });
}

Value Value::expand(const std::vector<int64_t>& shape) const {
  return moved(*this, "expand", [&](const ShapeTracker& st) { return quern::expand(st, shape_of(shape)); });
}

Value Value::pad(const std::vector<std::pair<int64_t, int64_t>>& amounts) const {
  auto padded = [&](const ShapeTracker& st) { return quern::pad(st, mask_of(amounts)); };
  Value result = moved(*this, "pad", padded);
  if (is_load(impl_->node)) return result;  // its mask gives the zeros
  // f(0) need not be 0: choose by a view of where the value is.
  Graph& graph = *impl_->state->graph;
  Shape once(impl_->shape->size(), 1);
  UOp inside = graph.view(padded(quern::expand(tracker(std::move(once)), *impl_->shape)));
  UOp valid = graph.node(Op::Valid, Scalar::Bool, {inside});
  return with_node(result, valid.where(result.impl().node, result.impl().node.const_like(0)));
}

Value Value::shrink(const std::vector<std::pair<int64_t, int64_t>>& ranges) const {
  return moved(*this, "shrink", [&](const ShapeTracker& st) { return quern::shrink(st, mask_of(ranges)); });
}

Value Value::flip(const std::vector<int>& axes) const {
  return moved(*this, "flip", [&](const ShapeTracker& st) {
    std::vector<int64_t> steps(st.shape().size(), 1);
    for (int axis : axes) {
      const int count = static_cast<int>(steps.size());
      if (axis < 0 || axis >= count)
        throw InvalidKernel("[flip] axis " + std::to_string(axis) + " of " + std::to_string(count));
      steps[static_cast<size_t>(axis)] = -1;
    }
    return quern::stride(st, steps);
  });
}

Value Value::cast(DataType type) const { return with_node(*this, impl_->node.cast(scalar_of(type))); }

Value Value::bitcast(DataType type) const {
  if (type == this->type()) return *this;
  return with_node(*this, checked(*impl_->state->graph, Op::Bitcast, scalar_of(type), {impl_->node}));
}

Value Value::constant_like(double value) const {
  Scalar s = impl_->node.dtype().scalar;
  if (!impl_->node.dtype().is_float() && value != std::floor(value))
    throw InvalidKernel("[CONST] " + std::to_string(value) + " is not a value of " + to_string(impl_->node.dtype()));
  UOp node = impl_->node.dtype().is_float()
                 ? impl_->state->graph->const_float(s, value)
                 : impl_->state->graph->const_bits(s, eval_cast(Scalar::Double, s, {std::bit_cast<uint64_t>(value)}));
  return make(impl_->state, node, std::nullopt);
}

Value Value::constant_like(int64_t value) const {
  if (type() == DataType::Bool && value != 0 && value != 1)
    throw InvalidKernel("[CONST] " + std::to_string(value) + " is not a value of dtypes.bool");
  return make(impl_->state, impl_->state->graph->constant(impl_->node.dtype(), value), std::nullopt);
}

Value operator+(const Value& a, const Value& b) { return elementwise(Op::Add, {a, b}); }
Value operator*(const Value& a, const Value& b) { return elementwise(Op::Mul, {a, b}); }
Value operator-(const Value& a) {
  return a.type() == DataType::Bool ? logical_not(a) : a * a.constant_like(int64_t{-1});
}
Value operator-(const Value& a, const Value& b) {
  return a.type() == DataType::Bool ? elementwise(Op::Xor, {a, b}) : a + -b;
}
Value operator/(const Value& a, const Value& b) {
  return a.impl().node.dtype().is_float() ? a * reciprocal(b) : elementwise(Op::Idiv, {a, b});
}
Value operator%(const Value& a, const Value& b) { return elementwise(Op::Mod, {a, b}); }
Value operator&(const Value& a, const Value& b) { return elementwise(Op::And, {a, b}); }
Value operator|(const Value& a, const Value& b) { return elementwise(Op::Or, {a, b}); }
Value operator^(const Value& a, const Value& b) { return elementwise(Op::Xor, {a, b}); }
Value operator<<(const Value& a, const Value& b) { return elementwise(Op::Shl, {a, b}); }
Value operator>>(const Value& a, const Value& b) { return elementwise(Op::Shr, {a, b}); }
Value maximum(const Value& a, const Value& b) { return elementwise(Op::Max, {a, b}); }
Value minimum(const Value& a, const Value& b) {
  // Negating ints may wrap; complementing them reverses their order and never does.
  if (a.impl().node.dtype().is_float()) return -maximum(-a, -b);
  Value ones = a.type() == DataType::Bool ? a.constant_like(int64_t{1}) : a.constant_like(int64_t{-1});
  return maximum(a ^ ones, b ^ ones) ^ ones;
}
Value less(const Value& a, const Value& b) { return elementwise(Op::Cmplt, {a, b}); }
Value less_equal(const Value& a, const Value& b) { return less(a, b) | equal(a, b); }
Value not_equal(const Value& a, const Value& b) { return elementwise(Op::Cmpne, {a, b}); }
Value equal(const Value& a, const Value& b) { return logical_not(not_equal(a, b)); }
Value where(const Value& condition, const Value& yes, const Value& no) {
  return elementwise(Op::Where, {condition, yes, no});
}

Value exp2(const Value& a) { return elementwise(Op::Exp2, {a}); }
Value log2(const Value& a) { return elementwise(Op::Log2, {a}); }
Value sin(const Value& a) { return elementwise(Op::Sin, {a}); }
Value sqrt(const Value& a) { return elementwise(Op::Sqrt, {a}); }
Value reciprocal(const Value& a) { return elementwise(Op::Recip, {a}); }

Value sum(const Value& a, const std::vector<int>& axes) { return reduce(Op::Add, a, axes); }
Value product(const Value& a, const std::vector<int>& axes) { return reduce(Op::Mul, a, axes); }
Value max(const Value& a, const std::vector<int>& axes) { return reduce(Op::Max, a, axes); }

KernelBuilder::KernelBuilder() : state_(std::make_shared<State>()) {}

Value KernelBuilder::load(int buffer, DataType type, const std::vector<int64_t>& shape) {
  return load(buffer, type, shape, Layout{});
}

Value KernelBuilder::load(int buffer, DataType type, const std::vector<int64_t>& sizes, const Layout& layout) {
  Shape shape = shape_of(sizes);
  Graph& graph = *state_->graph;
  UOp view = graph.view(tracker_of(shape, layout, "LOAD"));
  UOp node = graph.node(Op::Load, scalar_of(type), {global(graph, buffer, scalar_of(type)), view});
  return make(state_, node, std::move(shape));
}

Value KernelBuilder::constant(DataType type, double value) {
  return make(state_, state_->graph->constant(scalar_of(type), 0), std::nullopt).constant_like(value);
}
Value KernelBuilder::constant(DataType type, int64_t value) {
  return make(state_, state_->graph->constant(scalar_of(type), 0), std::nullopt).constant_like(value);
}

Value KernelBuilder::variable(const std::string& name, int64_t min, int64_t max, DataType type) {
  Graph& graph = *state_->graph;
  UOp node = checked(graph, Op::DefineVar, scalar_of(type), {}, graph.intern(VarArg{name, min, max}));
  return make(state_, node, std::nullopt);
}

void KernelBuilder::store(int buffer, const Value& value) { store(buffer, value, Layout{}); }

void KernelBuilder::store(int buffer, const Value& value, const Layout& layout) {
  const Value::Impl& v = value.impl();
  if (v.state != state_) throw InvalidKernel("[STORE] a value of another builder");
  if (!v.shape) throw InvalidKernel("[STORE] a constant without a shape");
  Graph& graph = *state_->graph;
  if (!layout.mask.empty()) throw InvalidKernel("[STORE] a mask, which only a load may have");
  UOp view = graph.view(tracker_of(*v.shape, layout, "STORE"));
  state_->stores.push_back(
      graph.node(Op::Store, Scalar::Void, {global(graph, buffer, v.node.dtype().scalar), view, v.node}));
}

KernelGraph KernelBuilder::build() const {
  UOp root = state_->graph->node(Op::Sink, Scalar::Void, state_->stores);
  verify(root, Spec::KernelAst);
  return KernelGraph(std::make_shared<const KernelGraph::Impl>(KernelGraph::Impl{state_->graph, root}));
}

}  // namespace quern
