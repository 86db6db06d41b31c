#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/settings.h"

namespace quern {

/// All that a compiled program depends on.
struct CacheKey {
  std::string_view source;
  std::string_view compiler;  ///< name and version
  std::string_view flags;     ///< with what they stand for here: -march=native is a different flag on another processor
};

struct CacheStats {
  int64_t entries = 0;
  int64_t bytes = 0;  ///< of the binaries
  int64_t hits = 0;   ///< since it was made or cleared
  int64_t misses = 0;
};

/// Compiled programs, kept between processes in an SQLite file. Any number of threads and processes may use it at once and be
/// killed at any moment. It only ever saves time: what goes wrong with it is told to the log, and counts as not found. A file that
/// is damaged is renamed to *.corrupt, and a new one takes its place.
class BinaryCache {
 public:
  /// Nothing is opened or made before it is needed. Beyond `max_bytes` of binaries those go that were not used for longest.
  BinaryCache(std::filesystem::path file, int64_t max_bytes);
  ~BinaryCache();
  BinaryCache(const BinaryCache&) = delete;
  BinaryCache& operator=(const BinaryCache&) = delete;

  const std::filesystem::path& file() const { return file_; }
  int64_t max_bytes() const { return max_bytes_; }

  std::optional<std::string> find(const CacheKey& key);
  void store(const CacheKey& key, std::string_view binary);

  /// A short text under a name, such as which version a compiler has: not counted, never thrown out, cleared with the rest.
  std::optional<std::string> note(const std::string& name);
  void set_note(const std::string& name, const std::string& text);

  /// Does not make the file where there is none.
  CacheStats stats();
  /// What it held until now.
  CacheStats clear();

 private:
  struct Connection;
  template <class Function>
  auto guarded(Function&& function);
  Connection& connection();
  void set_aside(const std::string& why);
  void give_up(const std::string& why);

  std::filesystem::path file_;
  int64_t max_bytes_;
  std::mutex mutex_;
  std::unique_ptr<Connection> connection_;
  std::pair<uint64_t, uint64_t> identity_;  ///< of the file that was opened
  bool gave_up_ = false;
};

/// The cache that the settings name: QUERN_CACHE (a file, or off), else quern/cache.db in XDG_CACHE_HOME or ~/.cache. Null where it
/// is off or no folder is known.
std::shared_ptr<BinaryCache> open_cache(const Settings& settings);

}  // namespace quern
