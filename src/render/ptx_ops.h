#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "ir/uop.h"

namespace quern {

/// A register's name, or an immediate.
using PtxValue = std::string;

/// How a scalar type is held: small ints are kept sign- or zero-extended in 16 bits, half and bfloat16 as their bits.
struct PtxType {
  char bank;                    // of its registers: %h3; p predicates, h 16 bits, r 32, l 64, f float, d double
  std::string_view arithmetic;  // "s16"
  std::string_view convert;     // "s8"
  std::string_view memory;      // "s8"
  std::string_view bits;        // "b16"
};
const PtxType& ptx_type(Scalar s);

/// The constant as an immediate; bools, which have none, as 0 or 1.
PtxValue ptx_literal(UOp constant);

/// Writes instructions: each gives its result's register. The ops' meaning is that of docs/semantics.md.
class PtxOps {
 public:
  /// An ALU op, CAST or BITCAST on one-lane values.
  PtxValue compute(UOp u, const std::vector<PtxValue>& src);

  PtxValue fresh(Scalar s) { return fresh_in(ptx_type(s).bank); }
  PtxValue fresh_in(char bank);
  /// "name.type d, a, b;" with a new register d of the bank.
  PtxValue emit(char bank, std::string_view instruction, std::initializer_list<std::string_view> operands);
  void move(Scalar s, std::string_view to, std::string_view from);
  /// The value in a register, where an instruction takes no immediate.
  PtxValue in_register(Scalar s, const PtxValue& x);
  void line(std::string_view text);
  /// Without indentation.
  void label(std::string_view name);
  std::string take_lines() { return std::move(lines_); }
  /// The declarations of all registers used.
  std::string registers() const;

 private:
  PtxValue select(Scalar s, const PtxValue& condition, const PtxValue& yes, const PtxValue& no);
  PtxValue compare(std::string_view how, Scalar s, const PtxValue& a, const PtxValue& b);
  PtxValue both(const PtxValue& p, const PtxValue& q) { return emit('p', "and.pred", {p, q}); }
  PtxValue wrapped(Scalar s, const PtxValue& x);
  PtxValue constant(Scalar s, Int128 value);
  PtxValue bool_op(UOp u, const std::vector<PtxValue>& src);
  PtxValue int_op(UOp u, const std::vector<PtxValue>& src);
  PtxValue float_op(UOp u, const std::vector<PtxValue>& src);
  PtxValue division(UOp u, const PtxValue& a, const PtxValue& b);
  PtxValue shift(UOp u, const PtxValue& a, const PtxValue& n);
  PtxValue cast(UOp u, const PtxValue& x);
  PtxValue bitcast(UOp u, const PtxValue& x);
  PtxValue to_long(Scalar from, const PtxValue& x);
  PtxValue to_ulong(Scalar from, const PtxValue& x);

  std::string lines_;
  std::array<int, 128> used_{};  // registers of each bank
};

}  // namespace quern
