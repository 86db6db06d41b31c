#pragma once
#include "ir/uop.h"
#include "target/target.h"

namespace quern {

// The steps of fold_memory. In and out: Spec::Expanded.

/// Joins loads, and stores, of neighbouring floats or halfs into accesses of 4 or 2 (16 and 8 too with AMX) where these are aligned; of
/// images always into texels of 4 at two coordinates; a store that is not of a whole texel keeps its element's number.
UOp widen_accesses(UOp sink, const Target& target);

/// The INDEX of the texel that holds element `idx` of an image: coordinates simplified, and the gate without the conditions under
/// which the coordinates would leave the image, where a read gives 0 anyway; what `stores` keeps them all. `gate` may be empty. An
/// empty UOp if the gate never holds.
UOp texel_index(UOp image, UOp idx, UOp gate, bool stores = false);

/// Moves gates from INDEX to the accesses: LOAD(address, 0, gate), STORE(address, value, IF(gate)). What only the storing threads
/// need after a BARRIER is put under its IF.
UOp place_gates(UOp sink, const Target& target);

}  // namespace quern
