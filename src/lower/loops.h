#pragma once
#include <vector>

#include "ir/uop.h"

namespace quern {

/// The loops an accumulator runs over.
inline std::span<const UOp> loops_of(UOp define_acc) { return define_acc.src().subspan(1); }

/// Gives loops of their own to accumulators that cannot share a RANGE with another one: a RANGE is one loop, so all accumulators
/// over it run over the same set of loops, and none needs the result of another over it.
/// In and out: Spec::Indexed or Spec::Expanded; the graph itself where nothing clashes.
UOp separate_loops(UOp sink);

}  // namespace quern
