#include "cli/input.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/corpus.h"
#include "ir/text.h"

namespace quern::cli {

LoadedKernel load_kernel(const std::string& path) {
  LoadedKernel k{std::make_unique<Graph>(), UOp()};
  k.ast = parse(*k.graph, read_kernel_text(path));
  return k;
}

void parallel_in_order(size_t count, int jobs, const std::function<void(size_t)>& work,
                       const std::function<void(size_t)>& done) {
  if (jobs <= 1 || count <= 1) {
    for (size_t i = 0; i < count; ++i) {
      work(i);
      done(i);
    }
    return;
  }
  std::atomic<size_t> next{0};
  std::vector<char> finished(count);
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::jthread> threads;
  for (int t = 0; t < jobs; ++t)
    threads.emplace_back([&] {
      for (size_t i = next++; i < count; i = next++) {
        work(i);
        std::lock_guard lock(mutex);
        finished[i] = 1;
        changed.notify_one();
      }
    });
  for (size_t i = 0; i < count; ++i) {
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return finished[i] != 0; });
    }
    done(i);
  }
}

}  // namespace quern::cli
