#pragma once
#include "quern/kernel_graph.h"

#include "ir/graph.h"

namespace quern {

/// What a public KernelGraph holds. The graph is shared by its copies and, as every graph, used by one thread at a time; who
/// compiles it reads the text into a graph of their own where that matters.
struct KernelGraph::Impl {
  std::shared_ptr<Graph> graph;
  UOp root;
};

}  // namespace quern
