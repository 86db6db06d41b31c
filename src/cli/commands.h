#pragma once
#include <CLI/CLI.hpp>

namespace quern::cli {

// Each adds one subcommand with its options and what it does; a false check sets `status` to 1.
void add_compile(CLI::App& app, int& status);
void add_run(CLI::App& app, int& status);
void add_corpus(CLI::App& app, int& status);
void add_walk(CLI::App& app, int& status);
void add_lists(CLI::App& app);   ///< targets, devices, settings

}  // namespace quern::cli
