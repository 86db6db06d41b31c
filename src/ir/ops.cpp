#include "ir/ops.h"

namespace quern {

std::optional<Op> op_from_text(std::string_view text) {
  for (int i = 0; i < kNumOps; ++i)
    if (kOpTable[static_cast<size_t>(i)].text == text) return static_cast<Op>(i);
  return std::nullopt;
}

}  // namespace quern
