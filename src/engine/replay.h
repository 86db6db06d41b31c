#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings.h"
#include "optimize/kernel.h"

namespace quern {

/// What was asked for, as text that outlives the build it was asked of.
struct ReplayRequest {
  std::string kernel;  ///< in the reference notation
  std::string target;
  std::string opts;      ///< as OptimizeOptions::opts
  std::string settings;  ///< those that change what is generated: "TC=1 TC_OPT=0"
};

/// What was made of it. All texts end with a newline, or are empty.
struct ReplayResult {
  enum class Kind : int64_t { Source = 0, Linear = 1, Error = 2 } kind = Kind::Source;
  std::string name;     ///< of the function
  std::string applied;  ///< opts
  std::string text;     ///< source; the linear program where the target has no source; or the error's message
  bool operator==(const ReplayResult&) const = default;
};

struct ReplayRow {
  int64_t id = 0;
  ReplayRequest request;
  ReplayResult result;
};

std::string replay_settings(const OptimizeOptions& options);
/// Never throws for what is wrong with the kernel: that is the result. With `applied`, these opts are taken instead of those asked
/// for; a linear program is given in place of the source if `want` is Linear.
ReplayResult regenerate(const ReplayRequest& request, ReplayResult::Kind want = ReplayResult::Kind::Source,
                        const std::string* applied = nullptr);

/// Stores kernels and what this build makes of them in an SQLite file. Thread-safe. A request met again takes the place of the old one.
class ReplayRecorder {
 public:
  /// Throws Error where the file can't be made or is something else.
  explicit ReplayRecorder(const std::string& path);
  ~ReplayRecorder();
  ReplayRecorder(const ReplayRecorder&) = delete;
  ReplayRecorder& operator=(const ReplayRecorder&) = delete;

  void add(std::string_view kernel, const Target& target, const OptimizeOptions& options);
  /// Writes what is still in memory; to be called at the end.
  void flush();

 private:
  struct File;
  void write();
  std::unique_ptr<File> file_;
  std::mutex mutex_;
  std::vector<ReplayRow> waiting_;
};

/// Reads a recorder's file from its start, some rows at a time.
class ReplayReader {
 public:
  explicit ReplayReader(const std::string& path);
  ~ReplayReader();
  ReplayReader(const ReplayReader&) = delete;
  ReplayReader& operator=(const ReplayReader&) = delete;
  int64_t count() const;
  std::vector<ReplayRow> next(size_t at_most);

 private:
  struct File;
  std::unique_ptr<File> file_;
};

enum class ReplayVerdict : uint8_t { Same, Changed, Failed };
struct ReplayComparison {
  ReplayVerdict verdict = ReplayVerdict::Same;
  std::string diff;  ///< unified; of a failure what the error is
};
/// Regenerates a row with this build. Failed: there was a program, and now there is an error. With `keep_opts` the opts that were
/// applied then are applied again, so that only lowering and rendering are compared, not decisions.
ReplayComparison compare_replay(const ReplayRow& row, bool keep_opts);

}  // namespace quern
