#include "base/diff.h"

#include <random>
#include <sstream>

#include <gtest/gtest.h>

namespace quern {
namespace {

std::string lines(const std::vector<int>& numbers) {
  std::string text;
  for (int n : numbers) text += std::to_string(n) + "\n";
  return text;
}

/// What `patch` says that one side is, where every line is in some hunk or unchanged in `other`.
std::string patched(const std::string& before, const std::string& patch) {
  std::vector<std::string> old_lines;
  std::istringstream in(before), hunks(patch);
  for (std::string line; std::getline(in, line);) old_lines.push_back(line);
  std::string result;
  size_t at = 0;
  for (std::string line; std::getline(hunks, line);) {
    if (line.starts_with("---") || line.starts_with("+++")) continue;
    if (line.starts_with("@@")) {
      size_t first = std::stoul(line.substr(4)), comma = line.find(','), plus = line.find('+');
      bool empty = comma < plus && line.substr(comma + 1, 2) == "0 ";
      for (size_t target = empty ? first : first - 1; at < target; ++at) result += old_lines[at] + "\n";
      continue;
    }
    if (line[0] != '+') {
      EXPECT_EQ(line.substr(1), old_lines[at]);
      ++at;
    }
    if (line[0] != '-') result += line.substr(1) + "\n";
  }
  for (; at < old_lines.size(); ++at) result += old_lines[at] + "\n";
  return result;
}

TEST(UnifiedDiff, is_empty_for_equal_texts) { EXPECT_EQ(unified_diff("a\nb\n", "a\nb\n", "x", "y"), ""); }

TEST(UnifiedDiff, shows_three_lines_around_each_change_as_diff_does) {
  EXPECT_EQ(unified_diff(lines({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}),
                         lines({1, 2, 3, 4, 50, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17}), "a", "b"),
            "--- a\n+++ b\n"
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+50\n 6\n 7\n 8\n"
            "@@ -11,6 +11,6 @@\n 11\n 12\n 13\n-14\n 15\n 16\n+17\n");
  EXPECT_EQ(unified_diff("", "x\n", "a", "b"), "--- a\n+++ b\n@@ -0,0 +1 @@\n+x\n");
  EXPECT_EQ(unified_diff("x\n", "", "a", "b"), "--- a\n+++ b\n@@ -1 +0,0 @@\n-x\n");
}

TEST(UnifiedDiff, turns_one_text_into_the_other) {
  uint64_t seed = 20240607;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 500; ++round) {
    auto text = [&] {
      std::vector<int> numbers(random() % 40);
      for (int& n : numbers) n = static_cast<int>(random() % 4);
      return lines(numbers);
    };
    std::string before = text(), after = text();
    EXPECT_EQ(patched(before, unified_diff(before, after, "a", "b")), after) << "seed " << seed << ", round " << round;
  }
}

TEST(UnifiedDiff, of_long_texts_with_nothing_in_common_is_quick) {
  std::string before, after;
  for (int i = 0; i < 20000; ++i) {
    before += "a" + std::to_string(i) + "\n";
    after += "b" + std::to_string(i) + "\n";
  }
  EXPECT_EQ(patched(before, unified_diff(before, after, "a", "b")), after);
}

}  // namespace
}  // namespace quern
