#include "search/database.h"

#include <istream>
#include <ostream>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "quern/error.h"

#include "base/digest.h"
#include "base/kept_file.h"
#include "base/shown.h"
#include "base/sqlite.h"
#include "optimize/opt.h"

namespace quern {

namespace {

namespace fs = std::filesystem;
using Row = std::pair<TuningKey, TuningResult>;

constexpr int64_t kVersion = 1;  // of the tables

// Kernels and identities are long and met many times: each text stands once.
constexpr const char* kSchema = R"(
  CREATE TABLE texts(id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, text TEXT NOT NULL);
  CREATE TABLE results(kernel INTEGER NOT NULL, target TEXT NOT NULL, identity INTEGER NOT NULL, options TEXT NOT NULL, search TEXT NOT NULL,
    version INTEGER NOT NULL, opts TEXT NOT NULL, seconds REAL NOT NULL, tried INTEGER NOT NULL, complete INTEGER NOT NULL,
    UNIQUE(kernel, target, identity, version, options, search));
  PRAGMA user_version = 1;
)";

/// Columns of a result, of those for a kernel, a target and an identity.
std::string select_of_kernel(const char* rest) {
  return std::string(
             "SELECT opts, seconds, tried, complete FROM results "
             "WHERE kernel = (SELECT id FROM texts WHERE hash = ?) AND target = ? AND "
             "identity = (SELECT id FROM texts WHERE hash = ?) AND version = ? AND options = ? ") +
         rest;
}

TuningResult result_of(const Statement& s, int column = 0) {
  return {s.text(column), s.real(column + 1), s.number(column + 2), s.number(column + 3) != 0};
}

}  // namespace

struct TuningDatabase::Connection {
  struct Tables {
    Tables(const fs::path& file, OpenMode mode) : database(file.string(), mode) {
      if (mode == OpenMode::Create) {
        database.use_write_ahead_log();
        Transaction t(database);  // two processes may make it at once
        if (database.number("SELECT count(*) FROM sqlite_schema") == 0) database.run(kSchema);
        t.commit();
      }
      if (database.number("PRAGMA user_version") != kVersion ||
          database.number("SELECT count(*) FROM sqlite_schema WHERE name = 'results'") != 1)
        throw Error(file.string() + " holds no tuning results of version " + std::to_string(kVersion));
    }
    Database database;
  };

  explicit Connection(const fs::path& file, OpenMode mode) : tables(file, mode) {}

  int64_t id_of(const std::string& text) {
    std::string hash = digest(text);
    put_text.bind(Blob{hash}, text).run();
    get_text.bind(Blob{hash}).step();
    int64_t id = get_text.number(0);
    get_text.reset();
    return id;
  }

  /// Whether it was taken.
  bool put(const Row& row, bool only_if_faster) {
    const auto& [key, result] = row;
    const int64_t kernel = id_of(key.kernel), identity = id_of(key.identity), complete = result.complete ? 1 : 0;
    (only_if_faster ? put_faster : put_any)
        .bind(kernel, key.target, identity, key.options, key.search, kOptsVersion, result.opts, result.seconds,
              result.tried, complete)
        .run();
    return tables.database.changes() > 0;
  }

  std::optional<TuningResult> first(Statement& s) {
    std::optional<TuningResult> found;
    if (s.step()) found = result_of(s);
    s.reset();
    return found;
  }

  std::vector<Row> all() {
    std::vector<Row> rows;
    for (get_all.bind(kOptsVersion); get_all.step();)
      rows.push_back({{get_all.text(0), get_all.text(1), get_all.text(2), get_all.text(3), get_all.text(4)},
                      result_of(get_all, 5)});
    get_all.reset();
    return rows;
  }

  static constexpr const char* kPut =
      "INSERT INTO results(kernel, target, identity, options, search, version, opts, seconds, tried, complete) "
      "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET opts = excluded.opts, seconds = "
      "excluded.seconds, "
      "tried = excluded.tried, complete = excluded.complete";

  Tables tables;
  Statement put_text{tables.database, "INSERT OR IGNORE INTO texts(hash, text) VALUES(?, ?)"};
  Statement get_text{tables.database, "SELECT id FROM texts WHERE hash = ?"};
  Statement put_any{tables.database, kPut};
  Statement put_faster{tables.database, std::string(kPut) + " WHERE excluded.seconds < results.seconds"};
  Statement get{tables.database, select_of_kernel("AND search = ?")};
  Statement get_best{tables.database, select_of_kernel("ORDER BY seconds, opts LIMIT 1")};
  Statement get_any{tables.database,
                    "SELECT 1 FROM results WHERE kernel = (SELECT id FROM texts WHERE hash = ?) AND target = ? AND "
                    "version = ? LIMIT 1"};
  Statement get_all{
      tables.database,
      "SELECT k.text, target, i.text, options, search, opts, seconds, tried, complete FROM results JOIN texts "
      "AS k ON k.id = kernel JOIN texts AS i ON i.id = identity WHERE version = ? "
      "ORDER BY k.hash, target, i.hash, options, search"};
};

