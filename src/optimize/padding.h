#pragma once
#include "ir/uop.h"

namespace quern {

/// Is this value 0 wherever everything that is loaded below it is padding? Conservative: false where it takes more to know.
bool is_zero_in_padding(UOp value);

}  // namespace quern
