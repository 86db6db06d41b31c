#include "search/trial.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "quern/error.h"

namespace quern {

namespace {

using Clock = std::chrono::steady_clock;

TrialReport trial_here(Executable& executable, const TrialData& data, const TrialLimits& limits,
                       const OutputCheck& check) {
  TrialReport report;
  try {
    // Fresh memory: pages shared with a parent process would be copied at the first write, into smaller ones.
    Buffers outputs;
    std::vector<Buffer*> pointers = pointers_to(*data.buffers);
    for (size_t at : data.outs) {
      const Buffer& initial = *(*data.buffers)[at];
      outputs.push_back(std::make_unique<Buffer>(initial.dtype(), initial.size()));
      std::memcpy(outputs.back()->data(), initial.data(), initial.bytes());
      pointers[at] = outputs.back().get();
    }
    const double first = executable.run(pointers, data.vars);
    if (check) report.note = check(pointers);
    if (!report.note.empty()) {
      report.kind = TrialReport::Kind::Wrong;
      return report;
    }
    report.seconds = first;
    if (first > limits.stop_above) return report;
    double spent = first;
    for (int runs = 1; runs < limits.max_runs && (runs < limits.min_runs || spent < limits.spend); ++runs) {
      const double seconds = executable.run(pointers, data.vars);
      report.seconds = std::min(report.seconds, seconds);
      spent += seconds;
    }
  } catch (const std::exception& e) {
    report = {TrialReport::Kind::Failed, 0, e.what()};
  }
  return report;
}

/// A report as it goes through a pipe: this, then the note.
struct Header {
  TrialReport::Kind kind;
  double seconds;
  uint32_t note_size;
};
constexpr size_t kMaxNote = 2000;

bool write_all(int file, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    ssize_t n = write(file, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

/// What becomes of a child that is to run a trial: nothing of it is seen outside but the report.
void prepare_child(pid_t parent) {
  for (int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTERM}) std::signal(signal, SIG_DFL);
  std::signal(SIGINT, SIG_IGN);  // the parent decides what an interrupt means
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it ended before that
}

class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_.data(), O_CLOEXEC) != 0)
      throw DeviceError(std::string("cannot make a pipe: ") + std::strerror(errno));
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int end(size_t which) const { return ends_[which]; }
  void close_end(size_t which) {
    if (ends_[which] >= 0) close(ends_[which]);
    ends_[which] = -1;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

enum class Reading : uint8_t { Complete, Ended, TimedOut };

Reading read_report(int file, Clock::time_point end, TrialReport& report) {
  std::string bytes;
  Header header{};
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd waiting{file, POLLIN, 0};
    int ready = poll(&waiting, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000'000)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return Reading::TimedOut;
    std::array<char, 4096> part;
    ssize_t n = read(file, part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Reading::Ended;
    bytes.append(part.data(), static_cast<size_t>(n));
    if (bytes.size() < sizeof header) continue;
    std::memcpy(&header, bytes.data(), sizeof header);
    if (bytes.size() < sizeof header + header.note_size) continue;
    report = {header.kind, header.seconds, bytes.substr(sizeof header, header.note_size)};
    return Reading::Complete;
  }
}

std::string end_of(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return "ended without a result";  // somebody else waited for it
  if (WIFSIGNALED(status)) return std::string("killed by a signal: ") + strsignal(WTERMSIG(status));
  return "ended without a result, exit status " + std::to_string(WEXITSTATUS(status));
}

TrialReport trial_in_child(Executable& executable, const TrialData& data, const TrialLimits& limits,
                           const OutputCheck& check) {
  Pipe pipe;
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw DeviceError(std::string("cannot start a process: ") + std::strerror(errno));
  if (child == 0) {
    prepare_child(parent);
    TrialReport report = trial_here(executable, data, limits, check);
    report.note.resize(std::min(report.note.size(), kMaxNote));
    Header header{report.kind, report.seconds, static_cast<uint32_t>(report.note.size())};
    const bool written = write_all(pipe.end(1), &header, sizeof header) &&
                         write_all(pipe.end(1), report.note.data(), report.note.size());
    _exit(written ? 0 : 1);
  }
  pipe.close_end(1);
  TrialReport report;
  const auto end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limits.timeout));
  const Reading reading = read_report(pipe.end(0), end, report);
  if (reading != Reading::Ended) kill(child, SIGKILL);  // it has nothing more to say
  const std::string how = end_of(child);
  if (reading == Reading::Ended) return {TrialReport::Kind::Crashed, 0, how};
  if (reading == Reading::TimedOut)
    return {TrialReport::Kind::TimedOut, 0, fmt::format("did not end within {} s", limits.timeout)};
  return report;
}

}  // namespace

TrialReport run_trial(Executable& executable, const TrialData& data, const TrialLimits& limits, bool in_child,
                      const OutputCheck& check) {
  return in_child ? trial_in_child(executable, data, limits, check) : trial_here(executable, data, limits, check);
}

}  // namespace quern
