#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace quern {

/// One end of a two-way line of messages between a process and its child.
class MessageLine {
 public:
  enum class Reading : uint8_t { Message, Ended, TimedOut };
  using Clock = std::chrono::steady_clock;

  explicit MessageLine(int file) : file_(file) {}
  ~MessageLine();
  MessageLine(const MessageLine&) = delete;
  MessageLine& operator=(const MessageLine&) = delete;
  /// False if the other end is gone.
  bool send(std::string_view message) const;
  /// Waits for a message until `end` (for ever without one).
  Reading receive(std::string& message, std::optional<Clock::time_point> end = {});
  /// The file to wait for with poll.
  int file() const { return file_; }

 private:
  int file_;
  std::string unread_;
};

/// A process forked from this one. What happens in it is seen here in its messages alone, and in how it ends. Fork only where no
/// other thread of this process holds what the child needs.
class Child {
 public:
  /// Runs `body` in the child; it exits when that returns. Throws DeviceError where there can be no further process.
  explicit Child(const std::function<void(MessageLine&)>& body);
  /// Kills it if it still runs.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  MessageLine& line() { return *line_; }
  void kill() const;
  /// Waits for its end and tells how it came.
  std::string end();

 private:
  pid_t pid_ = -1;
  std::optional<MessageLine> line_;
};

}  // namespace quern
