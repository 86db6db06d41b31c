#include "engine/kernel_graph.h"

#include "ir/spec.h"
#include "ir/text.h"

namespace quern {

KernelGraph KernelGraph::from_text(std::string_view text) {
  auto graph = std::make_shared<Graph>();
  UOp root = parse(*graph, text);
  verify(root, Spec::KernelAst);
  return KernelGraph(std::make_shared<const Impl>(Impl{std::move(graph), root}));
}

std::string KernelGraph::text() const { return print(impl_->root); }
std::string KernelGraph::indented_text() const { return print(impl_->root, TextStyle::Indented); }

}  // namespace quern
