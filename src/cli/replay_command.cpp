#include <fmt/format.h>
#include <unistd.h>

#include "quern/error.h"

#include "base/parallel.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "engine/replay.h"

namespace quern::cli {

namespace {

struct Options {
  std::string file;
  std::vector<std::string> command;
  int jobs = 1;
  bool keep_opts = false;
  bool quiet = false;
};

/// Runs another command of this one, with the setting that records.
void run_record(const Options& o, Context& context) {
  std::vector<std::string> words(o.command.rbegin(), o.command.rend());  // CLI11 takes them from the back
  if (words.back() == "quern") words.pop_back();
  if (words.empty()) throw UsageError("replay record: no command is given after --");
  if (words.back() == "replay") throw UsageError("replay record: a command that compiles is needed, not replay");
  context.settings.set("QUERN_RECORD", o.file);
  CLI::App app{"a recorded command"};
  app.name("quern");
  app.require_subcommand(1);
  add_commands(app, context);
  check_command(app, words.back());
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& e) {
    context.status = app.exit(e) == 0 ? 0 : 2;
  }
}

void run_compare(const Options& o, Context& context) {
  constexpr size_t kAtOnce = 512;  // rows held in memory
  ReplayReader reader(o.file);
  size_t same = 0, changed = 0, failed = 0, done = 0;
  for (;;) {
    std::vector<ReplayRow> rows = reader.next(kAtOnce);
    if (rows.empty()) break;
    std::vector<ReplayComparison> results(rows.size());
    parallel_in_order(
        rows.size(), o.jobs, [&](size_t i) { results[i] = compare_replay(rows[i], o.keep_opts); },
        [&](size_t i) {
          const ReplayComparison& r = results[i];
          same += r.verdict == ReplayVerdict::Same;
          changed += r.verdict == ReplayVerdict::Changed;
          failed += r.verdict == ReplayVerdict::Failed;
          if (!o.quiet) fmt::print("{}", r.diff);
          results[i] = {};
        });
    done += rows.size();
    if (isatty(2))
      fmt::print(stderr, "\r{} of {}{}", done, reader.count(), done == static_cast<size_t>(reader.count()) ? "\n" : "");
  }
  fmt::print("{} kernels: {} same, {} changed, {} failed\n", same + changed + failed, same, changed, failed);
  if (changed + failed > 0) context.status = 1;
}

}  // namespace

void add_replay(CLI::App& app, Context& context) {
  auto o = std::make_shared<Options>();
  CLI::App* replay =
      app.add_subcommand("replay", "Record what is generated, and compare it with what a later build generates");
  replay->require_subcommand(1);
  CLI::App* record = replay->add_subcommand("record", "Run a command and record every kernel it meets");
  record->add_option("DB", o->file, "File to record in; kernels that it has are replaced")->required();
  record->add_option("COMMAND", o->command, "After --: compile, run or corpus, with all of its options")->required();
  record->callback([o, &context] { run_record(*o, context); });
  CLI::App* compare =
      replay->add_subcommand("compare", "Generate recorded kernels again; show what changed, exit 1 if anything did");
  compare->add_option("DB", o->file, "File that was recorded")->required();
  compare->add_flag("--keep-opts", o->keep_opts, "Apply the opts that were applied then, whatever is decided now");
  compare->add_flag("--quiet", o->quiet, "Only the counts");
  compare->add_option("--jobs", o->jobs, "Threads")->check(at_least(1))->capture_default_str();
  compare->callback([o, &context] { run_compare(*o, context); });
}

}  // namespace quern::cli
