#pragma once
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "target/target.h"

namespace quern {

/// An ordered program: sources before users, every RANGE and IF closed by ENDRANGE and ENDIF. Spec: Linear.
struct LinearProgram {
  std::vector<UOp> uops;
};

/// Called after each stage with its name and graph (QUERN_DUMP, tests, timing).
using StageHook = std::function<void(std::string_view stage, UOp graph)>;

/// The stages' names in their order.
std::span<const std::string_view> stage_names();

/// The whole way from an optimized AST to a linear program for a target:
/// index, expand, fold memory, legalize, pack vectors (where the target has them), linearize.
LinearProgram lower(UOp optimized_ast, const Target& target, const StageHook& hook = {});

// The stages, each in its own file with its contract.
UOp index_kernel(UOp optimized_ast, const Target& target);
UOp expand_graph(UOp indexed, const Target& target);
UOp fold_memory(UOp expanded, const Target& target);
UOp legalize(UOp folded, const Target& target);
/// On targets with vectors: what neighbouring lanes of stores and accumulators compute alike is computed on vectors, from wide loads
/// on; lanes under conditions of their own are masked.
UOp pack_vectors(UOp legal, const Target& target);
LinearProgram linearize(UOp legal);

/// A linear program as text, a UOp a line: number, op, dtype, sources by number, payload.
std::string print_linear(const LinearProgram& program);

}  // namespace quern
