#include "base/workers.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <poll.h>

#include "quern/error.h"

#include "base/child.h"

namespace quern {

namespace {

using Clock = MessageLine::Clock;

/// What a worker says: a letter, and for some of them text.
enum class Saying : char { Ready = 'r', Part = 'p', Done = 'd', Failed = 'f' };

struct Order {
  size_t index;
  size_t first;
};

void say(const MessageLine& line, Saying what, std::string_view text = {}) {
  line.send(static_cast<char>(what) + std::string(text));
}

/// The worker's side: does what it is told until the parent is gone.
void serve(MessageLine& line, const ProcessWork& work) {
  try {
    const auto [task, introduction] = work.start();
    say(line, Saying::Ready, introduction);
    std::string message;
    while (line.receive(message) == MessageLine::Reading::Message) {
      Order order{};
      std::memcpy(&order, message.data(), sizeof order);
      task(order.index, order.first, [&](std::string_view result) { say(line, Saying::Part, result); });
      say(line, Saying::Done);
    }
  } catch (const std::exception& e) {
    say(line, Saying::Failed, e.what());
  }
}

/// The parent's side.
class Workers {
 public:
  Workers(size_t count, double timeout, const ProcessWork& work)
      : count_(count), timeout_(timeout), work_(work), finished_(count) {}

  void run(int jobs) {
    workers_.resize(std::min(count_, static_cast<size_t>(std::max(jobs, 1))));
    for (Worker& w : workers_) hire(w);
    while (reported_ < count_) {
      wait();
      for (Worker& w : workers_) attend(w);
    }
  }

 private:
  struct Worker {
    std::unique_ptr<Child> child;  ///< null when there is nothing left to do
    bool ready = false;
    bool busy = false;
    Order order{};  ///< what it is at; `first` counts on with the parts
    Clock::time_point heard;
  };

  void hire(Worker& w) {
    w.child = std::make_unique<Child>([&](MessageLine& line) { serve(line, work_); });
    w.ready = false;
    w.heard = Clock::now();
  }

  std::chrono::duration<double> left(const Worker& w) const {
    return std::chrono::duration<double>(timeout_) - (Clock::now() - w.heard);
  }

  /// Until a worker has something to say, or has been silent for too long.
  void wait() const {
    std::vector<pollfd> lines;
    double soonest = 1e6;
    for (const Worker& w : workers_) {
      if (!w.child) continue;
      lines.push_back({w.child->line().file(), POLLIN, 0});
      if (timeout_ > 0) soonest = std::min(soonest, std::max(left(w).count(), 0.0));
    }
    poll(lines.data(), lines.size(), static_cast<int>(soonest * 1000) + 1);
  }

  /// Takes in all that a worker has said, and gives it more to do.
  void attend(Worker& w) {
    std::string message;
    while (w.child) {
      switch (w.child->line().receive(message, Clock::now())) {
        case MessageLine::Reading::Message:
          w.heard = Clock::now();
          hear(w, message);
          break;
        case MessageLine::Reading::Ended: return lose(w, w.child->end());
        case MessageLine::Reading::TimedOut:
          if (timeout_ > 0 && w.child && left(w).count() <= 0) {
            w.child->kill();
            (void)w.child->end();
            return lose(w, fmt::format("did not end within {} s", timeout_));
          }
          return;
      }
    }
  }

  void hear(Worker& w, const std::string& message) {
    const std::string_view text = std::string_view(message).substr(1);
    switch (static_cast<Saying>(message[0])) {
      case Saying::Ready:
        w.ready = true;
        work_.ready(text);
        return employ(w);
      case Saying::Part: ++w.order.first; return work_.part(w.order.index, text);
      case Saying::Done:
        finish(w.order.index);
        w.busy = false;
        return employ(w);
      case Saying::Failed: throw DeviceError(std::string(text));
    }
  }

  /// The next task to a worker that is free, or its leave.
  void employ(Worker& w) {
    if (!w.busy) {
      if (next_ == count_) return w.child.reset();
      w.order = {next_++, 0};
    }
    w.busy = true;
    std::string message(sizeof w.order, '\0');
    std::memcpy(message.data(), &w.order, sizeof w.order);
    w.child->line().send(message);  // if it cannot, its end is seen next
  }

  void lose(Worker& w, const std::string& how) {
    if (!w.ready) throw DeviceError("a process that was to do the work ended before it began: " + how);
    work_.lost(w.order.index, w.order.first, how);
    ++w.order.first;
    hire(w);
  }

  void finish(size_t index) {
    finished_[index] = 1;
    for (; reported_ < count_ && finished_[reported_] != 0; ++reported_) work_.done(reported_);
  }

  size_t count_;
  double timeout_;
  const ProcessWork& work_;
  std::vector<Worker> workers_;
  size_t next_ = 0;
  size_t reported_ = 0;
  std::vector<char> finished_;
};

}  // namespace

void work_in_processes(size_t count, int jobs, double timeout, const ProcessWork& work) {
  if (count > 0) Workers(count, timeout, work).run(jobs);
}

}  // namespace quern
