#pragma once
// Small kernels to lower, and looks at what they become.
#include <algorithm>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "lower/lower.h"
#include "optimize/kernel.h"
#include "shape/shapetracker.h"

namespace quern::test {

inline UOp buffer(Graph& g, int number, DType type) {
  return g.node(Op::DefineGlobal, type.is_image() ? type : type.ptr(), {}, int64_t{number});
}
inline UOp load(Graph& g, int number, DType type, const ShapeTracker& st) {
  return g.node(Op::Load, type.base(), {buffer(g, number, type), g.view(st)});
}
inline UOp reduce(UOp value, Op op, std::vector<int32_t> axes) {
  return value.graph().node(Op::ReduceAxis, value.dtype(), {value},
                            value.graph().intern(ReduceArg{op, std::move(axes)}));
}
/// SINK of a STORE of `value` to buffer 0.
inline UOp stored(UOp value, const Shape& shape, DType type = DType()) {
  Graph& g = value.graph();
  UOp out = buffer(g, 0, type.is_image() ? type : value.dtype());
  return g.node(Op::Sink, Scalar::Void, {g.node(Op::Store, Scalar::Void, {out, g.view(tracker(shape)), value})});
}
inline UOp row_sums(Graph& g, int rows, int columns, Scalar type = Scalar::Float, Op op = Op::Add) {
  return stored(reduce(load(g, 1, type, tracker({rows, columns})), op, {1}), {rows, 1});
}
inline UOp matmul(Graph& g, int m, int n, int k, Scalar in, Scalar out) {
  Shape shape{m, n, k};
  UOp a = load(g, 1, in, {{make_view(shape, {k, 0, 1})}}), b = load(g, 2, in, {{make_view(shape, {0, 1, n})}});
  return stored(reduce((a * b).cast(out), Op::Add, {2}), {m, n, 1});
}
/// As matmul, but products are in `out` as well.
inline UOp widening_matmul(Graph& g, int m, int n, int k, Scalar in, Scalar out) {
  Shape shape{m, n, k};
  UOp a = load(g, 1, in, {{make_view(shape, {k, 0, 1})}}), b = load(g, 2, in, {{make_view(shape, {0, 1, n})}});
  return stored(reduce(a.cast(out) * b.cast(out), Op::Add, {2}), {m, n, 1});
}

inline LinearProgram lowered(UOp ast, std::string_view target, std::string_view opts = "") {
  Kernel kernel(ast, find_target(target));
  for (const Opt& opt : parse_opts(opts)) kernel.apply(opt);
  return lower(kernel.optimized_ast(), kernel.target());
}

inline std::vector<UOp> all(const LinearProgram& program, Op op) {
  std::vector<UOp> found;
  std::copy_if(program.uops.begin(), program.uops.end(), std::back_inserter(found), [&](UOp u) { return u.is(op); });
  return found;
}

/// The program's control flow and memory accesses as a line: "for if load4 store endif endfor".
inline std::string outline(const LinearProgram& program) {
  std::string text;
  for (UOp u : program.uops) {
    std::string word;
    switch (u.op()) {
      case Op::Range: word = "for"; break;
      case Op::Endrange: word = "endfor"; break;
      case Op::If: word = "if"; break;
      case Op::Endif: word = "endif"; break;
      case Op::Barrier: word = "barrier"; break;
      case Op::DefineAcc: word = "acc"; break;
      case Op::Wmma: word = "wmma"; break;
      case Op::Load: word = "load"; break;
      case Op::Store: word = "store"; break;
      default: continue;
    }
    int lanes = u.is(Op::Load) ? u.dtype().lanes() : u.is(Op::Store) ? u.src(1).dtype().lanes() : 1;
    if (lanes > 1) word += std::to_string(lanes);
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

/// Names and sizes of the launch indices: "gidx0:4 lidx0:8".
inline std::string launch(const LinearProgram& program) {
  std::vector<std::string> words;
  for (UOp u : all(program, Op::Special)) {
    const auto& arg = *std::get<const SpecialArg*>(u.arg());
    words.push_back(arg.name + ":" + (arg.size.is_int() ? std::to_string(arg.size.value()) : "?"));
  }
  std::sort(words.begin(), words.end());
  std::string text;
  for (const auto& w : words) text += (text.empty() ? "" : " ") + w;
  return text;
}

}  // namespace quern::test
