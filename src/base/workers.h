#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace quern {

/// Work that is shared out among processes, so that a crash takes one part of one task with it and no more.
struct ProcessWork {
  /// Does task `index` from its part `first` on, and hands on the result of each part as soon as it is there.
  using Task = std::function<void(size_t index, size_t first, const std::function<void(std::string_view)>& part)>;

  /// Called once in each process, for what a task needs. Its message goes to `ready`. What it throws ends the work and comes out of
  /// it as a DeviceError.
  struct Started {
    Task task;
    std::string message;
  };
  std::function<Started()> start;
  /// A process is there: what it says of itself.
  std::function<void(std::string_view message)> ready;
  /// A part's result, in the parent.
  std::function<void(size_t index, std::string_view result)> part;
  /// A part, by number, that took its process with it, and how; the parts after it are done by the next process.
  std::function<void(size_t index, size_t part, const std::string& how)> lost;
  /// No more of this task and of those before it is to come; in order.
  std::function<void(size_t index)> done;
};

/// Does tasks 0..count-1 in `jobs` processes. A process that is silent for `timeout` seconds (0: for ever) is killed and counts as
/// lost. Call it where no other thread runs.
void work_in_processes(size_t count, int jobs, double timeout, const ProcessWork& work);

}  // namespace quern
