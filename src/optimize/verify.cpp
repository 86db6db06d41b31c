#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "quern/error.h"

#include "ir/node_map.h"
#include "ir/spec.h"
#include "ir/text.h"
#include "optimize/kernel_parts.h"
#include "optimize/node_views.h"

namespace quern {
namespace {

std::string to_text(const Shape& shape) {
  std::vector<std::string> sizes;
  for (const SInt& s : shape) sizes.push_back(print(s));
  return fmt::format("({}{})", fmt::join(sizes, ", "), shape.size() == 1 ? "," : "");
}

std::string name_of(UOp node) {
  return fmt::format("{} (node {}, {})", to_string(node.op()), node.id(), to_string(node.dtype()));
}

template <class... Args>
[[noreturn]] void refuse(UOp node, fmt::format_string<Args...> rule, Args&&... args) {
  throw InvalidKernel(fmt::format("[verify] {}: {}", name_of(node), fmt::format(rule, std::forward<Args>(args)...)));
}

constexpr OpSet kWithoutShape = {Op::DefineGlobal, Op::DefineLocal, Op::Buffer, Op::Const,
                                 Op::Vconst,       Op::DefineVar,   Op::Bind,   Op::Sink};

void check_sizes(UOp view, const Shape& shape) {
  for (const SInt& s : shape)
    if (s.is_int() ? s.value() < 1 : max_of(s) < 1)
      refuse(view, "a size of its shape {} is not positive", to_text(shape));
}

const ShapeTracker* reduced_view(UOp reduce, const ShapeTracker& operand) {
  const std::vector<int32_t>& axes = std::get<const ReduceArg*>(reduce.arg())->axes;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || static_cast<size_t>(axes[i]) >= operand.shape().size())
      refuse(reduce, "reduces axis {} of the shape {}", axes[i], to_text(operand.shape()));
    if (std::find(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(i), axes[i]) !=
        axes.begin() + static_cast<std::ptrdiff_t>(i))
      refuse(reduce, "reduces axis {} twice", axes[i]);
  }
  return reduce.graph().intern(tracker(reduced_shape(operand.shape(), axes)));
}

/// The view of a node that takes over its sources' shape; null if none of them has one.
const ShapeTracker* inherited_view(UOp node, const NodeViews& views) {
  const ShapeTracker* first = nullptr;
  UOp giver;
  for (UOp source : node.src()) {
    const ShapeTracker* view = views.get(source);
    if (!view) continue;
    if (!first) {
      first = view;
      giver = source;
    } else if (view != first && view->shape() != first->shape()) {
      refuse(node, "its sources {} and {} have the shapes {} and {}; only a reduce changes a shape",
             to_string(giver.op()), to_string(source.op()), to_text(first->shape()), to_text(view->shape()));
    }
  }
  return first;
}

const ShapeTracker* view_of_node(UOp node, const NodeViews& views) {
  if (node.is(kWithoutShape)) return nullptr;
  if (node.is(Op::View)) {
    if (node.num_src() != 0) refuse(node, "a view of a value; views belong to loads, stores and valids");
    const ShapeTracker* view = std::get<const ShapeTracker*>(node.arg());
    check_sizes(node, view->shape());
    return view;
  }
  const ShapeTracker* view = inherited_view(node, views);
  if (!node.is(Op::ReduceAxis)) return view;
  if (!view) refuse(node, "reduces a value without a shape");
  return reduced_view(node, *view);
}

