#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "quern/kernel_graph.h"

namespace quern {

/// How far a search is.
struct TuneProgress {
  double best_seconds;  ///< of a run; infinite before the first candidate ran
  int64_t candidates;   ///< tried so far
  double elapsed_seconds;
};

struct TuneOptions {
  std::string device = "CPU";  ///< as in CompileOptions
  std::string target;          ///< what to compile for; empty: the device's own
  int beam = 4;                ///< kernels that each step goes on from
  double seconds = 30;         ///< time to search
  uint64_t seed = 1;           ///< of the inputs and of the order of candidates
  std::string database;        ///< a file that keeps results, as quern tune has it; empty: none
  bool search_again = false;   ///< for what the database knows too
  /// Called after each candidate, from the thread that called tune; false ends the search with the best so far.
  std::function<bool(const TuneProgress&)> progress;
};

struct TuneResult {
  std::string opts;  ///< for CompileOptions::opts
  double seconds;    ///< of the best run
  int64_t candidates;
  bool complete;  ///< false: it was ended before a step gained nothing
  bool known;     ///< it was in the database
};

/// Searches for the opts with which a kernel runs fastest on a device of this process. On devices whose code runs on the host each
/// candidate runs in a child process (fork), so that one that crashes or never ends does no harm. Each that may win gives what the
/// plain kernel gives. Throws as compile, and Error for a database that cannot be used.
TuneResult tune(const KernelGraph& kernel, const TuneOptions& options = {});

}  // namespace quern
