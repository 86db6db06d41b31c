#include "lower/lower.h"
#include "lower/memory.h"

namespace quern {

UOp fold_memory(UOp expanded, const Target& target) { return place_gates(widen_accesses(expanded, target), target); }

}  // namespace quern
