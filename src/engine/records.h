#pragma once
#include <string>
#include <vector>

#include "ir/text.h"
#include "optimize/kernel.h"
#include "render/program.h"

namespace quern {

/// What was decided for a kernel, in the words of the conformance data: sizes, opts, colours and launch dims as text.
struct Decision {
  std::vector<std::string> base;  ///< shape before opts; symbolic sizes as nodes in the reference's notation
  std::vector<Opt> opts;
  std::vector<std::string> shape;  ///< after opts; symbolic sizes in infix
  std::vector<std::string> colors;
  std::string tensor_core;  ///< empty: none
  std::string name;
  std::vector<std::string> global_size, local_size;  ///< empty: none
  std::string ops, load_store_bytes, buffer_bytes;
  size_t num_uops = 0;
};

/// A symbolic size as the reference prints its node: sizes are plain ints there.
std::string reference_node_text(UOp size, TextStyle style);
std::vector<std::string> shape_texts(const Kernel& kernel);
std::vector<std::string> color_texts(const Kernel& kernel);
/// Sizes of a fresh kernel; symbolic ones as the reference prints nodes.
std::vector<std::string> base_texts(const Kernel& kernel);
std::vector<std::string> launch_texts(const std::optional<std::array<SInt, 3>>& dims);
Decision decision_of(const Kernel& fresh, const Kernel& optimized, const Program& program);

}  // namespace quern
