#pragma once
#include "ir/rewrite.h"

namespace quern {

/// Reduces that start anew for each turn of a loop, though each turn adds one element to what the last one reduced, become
/// accumulators that run through that loop: a cumulative sum of n elements takes n steps, not n * n. The elements are added in the
/// same order as before.
///
///   out[i] = op over 0 <= k < K of v(i, k)   becomes   acc = acc op v(i, K-1); out[i] = acc, for i = 0, 1, ...
///
/// where v(i+1, k-1) is v(i, k), v(0, k) is op's identity for k < K-1, and i runs over no more than K. The loop over i has to be the
/// innermost of those outside the reduce that v depends on. Such an accumulator is a DEFINE_ACC over a RANGE that is not of a reduce:
/// it starts before that loop and is read inside.
///
/// In and out: Spec::Indexed, simplified by `rules`.
UOp fold_scans(UOp sink, const RuleSet& rules);

}  // namespace quern
