#pragma once
#include "ir/rewrite.h"

namespace quern {

/// What loads, stores and accumulators leave over: accesses that never happen, stores of what is already there, accumulators
/// without a loop.
const RuleSet& cleanup_rules();
/// The condition of an INDEX and, given that it holds, its index, simplified. Each takes a solver's work: for graphs that are
/// not unrolled yet.
const RuleSet& gate_simplification_rules();

}  // namespace quern
