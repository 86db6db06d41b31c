#include <fstream>
#include <iostream>

#include <fmt/format.h>

#include "quern/error.h"

#include "base/sqlite.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "search/database.h"

namespace quern::cli {

namespace {

std::filesystem::path file_of(const Context& context) {
  std::filesystem::path file = tuning_file(context.settings);
  if (file.empty()) throw UsageError("no tuning results are kept (setting QUERN_TUNED)");
  return file;
}

void show(const Context& context) {
  const std::filesystem::path file = file_of(context);
  const int64_t results = std::filesystem::exists(file) ? TuningDatabase(file).count() : 0;
  fmt::print("file     {}\nresults  {}\n", file.string(), results);
}

void merge(const Context& context, const std::vector<std::string>& others) {
  TuningDatabase database(file_of(context));
  for (const std::string& other : others)
    fmt::print("{}: {} results are new or faster\n", other, database.merge(other));
}

void write(const Context& context, const std::string& path) {
  TuningDatabase database(file_of(context));
  if (path == "-") {
    database.write_json(std::cout);
    std::cout.flush();
    return;
  }
  std::ofstream out(path, std::ios::binary);
  const int64_t results = out ? database.write_json(out) : 0;
  if (!out.flush()) throw UsageError("cannot write " + path);
  fmt::print("{}: {} results\n", path, results);
}

void read(const Context& context, const std::string& path) {
  TuningDatabase database(file_of(context));
  std::ifstream file;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file) throw UsageError("cannot open " + path);
  }
  try {
    fmt::print("{}: {} results are new or faster\n", path, database.read_json(path == "-" ? std::cin : file));
  } catch (const DatabaseError&) {
    throw;
  } catch (const Error& e) {
    throw UsageError(path + ": " + e.what());
  }
}

}  // namespace

void add_db(CLI::App& app, Context& context) {
  struct Options {
    std::vector<std::string> others;
    std::string path;
  };
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("db", "Show what searches found, share it, forget it");
  sub->require_subcommand(0, 1);
  CLI::App* merging = sub->add_subcommand("merge", "Take over what other files hold that is new or faster");
  merging->add_option("FILE", o->others, "Files of tuning results")->required();
  merging->callback([o, &context] { merge(context, o->others); });
  CLI::App* exporting = sub->add_subcommand("export", "Write all results as lines of JSON");
  exporting->add_option("FILE", o->path, "Where to; - is standard output")->required();
  exporting->callback([o, &context] { write(context, o->path); });
  CLI::App* importing = sub->add_subcommand("import", "Take over such lines that are new or faster");
  importing->add_option("FILE", o->path, "Where from; - is standard input")->required();
  importing->callback([o, &context] { read(context, o->path); });
  CLI::App* clearing = sub->add_subcommand("clear", "Forget all results");
  clearing->callback([&context] {
    const std::filesystem::path file = file_of(context);
    fmt::print("cleared {}: {} results\n", file.string(),
               std::filesystem::exists(file) ? TuningDatabase(file).clear() : 0);
  });
  sub->callback([sub, &context] {
    if (sub->get_subcommands().empty()) show(context);
  });
}

}  // namespace quern::cli
