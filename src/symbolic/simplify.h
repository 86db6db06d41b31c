#pragma once
#include <optional>

#include "ir/rewrite.h"

namespace quern {

/// Rule tables. Each is sound for every value within the bounds of the nodes (fuzzed by tests/symbolic).
/// `symbolic_simple` < `symbolic` < `symbolic_flat`, as in the reference: identities and constant folding; plus combining terms,
/// comparisons, floor div/mod of index type; plus distributing constants over sums.
const RuleSet& symbolic_simple();
const RuleSet& symbolic();
const RuleSet& symbolic_flat();

/// `x` by symbolic().
UOp simplify(UOp x);

/// `a < b` etc. decided by bounds after simplification; `otherwise` if that can't tell (the reference's resolve: true).
bool resolve(UOp condition, bool otherwise = true);

/// A bound an index expression must keep: `expr <= limit` if upper, else `expr >= limit`.
struct Constraint {
  UOp expr;
  bool upper;
  Int128 limit;
};
/// (X < c) and (X < c) != true with a constant c; nothing else is understood.
std::optional<Constraint> parse_constraint(UOp valid);

/// `x` simplified under the assumption that `valid` (an AND of constraints) holds; `x` itself if nothing is gained; empty if
/// `valid` can never hold.
std::optional<UOp> simplify_given(UOp valid, UOp x);
/// The AND of constraints with each simplified under the others, or nothing if no clause changes.
std::optional<UOp> simplify_valid(UOp valid);
/// True if the expression never falls when one of its variables grows (false when unsure).
bool is_increasing(UOp x);
/// Largest known int that divides the expression.
Int128 const_factor(UOp x);
/// x / v exactly, or nothing if v is not known to divide.
std::optional<UOp> divides(UOp x, Int128 v);

}  // namespace quern
