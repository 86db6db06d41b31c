#pragma once
#include <span>
#include <string>
#include <string_view>

#include "ir/graph.h"

namespace quern {

/// What a graph may hold at a stage. Each is a table of checks by op (spec.cpp).
enum class Spec {
  KernelAst,  ///< as parsed or built: SINK of STOREs over VIEWs
  Indexed,    ///< after indexing: RANGE, SPECIAL, EXPAND, CONTRACT, INDEX; no VIEW
  Expanded,   ///< no EXPAND, CONTRACT
  Linear,  ///< a linear program ready to render: no index type, no DEFINE_ACC without ranges, gates moved to loads and stores
  LinearVectors,  ///< the same where the target has vectors: ops on several lanes, and gates a lane
};
std::string_view to_string(Spec spec);

/// Throws InvalidKernel (KernelAst) or InternalError (later stages) naming the first node that breaks the spec, and the rule.
void verify(UOp root, Spec spec);
void verify(std::span<const UOp> program, Spec spec);

/// What is wrong with a node on its own, whatever the stage: number of sources, kind and values of the payload, types of the
/// sources against the result's ("1 source, not 2"). Empty if nothing is. The reader asks before it makes a node.
std::string form_error(Op op, const DType& dtype, std::span<const UOp> src, const Arg& arg);

}  // namespace quern
