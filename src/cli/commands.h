#pragma once
#include <CLI/CLI.hpp>

#include "base/settings.h"
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
  /// Prints the stages that QUERN_DUMP names to stderr.
  StageHook stage_hook() const;
  /// Tells what DEBUG asks for, on stderr: 1 shape and opts, 2 also the source.
  void tell(const Kernel& kernel, const Program& program) const;
};

// Each adds one subcommand: its options and what it does.
void add_compile(CLI::App& app, Context& context);
void add_run(CLI::App& app, Context& context);
void add_corpus(CLI::App& app, Context& context);
void add_walk(CLI::App& app, Context& context);
void add_lists(CLI::App& app);  ///< targets, devices, settings

}  // namespace quern::cli
