#ifdef QUERN_HAVE_LLVM
#include "runtime/cpu/threads.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace quern {
namespace {

TEST(Threads, do_each_part_once) {
  for (int64_t most : {0, 1, 2, 7}) {
    const auto threads = Threads::create(most);
    for (int32_t n : {1, 2, 3, 64, 1000}) {
      std::vector<std::atomic<int>> done(static_cast<size_t>(n));
      threads->run(n, [&](int32_t i) { ++done[static_cast<size_t>(i)]; });
      for (const std::atomic<int>& d : done) EXPECT_EQ(d, 1) << n << " parts on " << most;
    }
  }
}

TEST(Threads, are_as_many_as_asked_for) {
  EXPECT_EQ(Threads::create(3)->count(), 3);
  EXPECT_GE(Threads::create(0)->count(), 1);
}

TEST(Threads, go_on_after_they_were_stopped) {
  const auto threads = Threads::create(2);
  for (int round = 0; round < 3; ++round) {
    std::atomic<int> sum{0};
    threads->run(10, [&](int32_t i) { sum += i; });
    EXPECT_EQ(sum, 45);
    threads->stop();
    threads->stop();
  }
}

TEST(Threads, serve_several_callers_at_once) {
  const auto threads = Threads::create(2);
  std::atomic<int> sum{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&] {
      for (int k = 0; k < 50; ++k) threads->run(8, [&](int32_t i) { sum += i; });
    });
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(sum, 4 * 50 * 28);
}

}  // namespace
}  // namespace quern
#endif
