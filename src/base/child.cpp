#include "base/child.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "quern/error.h"

namespace quern {

namespace {

/// What becomes of a child: it ends with its parent, leaves no core file, and has no handlers of the parent's.
void prepare_child(pid_t parent) {
  for (int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTERM}) std::signal(signal, SIG_DFL);
  std::signal(SIGINT, SIG_IGN);  // the parent decides what an interrupt means
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it ended before that
}

bool send_all(int file, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::send(file, at, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

MessageLine::~MessageLine() { close(file_); }

bool MessageLine::send(std::string_view message) const {
  const auto size = static_cast<uint32_t>(message.size());
  return send_all(file_, &size, sizeof size) && send_all(file_, message.data(), message.size());
}

MessageLine::Reading MessageLine::receive(std::string& message, std::optional<Clock::time_point> end) {
  while (true) {
    uint32_t size = 0;
    if (unread_.size() >= sizeof size) {
      std::memcpy(&size, unread_.data(), sizeof size);
      if (unread_.size() >= sizeof size + size) {
        message = unread_.substr(sizeof size, size);
        unread_.erase(0, sizeof size + size);
        return Reading::Message;
      }
    }
    int wait = -1;
    if (end) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*end - Clock::now()).count();
      wait = static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000'000));
    }
    pollfd waiting{file_, POLLIN, 0};
    const int ready = poll(&waiting, 1, wait);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return Reading::TimedOut;
    std::array<char, 4096> part;
    const ssize_t n = recv(file_, part.data(), part.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Reading::Ended;
    unread_.append(part.data(), static_cast<size_t>(n));
  }
}

Child::Child(const std::function<void(MessageLine&)>& body) {
  std::array<int, 2> ends;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw DeviceError(std::string("cannot make a line to a process: ") + std::strerror(errno));
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) {
    const int reason = errno;
    for (int end : ends) close(end);
    throw DeviceError(std::string("cannot start a process: ") + std::strerror(reason));
  }
  close(ends[pid_ == 0 ? 0 : 1]);
  line_.emplace(ends[pid_ == 0 ? 1 : 0]);
  if (pid_ > 0) return;
  prepare_child(parent);
  body(*line_);
  _exit(0);  // without the parent's destructors and unwritten output
}

Child::~Child() {
  if (pid_ < 0) return;
  kill();
  end();
}

void Child::kill() const { ::kill(pid_, SIGKILL); }

std::string Child::end() {
  int status = 0;
  const pid_t pid = std::exchange(pid_, -1);
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return "ended without a result";  // somebody else waited for it
  if (WIFSIGNALED(status)) return std::string("killed by a signal: ") + strsignal(WTERMSIG(status));
  return "ended without a result, exit status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace quern
