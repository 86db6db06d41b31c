#include "optimize/kernels.h"

namespace quern::test {

UOp load(Graph& graph, int number, DType type, const ShapeTracker& st) {
  const DType pointer = type.is_image() ? type : type.ptr();
  const UOp buffer = graph.node(Op::DefineGlobal, pointer, {}, int64_t{number});
  return graph.node(Op::Load, type.base(), {buffer, graph.view(st)});
}

UOp reduce(Op op, UOp value, std::vector<int32_t> axes) {
  Graph& graph = value.graph();
  return graph.node(Op::ReduceAxis, value.dtype(), {value}, graph.intern(ReduceArg{op, std::move(axes)}));
}

UOp stored(const std::vector<UOp>& values, const Shape& shape) {
  Graph& graph = values[0].graph();
  std::vector<UOp> stores;
  for (size_t i = 0; i < values.size(); ++i) {
    const UOp buffer = graph.node(Op::DefineGlobal, values[i].dtype().ptr(), {}, static_cast<int64_t>(i));
    stores.push_back(graph.node(Op::Store, Scalar::Void, {buffer, graph.view(tracker(shape)), values[i]}));
  }
  return graph.node(Op::Sink, Scalar::Void, stores);
}

UOp stored(UOp value, const Shape& shape) { return stored(std::vector<UOp>{value}, shape); }

UOp add_kernel(Graph& graph, const Shape& shape) {
  const ShapeTracker st = tracker(shape);
  return stored(load(graph, 1, Scalar::Float, st) + load(graph, 2, Scalar::Float, st), shape);
}

UOp row_sums(Graph& graph, int rows, int columns, Scalar type, Op op) {
  return stored(reduce(op, load(graph, 1, type, tracker({rows, columns})), {1}), {rows, 1});
}

UOp sums_of_exp2(Graph& graph, int rows, int columns) {
  const UOp a = load(graph, 1, Scalar::Float, tracker({rows, columns}));
  return stored(reduce(Op::Add, a.alu(Op::Exp2), {1}), {rows, 1});
}

UOp matmul(Graph& graph, int m, int n, int k, Scalar in, Scalar out) {
  const std::vector<int> transposed = {1, 0};
  const UOp a = load(graph, 1, in, expand(reshape(tracker({m, k}), {m, 1, k}), {m, n, k}));
  const UOp b = load(graph, 2, in, expand(reshape(permute(tracker({k, n}), transposed), {1, n, k}), {m, n, k}));
  return stored(reduce(Op::Add, (a * b).cast(out), {2}), {m, n, 1});
}

UOp widening_matmul(Graph& graph, int m, int n, int k, Scalar in, Scalar out) {
  const UOp a = load(graph, 1, in, {{make_view({m, n, k}, {k, 0, 1})}});
  const UOp b = load(graph, 2, in, {{make_view({m, n, k}, {0, 1, n})}});
  return stored(reduce(Op::Add, a.cast(out) * b.cast(out), {2}), {m, n, 1});
}

UOp matvec(Graph& graph, int rows, int columns) {
  const UOp a = load(graph, 1, Scalar::Float, expand(tracker({1, columns}), {rows, columns}));
  const UOp b = load(graph, 2, Scalar::Float, tracker({rows, columns}));
  return stored(reduce(Op::Add, a * b, {1}), {rows, 1});
}

UOp max_of_row_sums(Graph& graph, int blocks, int rows, int columns) {
  const UOp a = load(graph, 1, Scalar::Float, tracker({blocks, rows, columns}));
  return stored(reduce(Op::Max, reduce(Op::Add, a, {2}), {1}), {blocks, 1, 1});
}

UOp row_sums_of_images(Graph& graph, int height, int width, int columns) {
  const Shape shape = {height, width, 4, 1};
  const UOp a = load(graph, 1, Scalar::Float, tracker({height, width, 4, columns}));
  const UOp image = graph.node(
      Op::DefineGlobal, image_type(false, static_cast<uint32_t>(height), static_cast<uint32_t>(width)), {}, int64_t{0});
  const UOp store = graph.node(Op::Store, Scalar::Void, {image, graph.view(tracker(shape)), reduce(Op::Add, a, {3})});
  return graph.node(Op::Sink, Scalar::Void, {store});
}

UOp padded_stack(Graph& graph) {
  const UOp a = load(graph, 1, Scalar::Float, pad(tracker({3, 64}), {{0, 3}, {0, 0}}));
  return stored(a.alu(Op::Neg), {6, 64});
}

std::string axes_text(const Kernel& kernel) {
  constexpr std::string_view kLetters = "tglGmruxp";
  std::string text;
  for (const Axis& axis : kernel.axes()) {
    if (!text.empty()) text += ' ';
    text += kLetters[static_cast<size_t>(axis.kind)];
    text += axis.size.is_int() ? std::to_string(axis.size.value()) : "?";
  }
  return text;
}

std::vector<UOp> nodes_of(UOp root, Op op) {
  std::vector<UOp> found;
  for (UOp node : toposort(root))
    if (node.is(op)) found.push_back(node);
  return found;
}

}  // namespace quern::test
