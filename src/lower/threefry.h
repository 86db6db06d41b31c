#pragma once
#include "ir/uop.h"

namespace quern {

/// THREEFRY of a counter and a key, both ulong: the 2x32 cipher of 20 rounds in uint arithmetic, its two words in a ulong.
UOp expand_threefry(UOp counter, UOp key);

}  // namespace quern
