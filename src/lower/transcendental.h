#pragma once
#include "ir/graph.h"
#include "target/target.h"

namespace quern {

// EXP2, LOG2 and SIN from adds, multiplies, shifts, bitcasts and selections, without branches, tables in memory or FMA; within
// 1 ulp over the whole range of float and of double, denormals, infinities and NaN included. Half and bfloat16 go through float.

UOp expand_exp2(UOp x);
UOp expand_log2(UOp x);
UOp expand_sin(UOp x);

/// True if the target's own EXP2, LOG2 or SIN is to be replaced: it has none, or the code runs on a CPU, where a call of the
/// system's library would neither be the same everywhere nor be vectorized.
bool expands_transcendental(const Target& target, Op op);
/// The expansion of an EXP2, LOG2 or SIN node's op on `x`.
UOp expand_transcendental(Op op, UOp x);

}  // namespace quern
