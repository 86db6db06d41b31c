#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "base/settings.h"
#include "engine/replay.h"
#include "engine/tune.h"
#include "lower/lower.h"
#include "optimize/kernel.h"
#include "render/program.h"

namespace quern::cli {

/// What all commands share: the settings read at start-up, and the exit status (1 after a check that failed).
struct Context {
  Settings settings;
  int status = 0;

  /// The opts to use where the command line names none: NOOPT turns the heuristics off.
  std::string default_opts() const { return settings.number("NOOPT") ? "none" : "heuristic"; }
  OptimizeOptions optimize_options(const std::string& opts) const;
  /// The same for a kernel whose opts may be known from a search, or are to be searched for (setting BEAM) on `device`, where the
  /// command line names none. Without a device it is whichever runs programs for the target.
  OptimizeOptions optimize_options(const std::string& opts, UOp ast, const Target& target, Device* device);
  /// Searches as the settings and `adjust` (if given) say. Ctrl-C ends the search, not the command.
  Tuned tune(UOp ast, Device& device, const Target& target, const std::function<void(TuningOptions&)>& adjust = {});
  /// Prints the stages that QUERN_DUMP names to stderr.
  StageHook stage_hook() const;
  /// Tells what DEBUG asks for, on stderr: 1 shape and opts, 2 also the source.
  void tell(const Kernel& kernel, const Program& program) const;
  /// Stores a kernel, and what is made of it, where QUERN_RECORD asks for that. Thread-safe.
  void record(std::string_view kernel, const Target& target, const OptimizeOptions& options);
  /// Writes what was recorded so far.
  void finish_recording();

 private:
  /// Null where nothing is kept.
  TuningDatabase* tuning_database();

  std::mutex mutex_;
  std::unique_ptr<TuningDatabase> tuning_;
  std::unique_ptr<ReplayRecorder> recorder_;  ///< null until there is something to record
};

/// Checks that an option is a whole number from `min` up.
CLI::Validator at_least(int64_t min);

// Each adds one subcommand: its options and what it does.
void add_compile(CLI::App& app, Context& context);
void add_run(CLI::App& app, Context& context);
void add_corpus(CLI::App& app, Context& context);
void add_walk(CLI::App& app, Context& context);
void add_tune(CLI::App& app, Context& context);
void add_db(CLI::App& app, Context& context);
void add_replay(CLI::App& app, Context& context);
void add_cache(CLI::App& app, Context& context);
void add_lists(CLI::App& app, Context& context);     ///< targets, devices, settings
void add_commands(CLI::App& app, Context& context);  ///< all of them

/// Throws UsageError if a command line's first word is neither an option nor a command, with those that there are.
void check_command(const CLI::App& app, const std::string& word);

}  // namespace quern::cli
