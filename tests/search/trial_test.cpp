#include "search/trial.h"

#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "quern/error.h"

namespace quern {
namespace {

using ::testing::HasSubstr;
using Kind = TrialReport::Kind;

/// Calls a function with the buffers and tells the time that it gives.
class Scripted final : public Executable {
 public:
  explicit Scripted(std::function<double(std::span<Buffer* const>)> script) : script_(std::move(script)) {}
  double run(std::span<Buffer* const> buffers, const VarValues&) override { return script_(buffers); }

 private:
  std::function<double(std::span<Buffer* const>)> script_;
};

struct Trial : testing::Test {
  Trial() {
    buffers.push_back(std::make_unique<Buffer>(Scalar::Int32, 4));
    buffers.push_back(std::make_unique<Buffer>(Scalar::Int32, 4));
    ints(*buffers[0])[0] = 7;
    data.buffers = &buffers;
    data.globals = {0, 1};
    data.outs = {0};
  }
  static int32_t* ints(Buffer& b) { return reinterpret_cast<int32_t*>(b.data()); }
  TrialReport in_child(std::function<double(std::span<Buffer* const>)> script, const OutputCheck& check = {}) {
    Scripted executable(std::move(script));
    return run_trial(executable, data.globals, data, limits, true, check);
  }
  Buffers buffers;
  TrialData data;
  TrialLimits limits;
};

TEST_F(Trial, tells_the_best_of_several_runs) {
  int runs = 0;
  Scripted executable([&](auto) { return ++runs == 3 ? 0.25 : 0.5; });
  EXPECT_EQ(run_trial(executable, data.globals, data, limits, false).seconds, 0.25);
  EXPECT_EQ(runs, limits.min_runs);
  runs = 0;
  Scripted quick([&](auto) { return 1e-9 * ++runs; });
  EXPECT_EQ(run_trial(quick, data.globals, data, limits, false).seconds, 1e-9);
  EXPECT_EQ(runs, limits.max_runs);
}

TEST_F(Trial, stops_after_one_run_that_is_hopeless) {
  int runs = 0;
  Scripted executable([&](auto) { return ++runs * 2.0; });
  limits.stop_above = 1;
  EXPECT_EQ(run_trial(executable, data.globals, data, limits, false).seconds, 2);
  EXPECT_EQ(runs, 1);
}

TEST_F(Trial, gives_a_candidate_the_buffers_it_takes) {
  size_t given = 0;
  Scripted executable([&](std::span<Buffer* const> b) {
    given = b.size();
    return static_cast<double>(ints(*b[0])[0]);
  });
  ints(*buffers[1])[0] = 3;
  EXPECT_EQ(run_trial(executable, {1}, data, limits, false).seconds, 3);
  EXPECT_EQ(given, 1u);
  const TrialReport report = run_trial(executable, {0, 5}, data, limits, false);
  EXPECT_EQ(report.kind, Kind::Failed);
  EXPECT_THAT(report.note, HasSubstr("buffer 5"));
}

TEST_F(Trial, leaves_the_outputs_as_they_were_here_and_in_a_child) {
  auto script = [](std::span<Buffer* const> b) { return static_cast<double>(++ints(*b[0])[0]); };
  Scripted executable(script);
  // Each run sees what the one before wrote; the first the initial 7.
  EXPECT_EQ(run_trial(executable, data.globals, data, limits, false).seconds, 8);
  EXPECT_EQ(in_child(script).seconds, 8);
  EXPECT_EQ(ints(*buffers[0])[0], 7);
}

TEST_F(Trial, reports_what_the_check_says_of_the_first_run) {
  auto script = [](std::span<Buffer* const> b) { return static_cast<double>(++ints(*b[0])[0]); };
  OutputCheck check = [](std::span<Buffer* const> b) { return ints(*b[0])[0] == 8 ? "" : "not 8"; };
  EXPECT_EQ(in_child(script, check).kind, Kind::Timed);
  ints(*buffers[0])[0] = 1;
  TrialReport r = in_child(script, check);
  EXPECT_EQ(r.kind, Kind::Wrong);
  EXPECT_EQ(r.note, "not 8");
}

TEST_F(Trial, survives_candidates_that_crash_trap_end_or_throw) {
  for (int signal : {SIGSEGV, SIGFPE, SIGILL, SIGKILL}) {
    TrialReport r = in_child([&](auto) {
      raise(signal);
      return 0.0;
    });
    EXPECT_EQ(r.kind, Kind::Crashed);
    EXPECT_EQ(r.note, std::string("killed by a signal: ") + strsignal(signal));
  }
  TrialReport r = in_child([](auto) -> double { _exit(3); });
  EXPECT_EQ(r.kind, Kind::Crashed);
  EXPECT_EQ(r.note, "ended without a result, exit status 3");
  r = in_child([](auto) -> double { throw DeviceError("no"); });
  EXPECT_EQ(r.kind, Kind::Failed);
  EXPECT_EQ(r.note, "no");
  r = in_child([](auto) -> double { throw DeviceError(std::string(100'000, 'x')); });
  EXPECT_EQ(r.note.substr(0, 3), "xxx");
  EXPECT_EQ(in_child([](auto) { return 1.0; }).kind, Kind::Timed);
}

TEST_F(Trial, kills_what_does_not_end) {
  limits.timeout = 0.2;
  TrialReport r = in_child([](auto) {
    while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
    return 0.0;
  });
  EXPECT_EQ(r.kind, Kind::TimedOut);
  EXPECT_EQ(r.note, "did not end within 0.2 s");
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
}

TEST_F(Trial, is_not_ended_by_an_interrupt) {
  TrialReport r = in_child([](auto) {
    raise(SIGINT);
    return 1.0;
  });
  EXPECT_EQ(r.kind, Kind::Timed);
}

}  // namespace
}  // namespace quern
