#include "lower/lower.h"

#include "ir/spec.h"

namespace quern {

namespace {

/// Checks and shows what a stage gave.
UOp passed(std::string_view stage, UOp graph, [[maybe_unused]] Spec spec, const StageHook& hook) {
#ifndef NDEBUG
  verify(graph, spec);
#endif
  if (hook) hook(stage, graph);
  return graph;
}

}  // namespace

LinearProgram lower(UOp optimized_ast, const Target& target, const StageHook& hook) {
  UOp graph = optimized_ast;
  graph = passed("index", index_kernel(graph, target), Spec::Indexed, hook);
  graph = passed("expand", expand_graph(graph, target), Spec::Expanded, hook);
  graph = passed("fold memory", fold_memory(graph, target), Spec::Expanded, hook);
  graph = passed("legalize", legalize(graph, target), Spec::Expanded, hook);
  LinearProgram program = linearize(graph);
#ifndef NDEBUG
  verify(program.uops, Spec::Linear);
#endif
  if (hook) hook("linearize", graph);
  return program;
}

}  // namespace quern
