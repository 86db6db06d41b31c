#pragma once
#include "ir/uop.h"

namespace quern {

/// Turns index arithmetic into 32 or 64 bit machine arithmetic: a value is int32 where its bounds fit, else int64, and is computed
/// in 64 bits where one of its operands needs them. Floor division becomes truncating division, by an offset where the dividend
/// may be negative. RANGE, SPECIAL, DEFINE_VAR and constants get their type.
/// In: Spec::Expanded. Out: no node of the index type. What lies past 64 bits is computed modulo 2^64.
UOp lower_index_types(UOp sink);

}  // namespace quern
