#pragma once
#include <array>
#include <cstdint>
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

/// How a program is launched: its work items, which are those of groups or stand alone.
struct Launch {
  std::array<SInt, 3> groups{1, 1, 1};  ///< or work items, where they stand alone
  std::array<SInt, 3> items{1, 1, 1};   ///< of a group
  bool has_threads = false;
  bool has_items = false;  ///< work items that know their group
  bool stand_alone = false;
  bool has_tensor_core = false;
  int64_t items_of_group() const;
};
/// "16", or "1..4096".
std::string size_text(const SInt& size);
Launch launch_of(const LinearProgram& linear);
/// "16 x 1 x 1 groups of 8 x 1 x 1 work items"; sizes that hang on variables as "1..4096". Nothing without threads.
std::string to_string(const Launch& launch);

/// The operations and bytes moved of a program: loops and work items times what is in them, index arithmetic not counted.
Estimates estimate(const LinearProgram& linear);

[[noreturn]] void cannot_render(UOp u, std::string_view language, std::string_view why = "");

}  // namespace quern
