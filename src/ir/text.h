#pragma once
#include <string>
#include <string_view>

#include "ir/graph.h"

namespace quern {

enum class TextStyle { Flat, Indented };

/// The reference notation: `UOp(Ops.CONST,dtypes.int,arg=1,src=())`. Flat has no spaces; indented is the reference's repr, a
/// node a line. Shared nodes are named `x3:=UOp(...)` once and `x3` after, numbered as the reference does. Ints inside views
/// are index-typed and print as dtypes.int. parse(print(x)) == x.
std::string print(UOp root, TextStyle style = TextStyle::Flat);
/// A symbolic int: the number, or the reference's infix form "(start_pos+1)" (simplify first where that is wanted).
std::string print_infix(UOp index);
std::string print(const SInt& value);
std::string print(const ShapeTracker& st, TextStyle style = TextStyle::Flat);

/// Reads the notation (both styles, any spacing). Throws ParseError with line, column and what was expected; InvalidKernel for
/// nodes whose arity, payload or types make no sense. Nesting depth and size are limited by memory only (iterative).
UOp parse(Graph& graph, std::string_view text);

}  // namespace quern
