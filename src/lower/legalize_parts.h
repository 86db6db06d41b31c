#pragma once
#include <span>

#include "ir/graph.h"
#include "target/target.h"

namespace quern {

// The two halves of legalizing machine arithmetic, after index types are gone.

/// Values: THREEFRY, EXP2, LOG2 and SIN where the target lacks them, narrow float types that it only stores, casts of floats to
/// ints (through 64 bits). What they are replaced by may still be spelled with ops the target lacks.
UOp legalize_values(UOp sink, const Target& target);

/// Spelling: shifts and masks for powers of two, MAX by compare and select, NEG, SUB, MULACC, RECIP and FDIV as the target has
/// them, casts to bool, vector constants and lanes.
UOp legalize_forms(UOp sink, const Target& target);

/// max(a, b) as a selection that keeps a NaN of either; `a_key` and `b_key` are what is compared in their stead (the same values,
/// in a type that can be).
UOp select_max(UOp a, UOp b, UOp a_key, UOp b_key);

}  // namespace quern
