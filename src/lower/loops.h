#pragma once
#include <vector>

#include "ir/uop.h"

namespace quern {

/// The loops an accumulator runs over. Its final value is known after those that reduce; a loop that does not is one that the
/// accumulator only runs through: its value is used in every turn (lower/scans.h).
inline std::span<const UOp> loops_of(UOp define_acc) { return define_acc.src().subspan(1); }
inline bool is_reduced(UOp range) { return std::get<RangeArg>(range.arg()).reduce; }

/// Gives loops of their own to accumulators that cannot share a RANGE with another one: a RANGE is one loop, so all accumulators
/// over it run over the same set of loops, and none needs the result of another over it.
/// In and out: Spec::Indexed or Spec::Expanded; the graph itself where nothing clashes.
UOp separate_loops(UOp sink);

}  // namespace quern