TuningDatabase::TuningDatabase(const fs::path& file) : file_(file) {
  if (file.native().find('\0') != std::string::npos)
    throw Error("a file's name has no zero bytes: not " + in_quotes(file.native()));
  std::error_code error;
  if (file.has_parent_path()) fs::create_directories(file.parent_path(), error);
  if (error) throw Error(file.parent_path().string() + ": " + error.message());
  connection_ = std::make_unique<Connection>(file, OpenMode::Create);
}

TuningDatabase::~TuningDatabase() = default;

std::optional<TuningResult> TuningDatabase::find(const TuningKey& key) {
  std::lock_guard lock(mutex_);
  const std::string kernel = digest(key.kernel), identity = digest(key.identity);
  Statement& s = connection_->get;
  return connection_->first(s.bind(Blob{kernel}, key.target, Blob{identity}, kOptsVersion, key.options, key.search));
}

std::optional<TuningResult> TuningDatabase::best(const TuningKey& key) {
  std::lock_guard lock(mutex_);
  const std::string kernel = digest(key.kernel), identity = digest(key.identity);
  Statement& s = connection_->get_best;
  return connection_->first(s.bind(Blob{kernel}, key.target, Blob{identity}, kOptsVersion, key.options));
}

bool TuningDatabase::has(const std::string& kernel, const std::string& target) {
  std::lock_guard lock(mutex_);
  const std::string hash = digest(kernel);
  Statement& s = connection_->get_any;
  const bool found = s.bind(Blob{hash}, target, kOptsVersion).step();
  s.reset();
  return found;
}

void TuningDatabase::store(const TuningKey& key, const TuningResult& result) {
  std::lock_guard lock(mutex_);
  Transaction t(connection_->tables.database);
  connection_->put({key, result}, false);
  t.commit();
}

int64_t TuningDatabase::count() {
  std::lock_guard lock(mutex_);
  return connection_->tables.database.number("SELECT count(*) FROM results");
}

int64_t TuningDatabase::clear() {
  std::lock_guard lock(mutex_);
  Database& d = connection_->tables.database;
  Transaction t(d);
  int64_t before = d.number("SELECT count(*) FROM results");
  d.run("DELETE FROM results; DELETE FROM texts");
  t.commit();
  return before;
}

int64_t TuningDatabase::take_over(const std::vector<Row>& rows) {
  std::lock_guard lock(mutex_);
  Transaction t(connection_->tables.database);
  int64_t taken = 0;
  for (const Row& row : rows) taken += connection_->put(row, true) ? 1 : 0;
  t.commit();
  return taken;
}

int64_t TuningDatabase::merge(const fs::path& other) {
  if (!fs::exists(other)) throw Error("cannot open " + other.string() + ": no such file");
  return take_over(Connection(other, OpenMode::Read).all());
}

int64_t TuningDatabase::write_json(std::ostream& out) {
  std::lock_guard lock(mutex_);
  const std::vector<Row> rows = connection_->all();
  for (const auto& [key, result] : rows) {
    nlohmann::ordered_json j{{"kernel", key.kernel},       {"target", key.target},      {"identity", key.identity},
                             {"options", key.options},     {"search", key.search},      {"version", kOptsVersion},
                             {"opts", result.opts},        {"seconds", result.seconds}, {"tried", result.tried},
                             {"complete", result.complete}};
    out << j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  }
  return static_cast<int64_t>(rows.size());
}

int64_t TuningDatabase::read_json(std::istream& in) {
  std::vector<Row> rows;
  int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty()) continue;
    try {
      const nlohmann::json j = nlohmann::json::parse(line);
      if (j.at("version").get<int64_t>() != kOptsVersion) continue;  // its opts mean something else here
      rows.push_back({{j.at("kernel"), j.at("target"), j.at("identity"), j.at("options"), j.at("search")},
                      {j.at("opts"), j.at("seconds"), j.at("tried"), j.at("complete")}});
      if (rows.back().second.opts != "none") (void)parse_opts(rows.back().second.opts);
    } catch (const OptError& e) {
      throw Error(fmt::format("line {} is no tuning result: {}", number, e.what()));
    } catch (const nlohmann::json::exception& e) {
      throw Error(fmt::format("line {} is no tuning result: {}", number, e.what()));
    }
  }
  return take_over(rows);
}

fs::path tuning_file(const Settings& settings) { return kept_file(settings, "QUERN_TUNED", "tuned.db"); }

}  // namespace quern
