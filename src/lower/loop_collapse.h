#pragma once
#include "ir/uop.h"

namespace quern {

/// A reduction (an ASSIGN of ADD or MAX over a DEFINE_ACC) with one of its loops less, or an empty UOp where no loop can go.
///
/// A loop over r in [start, end) goes from a MAX if nothing in it depends on r, and from an ADD if that holds for each term:
///   T                       where T does not depend on r:           T * (end - start)
///   where(C(r), T, 0)       C: linear inequalities in r:            T * (number of r for which they hold)
///   where(r == v, T(r), 0)  v does not depend on r:                 where(start <= v < end, T(v), 0), its loads gated alike
/// `where` may also be spelled as a product with a bool. A loop whose number of rounds may be zero stays, where that matters.
UOp collapse_reduction(UOp assign);

}  // namespace quern
