// What the optimizer decides is what the reference decided: opts, axes, kinds, tensor cores and names for every kernel of the
// conformance folder on each target, and the legal actions along its random walks. Launch dims come from lowering: see
// launch_dims_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/recorded.h"
#include "engine/records.h"
#include "ir/text.h"
#include "optimize/kernel.h"

namespace quern {
namespace {

using namespace test;

Json sizes(const Json& shape) {  // sizes compare as text
  Json texts = Json::array();
  for (const Json& size : shape) texts.push_back(size.is_string() ? size.get<std::string>() : size.dump());
  return texts;
}

Json opts_json(const std::vector<Opt>& opts) {
  Json list = Json::array();
  const auto number = [](const std::optional<int>& n) { return n ? Json(*n) : Json(); };
  for (const Opt& opt : opts) list.push_back({std::string(to_string(opt.op)), number(opt.axis), number(opt.amount)});
  return list;
}

class Decisions : public testing::TestWithParam<TargetFile> {
 protected:
  std::vector<Json> expected(const char* kind) { return recorded(kind, GetParam()); }

  /// Notes a difference; only the first few are printed.
  void compare(const Json& want, const char* key, const Json& got) {
    if (!want.contains(key)) return;  // the reference failed before it had this
    const Json wanted =
        std::string_view(key) == "shape" || std::string_view(key) == "base" ? sizes(want[key]) : want[key];
    if (wanted == got) return;
    if (++differences_ <= 5) ADD_FAILURE() << hash_ << ": " << key << "\n  want " << wanted << "\n  got  " << got;
  }

  std::string hash_;
  int differences_ = 0;
};

TEST_P(Decisions, of_the_heuristics_are_the_references) {
  const std::vector<Json> all = expected("heuristic");
  if (all.empty()) GTEST_SKIP() << "no " << GetParam().file << " in " << folder();
  const Target& target = find_target(GetParam().target);
  for (const Json& want : all) {
    hash_ = want["h"];
    Graph graph;
    const UOp ast = parse(graph, kernel_texts().at(hash_));
    const Kernel kernel = optimize(ast, target);
    compare(want, "base", base_texts(Kernel(ast, target)));
    compare(want, "opts", opts_json(kernel.applied_opts()));
    compare(want, "shape", shape_texts(kernel));
    compare(want, "colors", color_texts(kernel));
    compare(want, "tc", kernel.tensor_core() ? Json(kernel.tensor_core()->name()) : Json());
    compare(want, "name", kernel.name());
    kernel.optimized_ast();
  }
  EXPECT_EQ(differences_, 0) << "of " << all.size() << " kernels";
}

TEST_P(Decisions, of_which_actions_are_legal_are_the_references) {
  const std::vector<Json> all = expected("walks");
  if (all.empty()) GTEST_SKIP() << "no walks of " << GetParam().file << " in " << folder();
  const Target& target = find_target(GetParam().target);
  for (const Json& want : all) {
    hash_ = want["h"];
    Graph graph;
    Kernel kernel(parse(graph, kernel_texts().at(hash_)), target);
    for (const Json& step : want["steps"]) {
      compare(step, "ok", legal_actions(kernel));
      const Opt pick = search_actions()[step["pick"].get<size_t>() - 1];
      kernel.apply(pick);
      compare(step, "opt", opts_json({pick}));
      compare(step, "shape", shape_texts(kernel));
      compare(step, "colors", color_texts(kernel));
    }
    compare(want, "final_ok", legal_actions(kernel));
    compare(want, "opts", opts_json(kernel.applied_opts()));
    compare(want, "name", kernel.name());
    kernel.optimized_ast();
  }
  EXPECT_EQ(differences_, 0) << "of " << all.size() << " walks";
}

INSTANTIATE_TEST_SUITE_P(Conformance, Decisions, all_targets(), target_name);

}  // namespace
}  // namespace quern
