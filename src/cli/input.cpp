#include "cli/input.h"

#include "engine/corpus.h"
#include "ir/text.h"

namespace quern::cli {

LoadedKernel load_kernel(const std::string& path) {
  LoadedKernel k;
  k.graph = std::make_unique<Graph>();
  k.ast = parse(*k.graph, read_kernel_text(path));
  return k;
}

}  // namespace quern::cli
