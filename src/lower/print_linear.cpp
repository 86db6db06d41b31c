#include <fmt/format.h>

#include "ir/node_map.h"
#include "ir/print_payload.h"
#include "ir/text.h"
#include "lower/lower.h"

namespace quern {

std::string print_linear(const LinearProgram& program) {
  NodeMap<size_t> number;
  std::string text;
  int depth = 0;
  for (size_t i = 0; i < program.uops.size(); ++i) {
    UOp u = program.uops[i];
    number[u] = i + 1;
    if (u.is({Op::Endrange, Op::Endif})) --depth;
    std::string sources;
    for (UOp s : u.src()) {
      if (!sources.empty()) sources += ", ";
      sources += number.get(s) ? std::to_string(number.get(s) - 1) : "--";
    }
    Writer payload{TextStyle::Flat};
    print_payload(payload, u);
    text += fmt::format("{:4} {:{}}{:<14} {:<24} [{}] {}\n", i, "", 2 * depth, to_string(u.op()), to_string(u.dtype()),
                        sources, payload.text);
    if (u.is({Op::Range, Op::If})) ++depth;
  }
  return text;
}

}  // namespace quern
