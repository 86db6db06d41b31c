#include "engine/replay.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "quern/error.h"

#include "base/diff.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/sqlite.h"
#include "engine/compile.h"
#include "engine/records.h"
#include "ir/text.h"
#include "optimize/opt.h"
#include "target/target.h"

namespace quern {

namespace {

constexpr int64_t kVersion = 1;
constexpr size_t kBatch = 1000;

// A kernel's text is stored once, however many targets and opts it was met with.
constexpr const char* kSchema = R"(
  CREATE TABLE texts(id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, text TEXT NOT NULL);
  CREATE TABLE kernels(id INTEGER PRIMARY KEY, text_id INTEGER NOT NULL, target TEXT NOT NULL, opts TEXT NOT NULL, settings TEXT NOT NULL,
    kind INTEGER NOT NULL, name TEXT NOT NULL, applied TEXT NOT NULL, source TEXT NOT NULL, UNIQUE(text_id, target, opts, settings));
  PRAGMA user_version = 1;
)";

void check_version(Database& database) {
  if (int64_t version = database.number("PRAGMA user_version"); version != kVersion)
    throw Error(database.path() + " holds no recorded kernels of version " + std::to_string(kVersion));
}

std::string with_newline(std::string text) {
  if (!text.empty() && text.back() != '\n') text += '\n';
  return text;
}

/// The options of a request: its opts, and its settings ("NAME=value" separated by spaces).
OptimizeOptions options_of(const ReplayRequest& request, const std::string* applied) {
  Settings settings;
  std::string_view rest = request.settings;
  while (!rest.empty()) {
    std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    size_t equals = word.find('=');
    if (equals != std::string_view::npos) settings.set(word.substr(0, equals), word.substr(equals + 1));
  }
  std::string opts = request.opts;
  if (applied != nullptr) opts = applied->empty() ? "none" : *applied;
  return {.opts = opts,
          .tensor_cores = static_cast<TensorCoreUse>(settings.number("TC")),
          .tc_opt = static_cast<int>(settings.number("TC_OPT")),
          .allow_tf32 = settings.number("ALLOW_TF32") != 0};
}

/// One text for all of a result, so that a diff shows each part of it.
std::string document(const ReplayResult& r) {
  if (r.kind == ReplayResult::Kind::Error) return "error: " + r.text;
  return "name: " + r.name + "\nopts: " + r.applied + "\n" + r.text;
}

std::string first_words(const std::string& text, size_t length) {
  return text.size() <= length ? text : text.substr(0, length) + "...";
}

}  // namespace

std::string replay_settings(const OptimizeOptions& options) {
  return "TC=" + std::to_string(static_cast<int>(options.tensor_cores)) + " TC_OPT=" + std::to_string(options.tc_opt) +
         (options.allow_tf32 ? " ALLOW_TF32=1" : "");
}

ReplayResult regenerate(const ReplayRequest& request, ReplayResult::Kind want, const std::string* applied) {
  ReplayResult result;
  try {
    Graph graph;
    UOp ast = parse(graph, request.kernel);
    Kernel kernel = optimize(ast, find_target(request.target), options_of(request, applied));
    result.applied = to_string(kernel.applied_opts());
    Program program = compile(kernel);
    result.name = program.name;
    bool linear = want == ReplayResult::Kind::Linear || program.source.empty();
    result.kind = linear ? ReplayResult::Kind::Linear : ReplayResult::Kind::Source;
    result.text = with_newline(linear ? print_linear(program.linear) : program.source);
  } catch (const Error& e) {
    result = {.kind = ReplayResult::Kind::Error, .name = {}, .applied = {}, .text = with_newline(e.what())};
  }
  return result;
}

struct ReplayRecorder::File {
  struct Tables {
    explicit Tables(const std::string& path) : database(path, OpenMode::Create) {
      database.use_write_ahead_log();
      Transaction t(database);  // two processes may make it at once
      if (database.number("SELECT count(*) FROM sqlite_schema") == 0) database.run(kSchema);
      t.commit();
      check_version(database);
    }
    Database database;
  };
  explicit File(const std::string& path) : tables(path) {}

