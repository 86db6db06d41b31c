#pragma once
#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include "ir/uop.h"
#include "render/c_dialect.h"

namespace quern {

/// What stands above a C-style function: the types and helper functions it uses, each once, in order of first use.
class CPrelude {
 public:
  explicit CPrelude(const CDialect& dialect) : dialect_(dialect) {}

  /// The type of a value; declares vector types, half and bfloat16.
  std::string_view type(const DType& t);
  std::string_view memory_type(Scalar s);
  /// The unsigned type in which arithmetic on `s` wraps: at least as wide as int.
  std::string_view wrapping_type(Scalar s) const { return dialect_.type(s).wrapping; }
  /// A literal of exactly the CONST's value.
  std::string literal(UOp constant);
  /// A vector of these lanes.
  std::string vector(const DType& t, std::string_view lanes);
  /// The bits of a value as another type of the same size; `text` may stand in a call.
  std::string bitcast(Scalar from, Scalar to, std::string_view text);

  /// Names of helper functions: operations whose every case C leaves undefined is given the value Quern defines.
  std::string division(Op op, Scalar s);  ///< IDIV, MOD
  std::string shift(Op op, Scalar s);     ///< SHL, SHR
  std::string maximum(Scalar s);
  std::string to_long(Scalar from);               ///< float or double to the truncated 64-bit value
  std::string to_ulong(Scalar from);              ///< the same, but unsigned from 2^63 up
  std::string to_narrow(Scalar from, Scalar to);  ///< float or double to half or bfloat16: what stands before (x)
  std::string bfloat16_from_int(Scalar from);
  std::string float_from(Scalar narrow);  ///< half or bfloat16, where they are held as bits
  std::string square_root(Scalar s);      ///< of float or double, where the language has none

  /// Adds a declaration under a name, once. For a function: its name.
  std::string_view add(std::string name, std::string declaration);
  std::string function(std::string name, std::string_view result, std::string_view parameters, std::string_view body);
  bool known(std::string_view name) const;

  std::string text() const;

 private:
  using Item = std::pair<std::string, std::string>;  // name, declaration
  std::string odd_float_from_double();
  std::string rounded_to(Scalar narrow, const std::string& text);
  void declare(Scalar s);

  const CDialect& dialect_;
  ScalarSet declared_ = 0;
  std::string scalar_declarations_;
  std::deque<Item> items_;  // names keep their place in memory
};

}  // namespace quern
