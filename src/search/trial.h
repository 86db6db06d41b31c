#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace quern {

/// What a candidate runs on. It is left as it is: a trial writes to copies of the outputs.
struct TrialData {
  const Buffers* buffers = nullptr;  ///< filled
  std::vector<int> globals;          ///< their numbers
  std::vector<size_t> outs;          ///< positions of those that the kernel writes
  VarValues vars;
};

/// How long to look at a candidate, in seconds.
struct TrialLimits {
  double stop_above = std::numeric_limits<double>::infinity();  ///< if the first run takes longer, it is the only one
  double spend = 0.01;                                          ///< in runs, however short they are
  int min_runs = 3;
  int max_runs = 200;
  double timeout = 10;  ///< for the whole trial; then it is killed
};

struct TrialReport {
  enum class Kind : uint8_t { Timed, Wrong, Failed, Crashed, TimedOut } kind = Kind::Timed;
  double seconds = 0;  ///< best run
  std::string note;    ///< what is wrong
};

/// Looks at the buffers after a run: what is wrong with them, or nothing.
using OutputCheck = std::function<std::string(std::span<Buffer* const>)>;

/// Runs a candidate and tells the time of its best run. With `check`, the first run's outputs are looked at; the report is Wrong
/// if they are. Where the executable survives a fork (Device::survives_fork) that happens in a child process, and a candidate
/// that crashes or never ends takes nothing down with it; elsewhere it happens here.
/// `globals` are the candidate's own, some of the data's.
TrialReport run_trial(Executable& executable, const std::vector<int>& globals, const TrialData& data,
                      const TrialLimits& limits, bool in_child, const OutputCheck& check = {});

}  // namespace quern
