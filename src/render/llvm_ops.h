#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ir/uop.h"
#include "render/append.h"

namespace quern {

/// "float", "<4 x i32>"; a bool is an i1, a bfloat16 its 16 bits.
std::string llvm_type(const DType& t);
/// As it stands in memory: a bool is a byte.
std::string llvm_memory_type(const DType& t);
/// What names an intrinsic on vectors of the type: "v16f32".
std::string llvm_lanes_suffix(const DType& t);
/// A literal of exactly the CONST's value.
std::string llvm_literal(UOp constant);

/// A value in IR text: a literal or a name, without its type.
using LlvmValue = std::string;

/// Writes instructions: each gives its value's name. The ops' meaning is that of docs/semantics.md: nothing here is undefined or
/// poison that reaches a result.
class LlvmOps {
 public:
  /// An ALU op, CAST or BITCAST, of any number of lanes. `contract`: may become part of a fused multiply-add.
  LlvmValue compute(UOp u, const std::vector<LlvmValue>& src, bool contract);

  /// "%v7 = <text>", as a line.
  template <class... Parts>
  LlvmValue emit(const Parts&... parts) {
    LlvmValue name = "%v";
    append(name, next_++);
    append(lines_, "  ", name, " = ", parts..., '\n');
    return name;
  }
  template <class... Parts>
  void line(const Parts&... parts) {
    append(lines_, "  ", parts..., '\n');
  }
  /// Lines written since the last call.
  std::string take_lines() { return std::move(lines_); }
  /// Adds to the declarations, once.
  void declare(std::string declaration);
  std::string declarations() const;

 private:
  // Types and literals are named as for one lane; these make them those of all lanes of what is computed.
  std::string type_of_lanes(std::string_view type) const;
  LlvmValue of_lanes(std::string_view type, std::string_view value) const;
  LlvmValue binary(std::string_view instruction, std::string_view type, const LlvmValue& a, const LlvmValue& b);
  LlvmValue select(const LlvmValue& condition, std::string_view type, const LlvmValue& yes, const LlvmValue& no);
  LlvmValue convert(std::string_view instruction, std::string_view from, const LlvmValue& x, std::string_view to);
  LlvmValue intrinsic(std::string_view name, std::string_view type, const std::vector<LlvmValue>& args);

  LlvmValue int_op(UOp u, const std::vector<LlvmValue>& src);
  LlvmValue bool_op(UOp u, const std::vector<LlvmValue>& src);
  LlvmValue float_op(UOp u, Scalar s, const std::vector<LlvmValue>& src, bool contract);
  LlvmValue comparison(UOp u, const std::vector<LlvmValue>& src);
  LlvmValue division(UOp u, const std::vector<LlvmValue>& src);
  LlvmValue shift(UOp u, const std::vector<LlvmValue>& src);
  LlvmValue cast(UOp u, const LlvmValue& x);
  LlvmValue bitcast(UOp u, const LlvmValue& x);

  LlvmValue float_from_bfloat16(const LlvmValue& x);
  LlvmValue bfloat16_from_float(const LlvmValue& x);
  LlvmValue odd_float_from_double(const LlvmValue& x);
  LlvmValue int_to_float(Scalar from, Scalar to, const LlvmValue& x);
  LlvmValue float_to_int(Scalar from, Scalar to, const LlvmValue& x);
  LlvmValue float_to_float(Scalar from, Scalar to, const LlvmValue& x);
  LlvmValue sticky_low_bits(const LlvmValue& x);

  std::string lines_;
  std::vector<std::string> declared_;
  int next_ = 0;
  int lanes_ = 1;  ///< of what is being computed
};

}  // namespace quern
