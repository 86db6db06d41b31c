#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "render/program.h"

namespace quern {

// What both renderers ask of a linear program's nodes.

/// True if the bounds of an ADD, SUB, MUL, NEG or SHL of ints prove that its exact value fits its dtype (SHL: of what is not
/// negative).
bool cannot_overflow(UOp u);
/// True if the bounds prove a machine IDIV or MOD free of x/0 and MIN/-1.
bool division_is_plain(UOp u);
bool may_be_zero(UOp u);
/// True if the bounds prove that a SHL or SHR shifts by less than its width.
bool shift_is_plain(UOp u);
int bits_of(Scalar s);

/// Where a LOAD or STORE goes: element `index` of `buffer`, whatever vector type the address is cast to.
struct Access {
  UOp buffer;
  UOp index;
};
/// Of a LOAD's or STORE's address: INDEX, CAST of an INDEX, or a bare buffer pointer (index empty). Throws InternalError for others.
Access access_of(UOp address);
/// Gate and alternative of a LOAD that has them, empty otherwise.
UOp gate_of(UOp load);
UOp alternative_of(UOp load);
/// The accumulator an ASSIGN writes.
UOp accumulator_of(UOp assign);

/// Buffers (in order of number) and variables (in order of name) of a linear program: its function's arguments.
std::vector<UOp> buffers_of(const LinearProgram& linear);
std::vector<UOp> variables_of(const LinearProgram& linear);

/// The operations and bytes moved of a program: loops and work items times what is in them, index arithmetic not counted.
Estimates estimate(const LinearProgram& linear);

[[noreturn]] void cannot_render(UOp u, std::string_view language, std::string_view why = "");

}  // namespace quern
