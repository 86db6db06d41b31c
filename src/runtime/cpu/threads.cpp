#include "runtime/cpu/threads.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <mutex>
#include <string>

#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#ifdef QUERN_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace quern {

namespace {

/// Processors that the cgroup lets this process use at once; 0 where there is no limit.
int cgroup_limit() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  const double limit = std::strtod(quota.c_str(), nullptr) / period;
  return limit > 0 ? static_cast<int>(std::ceil(limit)) : 0;
}

int usable_processors() {
  const int by_affinity = std::max(1, tbb::info::default_concurrency());
  const int by_cgroup = cgroup_limit();
  return by_cgroup == 0 ? by_affinity : std::min(by_affinity, by_cgroup);
}

/// ThreadSanitizer does not see how the scheduler, a library built without it, orders what threads do; so this file is built without it too
/// and says what it has to know: what comes before a run is before its tasks, and those are before what comes after.
class Order {
 public:
#ifdef QUERN_THREAD_SANITIZER
  void release() { __tsan_release(this); }
  void acquire() { __tsan_acquire(this); }
#else
  void release() {}
  void acquire() {}
#endif
};

class TbbThreads final : public Threads {
 public:
  explicit TbbThreads(int count)
      : count_(count),
        limit_(tbb::global_control::max_allowed_parallelism,
               static_cast<size_t>(std::max(count, tbb::info::default_concurrency()))),
        arena_(count) {}

  int count() const override { return count_; }

  void run(int32_t n, const std::function<void(int32_t)>& task) override {
    if (count_ == 1 || n == 1) {
      for (int32_t i = 0; i < n; ++i) task(i);
      return;
    }
    {
      const std::scoped_lock lock(mutex_);
      if (!scheduler_) scheduler_ = tbb::task_scheduler_handle{tbb::attach{}};
    }
    Order order;
    order.release();
    const auto ordered = [&](int32_t i) {
      order.acquire();
      task(i);
      order.release();
    };
    arena_.execute([&] { tbb::parallel_for(int32_t{0}, n, ordered); });
    order.acquire();
  }

  void stop() override {
    const std::scoped_lock lock(mutex_);
    // Where something else in the process uses the same scheduler, its threads stay.
    if (scheduler_) static_cast<void>(tbb::finalize(scheduler_, std::nothrow));
    scheduler_ = {};
  }

 private:
  int count_;
  tbb::global_control limit_;  // more than there are processors, where that is asked for
  tbb::task_arena arena_;
  std::mutex mutex_;
  tbb::task_scheduler_handle scheduler_;
};

}  // namespace

std::shared_ptr<Threads> Threads::create(int64_t most) {
  const int usable = usable_processors();
  return std::make_shared<TbbThreads>(most == 0 ? usable : static_cast<int>(std::min<int64_t>(most, 1024)));
}

}  // namespace quern
