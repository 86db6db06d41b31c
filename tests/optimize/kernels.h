#pragma once
#include <string>
#include <vector>

#include "ir/graph.h"
#include "optimize/kernel.h"
#include "shape/shapetracker.h"

namespace quern::test {

// Small kernels to optimize. Buffer 0 is the output, the others are loaded in order.

UOp load(Graph& graph, int number, DType type, const ShapeTracker& st);
UOp reduce(Op op, UOp value, std::vector<int32_t> axes);
/// SINK of a STORE of each value, to buffers 0, 1, ...
UOp stored(const std::vector<UOp>& values, const Shape& shape);
UOp stored(UOp value, const Shape& shape);

UOp add_kernel(Graph& graph, const Shape& shape);  ///< a + b
UOp row_sums(Graph& graph, int rows, int columns, Scalar type = Scalar::Float, Op op = Op::Add);
UOp sums_of_exp2(Graph& graph, int rows, int columns);  ///< row sums of exp2(a)
/// a (m,k) times b (k,n): products in `in`, sums in `out`.
UOp matmul(Graph& graph, int m, int n, int k, Scalar in = Scalar::Float, Scalar out = Scalar::Float);
UOp widening_matmul(Graph& graph, int m, int n, int k, Scalar in, Scalar out);  ///< products in `out` as well
UOp matvec(Graph& graph, int rows, int columns);
UOp max_of_row_sums(Graph& graph, int blocks, int rows, int columns);      ///< a reduce of a reduce
UOp row_sums_of_images(Graph& graph, int height, int width, int columns);  ///< each pixel's channels are sums
UOp padded_stack(Graph& graph);                                            ///< (6, 64): rows 0..2 are a, the others 0

/// The axes as letters and sizes: t thread, g global, l local, G group reduce, m upcast mid reduce, r reduce, u upcast, x unroll, p partial.
std::string axes_text(const Kernel& kernel);

/// The nodes of `op` below `root`.
std::vector<UOp> nodes_of(UOp root, Op op);

}  // namespace quern::test
