#pragma once
#include <string>

#include "ir/text.h"

namespace quern {

/// Text under way. Flat text has no spaces outside quotes.
struct Writer {
  TextStyle style;
  bool in_payload = false;  ///< among the symbolic ints of a payload, where index is spelled int
  std::string text = {};

  void comma() { text += style == TextStyle::Indented ? ", " : ","; }
  void dtype(const DType& type);
  void sint(const SInt& value);
};

void print_payload(Writer& out, UOp node);
void print_tracker(Writer& out, const ShapeTracker& st);
/// As Python spells it: True, -5, 1e-05, inf.
std::string print_constant(Scalar scalar, ConstBits value);

}  // namespace quern
