#include "render/header.h"

#include "render/append.h"
#include "render/facts.h"

namespace quern {

namespace {

std::string outputs_text(const Program& program) {
  if (program.outs.empty()) return "nothing";
  std::string text;
  for (int number : program.outs) append(text, text.empty() ? "data" : ", data", number);
  return text;
}

std::string axes_text(const std::vector<Axis>& axes) {
  std::string text;
  for (const Axis& axis : axes) append(text, text.empty() ? "" : ", ", size_text(axis.size), ' ', to_string(axis.kind));
  return text;
}

}  // namespace

std::string header_comment(const Program& program, const KernelLayout& layout) {
  std::string_view mark = program.target->dialect == Dialect::Llvm ? "; " : "// ";
  std::string text =
      concat(mark, program.name, ", for ", program.target->name, ": writes ", outputs_text(program), ".\n");
  if (!layout.axes.empty()) append(text, mark, "axes: ", axes_text(layout.axes), '\n');
  if (!layout.axes.empty()) append(text, mark, "opts: ", layout.opts.empty() ? "none" : to_string(layout.opts), '\n');
  if (std::string launch = to_string(launch_of(program.linear)); !launch.empty()) append(text, mark, launch, ".\n");
  return text;
}

}  // namespace quern
