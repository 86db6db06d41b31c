#include "lower/lower.h"

#include <array>

#include "ir/spec.h"

namespace quern {

namespace {

constexpr std::array<std::string_view, 6> kStages = {"index",    "expand",       "fold memory",
                                                     "legalize", "pack vectors", "linearize"};

/// Checks and shows what a stage gave.
UOp passed(std::string_view stage, UOp graph, [[maybe_unused]] Spec spec, const StageHook& hook) {
#ifndef NDEBUG
  verify(graph, spec);
#endif
  if (hook) hook(stage, graph);
  return graph;
}

}  // namespace

std::span<const std::string_view> stage_names() { return kStages; }

LinearProgram lower(UOp optimized_ast, const Target& target, const StageHook& hook) {
  UOp graph = optimized_ast;
  graph = passed(kStages[0], index_kernel(graph, target), Spec::Indexed, hook);
  graph = passed(kStages[1], expand_graph(graph, target), Spec::Expanded, hook);
  graph = passed(kStages[2], fold_memory(graph, target), Spec::Expanded, hook);
  graph = passed(kStages[3], legalize(graph, target), Spec::Expanded, hook);
  if (target.vector_bytes != 0) graph = passed(kStages[4], pack_vectors(graph, target), Spec::Expanded, hook);
  LinearProgram program = linearize(graph);
#ifndef NDEBUG
  verify(program.uops, target.vector_bytes != 0 ? Spec::LinearVectors : Spec::Linear);
#endif
  if (hook) hook(kStages[5], graph);
  return program;
}

}  // namespace quern
