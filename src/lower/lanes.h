#pragma once
#include "ir/rewrite.h"

namespace quern {

/// Builds a node for each lane of everything that depends on an EXPAND. What is left has one lane, but for the operands and
/// results of WMMA; CONTRACT and EXPAND are gone, accumulators and stores are there once a lane. Each lane is simplified by `rules`
/// as it is built; none of them may apply to `sink` itself.
/// In: Spec::Indexed. Out: Spec::Expanded. Sums onto a tensor core's result become its accumulator.
UOp build_lanes(UOp sink, const RuleSet& rules);

}  // namespace quern
