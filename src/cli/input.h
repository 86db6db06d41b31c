#pragma once
#include <memory>
#include <stdexcept>
#include <string>

#include "ir/graph.h"

namespace quern::cli {

/// A wrong command line or an unreadable file: exit status 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A kernel with the graph that owns it.
struct LoadedKernel {
  std::unique_ptr<Graph> graph;
  UOp ast;
};
/// Parses the one kernel of a file: the notation itself, or a JSON line with "ast".
LoadedKernel load_kernel(const std::string& path);

}  // namespace quern::cli
