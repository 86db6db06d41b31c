// The reader throws ParseError or InvalidKernel, or gives a graph that prints as a text that reads back to it.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "quern/error.h"

#include "ir/spec.h"
#include "ir/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quern;
  Graph graph;
  UOp root;
  try {
    root = parse(graph, {reinterpret_cast<const char*>(data), size});
  } catch (const ParseError&) {
    return 0;
  } catch (const InvalidKernel&) {
    return 0;
  }
  if (parse(graph, print(root)) != root) std::abort();
  if (parse(graph, print(root, TextStyle::Indented)) != root) std::abort();
  try {
    verify(root, Spec::KernelAst);
  } catch (const InvalidKernel&) {
    return 0;
  }
  return 0;
}
