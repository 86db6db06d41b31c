// Every kernel of the conformance folder lowers on every target, under the heuristics and along the random walks, and asks for the
// launch dims the reference asked for.
#include "lower/launch_dims.h"

#include <gtest/gtest.h>

#include "conformance/recorded.h"
#include "engine/records.h"
#include "ir/spec.h"
#include "ir/text.h"
#include "optimize/kernel.h"

namespace quern {
namespace {

using namespace test;

class LaunchDims : public testing::TestWithParam<TargetFile> {
 protected:
  /// Lowers `kernel` and compares with what the reference recorded, if it got that far.
  void lower_and_compare(const Json& want, const Kernel& kernel) {
    const std::string hash = want["h"];
    try {
      const LinearProgram program = lower(kernel.optimized_ast(), kernel.target());
      verify(program.uops, Spec::Linear);
      const LaunchSizes sizes = launch_sizes(program, kernel.target());
      if (!want.contains("gs")) return;
      compare(hash, "gs", want["gs"], launch_texts(sizes.global));
      compare(hash, "ls", want["ls"], launch_texts(sizes.local));
    } catch (const std::exception& error) {
      if (++differences_ <= 5) ADD_FAILURE() << hash << ": " << error.what();
    }
  }

  void compare(const std::string& hash, const char* key, const Json& want, const std::vector<std::string>& got) {
    std::vector<std::string> wanted;
    if (!want.is_null())
      for (const Json& size : want) wanted.push_back(size.is_string() ? size.get<std::string>() : size.dump());
    if (wanted != got && ++differences_ <= 5)
      ADD_FAILURE() << hash << ": " << key << "\n  want " << want << "\n  got  " << Json(got);
  }

  int differences_ = 0;
};

TEST_P(LaunchDims, of_the_heuristics_are_the_references) {
  const std::vector<Json> all = recorded("heuristic", GetParam());
  if (all.empty()) GTEST_SKIP() << "no " << GetParam().file << " in " << folder();
  const Target& target = find_target(GetParam().target);
  for (const Json& want : all) {
    Graph graph;
    lower_and_compare(want, optimize(parse(graph, kernel_texts().at(want["h"])), target));
  }
  EXPECT_EQ(differences_, 0) << "of " << all.size() << " kernels";
}

TEST_P(LaunchDims, at_the_end_of_walks_are_the_references) {
  const std::vector<Json> all = recorded("walks", GetParam());
  if (all.empty()) GTEST_SKIP() << "no walks of " << GetParam().file << " in " << folder();
  const Target& target = find_target(GetParam().target);
  for (const Json& want : all) {
    Graph graph;
    Kernel kernel(parse(graph, kernel_texts().at(want["h"])), target);
    for (const Json& step : want["steps"]) kernel.apply(search_actions()[step["pick"].get<size_t>() - 1]);
    lower_and_compare(want, kernel);
  }
  EXPECT_EQ(differences_, 0) << "of " << all.size() << " walks";
}

INSTANTIATE_TEST_SUITE_P(Conformance, LaunchDims, all_targets(), target_name);

}  // namespace
}  // namespace quern
