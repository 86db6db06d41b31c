#pragma once
#include <cstdint>
#include <functional>
#include <memory>

namespace quern {

/// Threads that share out the parts of a kernel. They wait awake for a moment after a kernel, so that the next one starts in about a
/// microsecond, and then sleep. Thread-safe: kernels that run at the same time share them.
class Threads {
 public:
  /// `most` of them, the caller's counted; 0: as many as the process may use, by its affinity and its cgroup's limit.
  static std::shared_ptr<Threads> create(int64_t most);
  virtual ~Threads() = default;
  virtual int count() const = 0;
  /// Calls task(0), ..., task(n - 1), each once, and returns when all have.
  virtual void run(int32_t n, const std::function<void(int32_t)>& task) = 0;
  /// Ends them, so that a child of fork, which has none of them, starts its own; the next run starts them again.
  virtual void stop() = 0;
};

}  // namespace quern