void check_root(UOp ast) {
  if (!ast.is(Op::Sink)) refuse(ast, "a kernel is a SINK of STOREs");
  if (ast.num_src() == 0) refuse(ast, "a kernel stores something");
  for (UOp store : ast.src())
    if (!store.is(Op::Store)) refuse(store, "a kernel's SINK has STOREs only");
  for (size_t i = 1; i < ast.num_src(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (ast.src(j) == ast.src(i)) refuse(ast.src(i), "the same store twice");
}

void check_outputs(UOp ast, const NodeViews& views) {
  const int64_t size = size_of(*views.get(ast.src(0)));
  for (UOp store : ast.src())
    if (const int64_t other = size_of(*views.get(store)); other != size)
      refuse(store, "stores {} elements, the first output {}; all outputs have the same size", other, size);
}

/// Index of the first element that a view of ints reads or writes; 0 where nothing is inside its mask or its sizes are symbolic.
Int128 first_element(const View& view) {
  if (!view.offset.is_int() || !all_int(view.shape) || !all_int(view.strides)) return 0;
  Int128 first = view.offset.value();
  for (size_t i = 0; i < view.shape.size(); ++i) {
    SInt begin = 0, end = view.shape[i];
    if (view.mask) std::tie(begin, end) = (*view.mask)[i];
    if (!begin.is_int() || !end.is_int() || begin.value() >= end.value()) return 0;
    const Int128 stride = view.strides[i].value();
    first += stride * (stride > 0 ? begin.value() : end.value() - 1);
  }
  return first;
}

/// What is known of a kernel's buffers and variables, by number and name.
class Arguments {
 public:
  void add_access(UOp access) {
    const ShapeTracker& st = *std::get<const ShapeTracker*>(access.src(1).arg());
    add_variables(access, st);
    if (!access.src(0).is(Op::DefineGlobal)) return;
    if (const Int128 first = first_element(st.views.front()); first < 0)
      refuse(access, "accesses element {} of buffer {}", to_string(first), number_of(access));
    for (const UOp& other : buffers_)
      if (other.arg() == access.src(0).arg() && other != access.src(0))
        refuse(access, "buffer {} is {} and {}", number_of(access), to_string(other.dtype()),
               to_string(access.src(0).dtype()));
    if (std::find(buffers_.begin(), buffers_.end(), access.src(0)) == buffers_.end()) buffers_.push_back(access.src(0));
    if (access.is(Op::Store)) add_store(access, st);
  }
  void add_variable(UOp node, const VarArg* variable) {
    for (const VarArg* other : variables_)
      if (other != variable && other->name == variable->name)
        refuse(node, "the variable {} goes from {} to {} and from {} to {}", variable->name, other->min, other->max,
               variable->min, variable->max);
    if (std::find(variables_.begin(), variables_.end(), variable) == variables_.end()) variables_.push_back(variable);
  }
  void add_variables(UOp node, const ShapeTracker& st) {
    for (UOp v : variables(st)) add_variable(node, std::get<const VarArg*>(v.arg()));
  }

 private:
  static int64_t number_of(UOp access) { return std::get<int64_t>(access.src(0).arg()); }

  void add_store(UOp store, const ShapeTracker& st) {
    const int64_t number = number_of(store);
    if (std::find(stored_.begin(), stored_.end(), number) != stored_.end())
      refuse(store, "buffer {} is stored twice", number);
    stored_.push_back(number);
    for (const View& view : st.views)
      for (size_t i = 0; i < view.shape.size(); ++i)
        if (view.strides[i] == 0 && !(view.shape[i] == 1) && !(view.mask && has_one(view.mask.value()[i])))
          refuse(store, "stores the {} values of an axis of {} to the same element", print(view.shape[i]),
                 to_text(view.shape));
    if (st.views.size() == 1 && overlaps(st.views.front()))
      refuse(store, "stores several values to the same element: shape {}, strides {}", to_text(st.shape()),
             to_text(st.views.front().strides));
  }

  /// Whether two places of a view of ints are one element: two axes meet (a steps of one are b of the other), or there are more
  /// places than elements. Does not see every overlap of three axes and more.
  static bool overlaps(const View& view) {
    if (!all_int(view.shape) || !all_int(view.strides)) return false;
    std::vector<std::pair<Int128, Int128>> axes;  // size and stride
    Int128 places = 1, reach = 1;
    for (size_t i = 0; i < view.shape.size(); ++i) {
      Int128 size = view.shape[i].value();
      if (view.mask) {
        const Bounds& bounds = view.mask.value()[i];
        if (!bounds.first.is_int() || !bounds.second.is_int()) return false;
        size = Int128{bounds.second.value()} - bounds.first.value();
      }
      if (size < 1) return false;
      const Int128 stride = view.strides[i].value();
      places *= size;  // the product of the sizes is below 2^63, as all views are
      reach += (stride < 0 ? -stride : stride) * (size - 1);
      if (size > 1) axes.emplace_back(size, stride < 0 ? -stride : stride);
    }
    for (size_t i = 0; i < axes.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        Int128 a = axes[i].second, b = axes[j].second;
        while (b != 0) std::swap(a %= b, b);
        if (a != 0 && axes[j].second / a < axes[i].first && axes[i].second / a < axes[j].first) return true;
      }
    return places > reach;
  }

  static bool has_one(const Bounds& bounds) {
    return bounds.first.is_int() && bounds.second.is_int() && bounds.second.value() - bounds.first.value() <= 1;
  }

  std::vector<UOp> buffers_;
  std::vector<int64_t> stored_;
  std::vector<const VarArg*> variables_;
};

void check_arguments(std::span<const UOp> nodes) {
  Arguments arguments;
  for (UOp node : nodes) {
    if (node.is(OpSet{Op::Load, Op::Store})) arguments.add_access(node);
    if (node.is(Op::Valid)) arguments.add_variables(node, *std::get<const ShapeTracker*>(node.src(0).arg()));
    if (node.is(Op::DefineVar)) arguments.add_variable(node, std::get<const VarArg*>(node.arg()));
  }
}

/// Along each axis all shapes have either one and the same size or 1.
void check_axes(std::span<const UOp> nodes, const NodeViews& views, const Shape& output) {
  Shape full = output;
  const Shape* last = nullptr;
  for (UOp node : nodes) {
    const ShapeTracker* view = views.get(node);
    if (!view || &view->shape() == last) continue;
    last = &view->shape();
    const Shape& shape = view->shape();
    if (shape.size() != full.size())
      refuse(node, "its shape {} has not the {} axes of the output", to_text(shape), full.size());
    for (size_t i = 0; i < full.size(); ++i) {
      if (full[i] == 1) full[i] = shape[i];
      if (shape[i] != full[i] && !(shape[i] == 1))
        refuse(node, "its shape {} has the size {} where others have {}; along an axis sizes are either 1 or the same",
               to_text(shape), print(shape[i]), print(full[i]));
    }
  }
}

}  // namespace

void verify_views(UOp ast, NodeViews& views) {
  check_root(ast);
  verify(ast, Spec::KernelAst);
  const std::vector<UOp> nodes = toposort(ast);
  for (UOp node : nodes)
    if (const ShapeTracker* view = view_of_node(node, views)) views.set(node, view);
  for (UOp store : ast.src())
    if (!views.get(store)) refuse(store, "stores through no view");
  check_outputs(ast, views);
  check_axes(nodes, views, views.get(ast.src(0))->shape());
  check_arguments(nodes);
}

NodeMap<Shape> verify_ast(UOp ast) {
  NodeViews views;
  verify_views(ast, views);
  NodeMap<Shape> shapes;
  for (UOp node : toposort(ast))
    if (const ShapeTracker* view = views.get(node)) shapes[node] = view->shape();
  return shapes;
}

}  // namespace quern
