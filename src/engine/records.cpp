#include "engine/records.h"

#include <fmt/format.h>

#include "ir/node_map.h"
#include "ir/print_payload.h"
#include "symbolic/simplify.h"

namespace quern {

namespace {

std::string infix(const SInt& s) { return s.is_int() ? std::to_string(s.value()) : print_infix(simplify(s.expr())); }

}  // namespace

std::string reference_node_text(UOp size, TextStyle style) {
  constexpr std::string_view kIndex = "dtypes.index", kInt = "dtypes.int";
  std::string text = print(size, style);
  for (size_t at = text.find(kIndex); at != std::string::npos; at = text.find(kIndex, at))
    text.replace(at, kIndex.size(), kInt);
  return text;
}

std::vector<std::string> shape_texts(const Kernel& kernel) {
  std::vector<std::string> texts;
  for (const SInt& s : kernel.full_shape()) texts.push_back(infix(s));
  return texts;
}

std::vector<std::string> color_texts(const Kernel& kernel) {
  bool no_locals = false;
  for (const Opt& o : kernel.applied_opts()) no_locals |= o.op == OptOp::NOLOCALS;
  std::vector<std::string> texts;
  for (const Axis& a : kernel.axes()) texts.emplace_back(color_of(a.kind, no_locals));
  return texts;
}

std::vector<std::string> base_texts(const Kernel& kernel) {
  std::vector<std::string> texts;
  for (const SInt& s : kernel.full_shape())
    texts.push_back(s.is_int() ? std::to_string(s.value()) : reference_node_text(s.expr(), TextStyle::Indented));
  return texts;
}

std::vector<std::string> launch_texts(const std::optional<std::array<SInt, 3>>& dims) {
  std::vector<std::string> texts;
  if (dims)
    for (const SInt& s : *dims) texts.push_back(infix(s));
  return texts;
}

Decision decision_of(const Kernel& fresh, const Kernel& optimized, const Program& program) {
  Decision d;
  d.base = base_texts(fresh);
  d.opts = optimized.applied_opts();
  d.shape = shape_texts(optimized);
  d.colors = color_texts(optimized);
  if (const TensorCore* tc = optimized.tensor_core()) d.tensor_core = tc->name();
  d.name = program.name;
  d.global_size = launch_texts(program.global_size);
  d.local_size = launch_texts(program.local_size);
  d.ops = infix(program.estimates.ops);
  d.load_store_bytes = infix(program.estimates.load_store_bytes);
  d.buffer_bytes = infix(program.estimates.buffer_bytes);
  d.num_uops = program.linear.uops.size();
  return d;
}

}  // namespace quern
