#include "base/workers.h"

#include <csignal>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "quern/error.h"

namespace quern {
namespace {

/// What came of some tasks of `parts` parts each; `act` says what a part does.
struct Results {
  std::map<size_t, std::vector<std::string>> parts;
  std::vector<size_t> done;
};

Results work(size_t count, int jobs, double timeout, size_t parts, const std::function<void(size_t, size_t)>& act) {
  Results results;
  ProcessWork work;
  work.start = [&]() -> ProcessWork::Started {
    return {[&](size_t index, size_t first, const std::function<void(std::string_view)>& part) {
              for (size_t k = first; k < parts; ++k) {
                act(index, k);
                part(std::to_string(index) + "." + std::to_string(k));
              }
            },
            "here"};
  };
  work.ready = [](std::string_view message) { EXPECT_EQ(message, "here"); };
  work.part = [&](size_t index, std::string_view result) { results.parts[index].emplace_back(result); };
  work.lost = [&](size_t index, size_t part, const std::string& how) {
    EXPECT_EQ(part, results.parts[index].size());
    results.parts[index].push_back(how);
  };
  work.done = [&](size_t index) { results.done.push_back(index); };
  work_in_processes(count, jobs, timeout, work);
  return results;
}

TEST(Workers, EveryPartComesInAndTasksEndInOrder) {
  for (int jobs : {1, 3}) {
    const Results r = work(20, jobs, 0, 2, [](size_t, size_t) {});
    ASSERT_EQ(r.done.size(), 20U);
    for (size_t i = 0; i < 20; ++i) {
      EXPECT_EQ(r.done[i], i);
      EXPECT_EQ(r.parts.at(i), (std::vector{std::to_string(i) + ".0", std::to_string(i) + ".1"}));
    }
  }
}

TEST(Workers, ACrashCostsOnePartOfOneTask) {
  const Results r = work(5, 2, 0, 3, [](size_t index, size_t part) {
    if (index == 2 && part == 1) std::raise(SIGKILL);
  });
  EXPECT_EQ(r.done.size(), 5U);
  EXPECT_EQ(r.parts.at(2), (std::vector<std::string>{"2.0", "killed by a signal: Killed", "2.2"}));
  EXPECT_EQ(r.parts.at(3).size(), 3U);
}

TEST(Workers, APartThatHangsIsGivenUp) {
  const Results r = work(3, 1, 1, 1, [](size_t index, size_t) {
    if (index == 1) std::this_thread::sleep_for(std::chrono::hours(1));
  });
  EXPECT_EQ(r.parts.at(0), std::vector<std::string>{"0.0"});
  EXPECT_EQ(r.parts.at(1), std::vector<std::string>{"did not end within 1 s"});
  EXPECT_EQ(r.parts.at(2), std::vector<std::string>{"2.0"});
}

TEST(Workers, WhatIsMissingAtTheStartIsAnError) {
  ProcessWork work;
  work.start = []() -> ProcessWork::Started { throw DeviceError("there is no such thing"); };
  try {
    work_in_processes(3, 2, 0, work);
    FAIL() << "no error";
  } catch (const DeviceError& e) {
    EXPECT_STREQ(e.what(), "there is no such thing");
  }
  work.start = []() -> ProcessWork::Started {
    std::raise(SIGKILL);
    return {};
  };
  EXPECT_THROW(work_in_processes(3, 2, 0, work), DeviceError);
}

}  // namespace
}  // namespace quern
