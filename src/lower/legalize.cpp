#include "lower/index_types.h"
#include "lower/legalize_parts.h"
#include "lower/lower.h"

namespace quern {

UOp legalize(UOp folded, const Target& target) {
  UOp machine = lower_index_types(folded);
  UOp values = legalize_values(machine, target);
  return legalize_forms(values, target);
}

}  // namespace quern
