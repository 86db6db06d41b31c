#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace quern {

void parallel_in_order(size_t count, int jobs, const std::function<void(size_t)>& work,
                       const std::function<void(size_t)>& done) {
  const auto in_turn = [&] {
    for (size_t i = 0; i < count; ++i) {
      work(i);
      done(i);
    }
  };
  const size_t wanted = std::min(count, static_cast<size_t>(std::max(jobs, 1)));
  if (wanted <= 1) return in_turn();
  std::atomic<size_t> next{0};
  std::vector<std::exception_ptr> errors(count);
  std::vector<char> finished(count);
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::jthread> threads;
  auto run = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
      std::lock_guard lock(mutex);
      finished[i] = 1;
      changed.notify_one();
    }
  };
  try {
    while (threads.size() < wanted) threads.emplace_back(run);
  } catch (const std::system_error&) {  // no more threads: those that there are do it
    if (threads.empty()) return in_turn();
  }
  for (size_t i = 0; i < count; ++i) {
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return finished[i] != 0; });
    }
    try {
      if (errors[i]) std::rethrow_exception(errors[i]);
      done(i);
    } catch (...) {
      next = count;  // the threads end after what they are at
      throw;
    }
  }
}

}  // namespace quern
