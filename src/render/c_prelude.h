#pragma once
#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include "ir/uop.h"

namespace quern {

/// "float", "unsigned char"; half and bfloat16 are typedefs of the prelude.
std::string_view c_type(Scalar s);
/// As an element in memory: a bool is a byte.
std::string_view c_memory_type(Scalar s);
/// The unsigned type in which arithmetic on `s` wraps: at least as wide as int.
std::string_view c_wrapping_type(Scalar s);
/// A literal of exactly the CONST's value.
std::string c_literal(UOp constant);

/// What stands above a C function: the types and helper functions it uses, each once, in order of first use.
class CPrelude {
 public:
  /// The type of a value; declares vector types, half and bfloat16.
  std::string_view type(const DType& t);
  /// Names of helper functions: operations whose every case C leaves undefined is given the value Quern defines.
  std::string division(Op op, Scalar s);   ///< IDIV, MOD
  std::string shift(Op op, Scalar s);      ///< SHL, SHR
  std::string maximum(Scalar s);
  std::string to_long(Scalar from);        ///< float or double to the truncated 64-bit value
  std::string to_ulong(Scalar from);       ///< the same, but unsigned from 2^63 up
  std::string bitcast(Scalar from, Scalar to);
  std::string to_narrow(Scalar from, Scalar to);   ///< float or double to half or bfloat16
  std::string bfloat16_from_int(Scalar from);
  std::string float_from_bfloat16();
  std::string wmma(const WmmaArg& arg, const DType& a, const DType& b, const DType& c);

  std::string text() const;

 private:
  using Item = std::pair<std::string, std::string>;   // name, declaration
  bool known(std::string_view name) const;
  std::string_view add(std::string name, std::string declaration);
  std::string function(std::string name, std::string_view result, std::string_view parameters, std::string_view body);
  std::string odd_float_from_double();

  std::deque<Item> items_;   // names keep their place in memory
};

}  // namespace quern
