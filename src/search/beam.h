#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "optimize/kernel.h"
#include "render/program.h"
#include "runtime/device.h"
#include "search/trial.h"

namespace quern {

struct BeamOptions {
  int width = 4;                                             ///< kernels that each step goes on from
  ActionLimits actions;                                      ///< how many lanes and threads a candidate may have
  bool pad = true;                                           ///< also actions that pad axes
  bool vary = false;                                         ///< also lists that differ in one opt (variations())
  double min_progress = 1e-8;                                ///< seconds; a step that gains less is the last
  int64_t max_uops = 3000;                                   ///< longer programs are left out; 0: none are
  double candidate_seconds = 10;                             ///< a candidate that runs longer is killed
  double seconds = std::numeric_limits<double>::infinity();  ///< for the whole search
  int64_t max_candidates = std::numeric_limits<int64_t>::max();
  int jobs = 1;       ///< threads that compile
  uint64_t seed = 1;  ///< of the order in which candidates are tried
};

/// How far a search is.
struct BeamProgress {
  double best = 0;  ///< seconds of a run
  std::string opts;
  int64_t tried = 0;
  int step = 0;
  double elapsed = 0;  ///< seconds
};

/// A program with the graph that its nodes are of.
struct BuiltProgram {
  std::unique_ptr<Graph> graph;
  Program program;
};

/// What a search asks of those above it.
struct BeamEnvironment {
  Device* device = nullptr;
  /// A candidate's program, in a graph of its own: called from several threads at once. Throws Error.
  std::function<BuiltProgram(const std::vector<Opt>& opts)> build;
  TrialData data;
  /// What is wrong with a kernel's outputs, or nothing. Without it nothing is checked.
  std::function<std::string(const Kernel& kernel, std::span<Buffer* const> buffers)> check;
  std::function<void(const BeamProgress&)> progress;  ///< may be empty
  std::function<bool()> stop;                         ///< may be empty; true: give the best so far
};

struct BeamResult {
  std::vector<Opt> opts;
  double seconds = 0;                 ///< of its best run
  std::vector<double> start_seconds;  ///< of each of the starts; infinite for one that did not run
  int64_t tried = 0;                  ///< candidates that ran
  /// Those left out, by why: "crashed", "did not end", "wrong", "failed", "too long", "the same program".
  std::map<std::string, int64_t> left_out;
  bool complete = false;  ///< false: time, candidates or patience ran out first
};

/// Looks for the opts with the shortest run: from each of `starts` (of one AST and target) on, the `width` fastest kernels of a step
/// give the candidates of the next, each with one action more or (with `vary`) one changed, until a step gains nothing. Candidates are compiled in parallel and
/// timed one at a time while nothing is compiled; the same program is timed once; close calls are timed again. Only a kernel
/// whose outputs passed the check takes part. Throws Error if none of `starts` runs.
BeamResult beam_search(const std::vector<Kernel>& starts, const BeamEnvironment& environment,
                       const BeamOptions& options = {});

}  // namespace quern
