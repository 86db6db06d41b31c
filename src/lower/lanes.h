#pragma once
#include "ir/uop.h"

namespace quern {

/// Builds a node for each lane of everything that depends on an EXPAND. What is left has one lane, but for the operands and
/// results of WMMA; CONTRACT and EXPAND are gone, accumulators and stores are there once a lane.
/// In: Spec::Indexed. Out: Spec::Expanded. Sums onto a tensor core's result become its accumulator.
UOp build_lanes(UOp sink);

}  // namespace quern