  void put(const ReplayRow& row) {
    const ReplayRequest& q = row.request;
    const ReplayResult& r = row.result;
    std::string hash = digest(q.kernel);
    put_text.bind(Blob{hash}, q.kernel).run();
    get_text.bind(Blob{hash}).step();
    int64_t text = get_text.number(0);
    get_text.reset();
    put_kernel.bind(text, q.target, q.opts, q.settings, static_cast<int64_t>(r.kind), r.name, r.applied, r.text).run();
  }

  Tables tables;
  Statement put_text{tables.database, "INSERT OR IGNORE INTO texts(hash, text) VALUES(?, ?)"};
  Statement get_text{tables.database, "SELECT id FROM texts WHERE hash = ?"};
  Statement put_kernel{
      tables.database,
      "INSERT INTO kernels(text_id, target, opts, settings, kind, name, applied, source) VALUES(?, ?, ?, ?, ?, ?, ?, "
      "?) "
      "ON CONFLICT DO UPDATE SET kind = excluded.kind, name = excluded.name, applied = excluded.applied, "
      "source = excluded.source"};
};

ReplayRecorder::ReplayRecorder(const std::string& path) : file_(std::make_unique<File>(path)) {}

ReplayRecorder::~ReplayRecorder() {
  try {
    flush();
  } catch (const Error& e) {
    log_message("the last kernels are not recorded: " + std::string(e.what()));
  }
}

void ReplayRecorder::add(std::string_view kernel, const Target& target, const OptimizeOptions& options) {
  std::string text;
  {
    Graph graph;
    text = print(parse(graph, kernel));  // the same kernel has the same text
  }
  ReplayRow row;
  row.request = {std::move(text), target.name, options.opts, replay_settings(options)};
  row.result = regenerate(row.request);
  std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(row));
  if (waiting_.size() >= kBatch) write();
}

void ReplayRecorder::flush() {
  std::lock_guard lock(mutex_);
  write();
}

void ReplayRecorder::write() {
  if (waiting_.empty()) return;
  Transaction t(file_->tables.database);
  for (const ReplayRow& row : waiting_) file_->put(row);
  t.commit();
  waiting_.clear();
}

struct ReplayReader::File {
  struct Tables {
    explicit Tables(const std::string& path) : database(path, OpenMode::Read) {
      check_version(database);
      count = database.number("SELECT count(*) FROM kernels");
    }
    Database database;
    int64_t count = 0;
  };
  explicit File(const std::string& path) : tables(path) {}

  Tables tables;
  Statement rows{tables.database,
                 "SELECT kernels.id, text, target, opts, settings, kind, name, applied, source FROM kernels "
                 "JOIN texts ON texts.id = text_id ORDER BY kernels.id"};
  bool ended = false;
};

ReplayReader::ReplayReader(const std::string& path) {
  if (!std::filesystem::exists(path)) throw Error("cannot open " + path + ": no such file");
  file_ = std::make_unique<File>(path);
}

ReplayReader::~ReplayReader() = default;

int64_t ReplayReader::count() const { return file_->tables.count; }

std::vector<ReplayRow> ReplayReader::next(size_t at_most) {
  std::vector<ReplayRow> rows;
  Statement& s = file_->rows;
  // Stepping past the end would start again.
  while (!file_->ended && rows.size() < at_most) {
    if (!s.step()) {
      file_->ended = true;
      break;
    }
    rows.push_back({s.number(0),
                    {s.text(1), s.text(2), s.text(3), s.text(4)},
                    {static_cast<ReplayResult::Kind>(s.number(5)), s.text(6), s.text(7), s.text(8)}});
  }
  return rows;
}

ReplayComparison compare_replay(const ReplayRow& row, bool keep_opts) {
  const ReplayResult& before = row.result;
  bool was_error = before.kind == ReplayResult::Kind::Error;
  ReplayResult after = regenerate(row.request, before.kind, keep_opts && !was_error ? &before.applied : nullptr);
  if (after == before) return {};
  std::string what = std::to_string(row.id) + " " + (before.name.empty() ? after.name : before.name) + " for " +
                     row.request.target + ", opts " + first_words(row.request.opts, 80) + " (" + row.request.settings +
                     ")";
  bool failed = after.kind == ReplayResult::Kind::Error && !was_error;
  return {failed ? ReplayVerdict::Failed : ReplayVerdict::Changed,
          unified_diff(document(before), document(after), what + ", recorded", what + ", now")};
}

}  // namespace quern
