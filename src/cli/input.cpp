#include "cli/input.h"

#include "engine/corpus.h"
#include "ir/text.h"

namespace quern::cli {

LoadedKernel load_kernel(const std::string& path) {
  LoadedKernel k{std::make_unique<Graph>(), UOp()};
  k.ast = parse(*k.graph, read_kernel_text(path));
  return k;
}

}  // namespace quern::cli
