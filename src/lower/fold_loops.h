#pragma once
#include "ir/rewrite.h"

namespace quern {

/// What indexing leaves to simplify beyond integer arithmetic; used together with the symbolic rules, on one-lane values, before
/// and after lanes are built:
///   - loops that count (a sum of `where(i < n, c, 0)`) become closed forms, loops that search (a sum of `where(i == n, load, 0)`)
///     a gated load, reduces of what does not change in the loop a product;
///   - THREEFRY becomes its rounds, in 32-bit words where nothing else is needed;
///   - loads and stores that are never done vanish, lanes taken from vectors are looked up.
///
/// For floats: a sum of n equal values is taken as n times the value, and a product with the 0 or 1 of `i == n` as a selection
/// (so that an infinity or NaN in a row that is not selected does not spoil the one that is); both need n loop rounds less.
const RuleSet& loop_folding_rules();

}  // namespace quern
