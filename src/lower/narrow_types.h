#pragma once
#include "ir/uop.h"

namespace quern {

// Types that are stored but not computed in: every operation is done in float and rounded back to nearest even.
// Casts between half and float stay casts, which every target has; bfloat16 is rounded by integer arithmetic.

/// `x`, of a narrow float type, as a float; exact.
UOp widen_to_float(UOp x);
/// `x`, of any other type, as half or bfloat16, rounded once.
UOp round_to_narrow(UOp x, Scalar to);

}  // namespace quern
