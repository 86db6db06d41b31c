#pragma once
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/settings.h"

namespace quern {

/// To be raised when an opt, or how it is lowered, comes to mean something else: what was found before says nothing then.
inline constexpr int64_t kOptsVersion = 4;

/// What a search's result holds for.
struct TuningKey {
  std::string kernel;  ///< the AST's text
  std::string target;
  std::string identity;  ///< Device::tuning_identity: compiler and hardware
  std::string options;   ///< what else decides which opts there are: "TC=1 TC_OPT=0"
  std::string search;    ///< the search's own settings: "BEAM=4 …"
};

struct TuningResult {
  std::string opts;       ///< as OptimizeOptions::opts takes them
  double seconds = 0;     ///< of the best run
  int64_t tried = 0;      ///< candidates that ran
  bool complete = false;  ///< the search ended by itself
};

/// What searches found, kept in an SQLite file that any number of threads and processes may use at once and be killed at any moment.
/// Its functions throw Error (a DatabaseError where SQLite has something to say).
class TuningDatabase {
 public:
  /// Makes the file, and the folder it is in, where there is none.
  explicit TuningDatabase(const std::filesystem::path& file);
  ~TuningDatabase();
  TuningDatabase(const TuningDatabase&) = delete;
  TuningDatabase& operator=(const TuningDatabase&) = delete;

  const std::filesystem::path& file() const { return file_; }
  /// What this very search found.
  std::optional<TuningResult> find(const TuningKey& key);
  /// The fastest that any search found; the key's own `search` does not matter.
  std::optional<TuningResult> best(const TuningKey& key);
  /// Whether there is any for a target, whatever it was found on.
  bool has(const std::string& kernel, const std::string& target);
  /// In place of what there was.
  void store(const TuningKey& key, const TuningResult& result);

  int64_t count();
  /// How many results there were.
  int64_t clear();

  /// Takes over the results of another file that are new here, or faster. How many that were.
  int64_t merge(const std::filesystem::path& other);
  /// Each result as a line of JSON, in an order that depends on nothing but the results. How many there are.
  int64_t write_json(std::ostream& out);
  /// Takes over such lines as merge does; nothing of them if one is wrong: the Error tells its number.
  int64_t read_json(std::istream& in);

 private:
  struct Connection;
  int64_t take_over(const std::vector<std::pair<TuningKey, TuningResult>>& rows);

  std::filesystem::path file_;
  std::mutex mutex_;
  std::unique_ptr<Connection> connection_;
};

/// The file that the settings name: QUERN_TUNED, else quern/tuned.db in XDG_CACHE_HOME or ~/.cache; empty: none.
std::filesystem::path tuning_file(const Settings& settings);

}  // namespace quern
