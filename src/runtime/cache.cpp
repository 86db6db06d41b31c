#include "runtime/cache.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/digest.h"
#include "base/kept_file.h"
#include "base/log.h"
#include "base/sqlite.h"

namespace quern {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kVersion = 1;  // of the tables below; other files are set aside
constexpr int kBusyMs = 5000;
constexpr size_t kMaxTouched = 256;

// `totals` follows by itself, so that a look at it never has to read the table. `used` counts uses, not seconds.
constexpr const char* kSchema = R"(
  CREATE TABLE entries(key BLOB NOT NULL UNIQUE, binary BLOB NOT NULL, check_sum INTEGER NOT NULL, used INTEGER NOT NULL);
  CREATE INDEX by_use ON entries(used);
  CREATE TABLE notes(name TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE totals(entries INTEGER NOT NULL, bytes INTEGER NOT NULL, hits INTEGER NOT NULL, misses INTEGER NOT NULL, uses INTEGER NOT NULL);
  INSERT INTO totals VALUES(0, 0, 0, 0, 0);
  CREATE TRIGGER entry_added AFTER INSERT ON entries BEGIN
    UPDATE totals SET entries = entries + 1, bytes = bytes + length(NEW.binary);
  END;
  CREATE TRIGGER entry_removed AFTER DELETE ON entries BEGIN
    UPDATE totals SET entries = entries - 1, bytes = bytes - length(OLD.binary);
  END;
  PRAGMA user_version = 1;
)";

/// A file with other tables than ours: another version's, or not a cache at all.
class WrongTables : public Error {
 public:
  using Error::Error;
};

/// Parts are told apart by their lengths, so that no two keys run together to the same bytes.
std::string hash_of(const CacheKey& key) {
  std::string whole;
  for (std::string_view part : {key.source, key.compiler, key.flags}) {
    uint64_t length = part.size();
    whole.append(reinterpret_cast<const char*>(&length), sizeof length);
    whole += part;
  }
  return digest(whole);
}

int64_t sum_of(std::string_view bytes) { return static_cast<int64_t>(XXH3_64bits(bytes.data(), bytes.size())); }

/// The right to open the file or to put another in its place; nobody else has it meanwhile. It ends with the process at the latest.
class FileLock {
 public:
  explicit FileLock(const fs::path& path) : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (file_ < 0) throw Error(path.string() + ": " + std::strerror(errno));
    auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kBusyMs);
    while (flock(file_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) close_and_throw(path.string() + ": " + std::strerror(errno));
      if (std::chrono::steady_clock::now() > end) close_and_throw(path.string() + " is held by another process");
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  ~FileLock() { ::close(file_); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  [[noreturn]] void close_and_throw(const std::string& message) {
    ::close(file_);
    throw Error(message);
  }
  int file_;
};

fs::path beside(const fs::path& file, const char* ending) { return file.string() + ending; }

/// Which file a name stands for, whatever it is renamed to.
std::pair<uint64_t, uint64_t> identity_of(const fs::path& file) {
  struct stat s{};
  return stat(file.c_str(), &s) == 0 ? std::pair<uint64_t, uint64_t>(s.st_dev, s.st_ino)
                                     : std::pair<uint64_t, uint64_t>();
}

}  // namespace

/// The open file. Uses and misses are counted here and written now and then.
struct BinaryCache::Connection {
  /// The tables are there before the statements that need them are prepared.
  struct Tables {
    explicit Tables(const fs::path& path) : database(path.string(), OpenMode::Create, kBusyMs) {
      database.use_write_ahead_log();
      database.run("PRAGMA cell_size_check = ON");
      if (database.number("SELECT count(*) FROM sqlite_schema") == 0) {
        Transaction t(database);
        database.run(kSchema);
        t.commit();
      }
      if (int64_t version = database.number("PRAGMA user_version"); version != kVersion)
        throw WrongTables("it has tables of version " + std::to_string(version) + ", not " + std::to_string(kVersion));
    }
    Database database;
  };

  explicit Connection(const fs::path& path) : tables(path) {}

  void note_use(const std::string& key) {
    ++hits;
    touched.insert(key);
    if (touched.size() >= kMaxTouched) flush();
  }
  void flush() {
    if (hits == 0 && misses == 0) return;
    Transaction t(tables.database);
    write_uses();
    t.commit();
  }
  void write_uses() {
    for (const std::string& key : touched) touch.bind(Blob{key}).run();
    count.bind(hits, misses).run();
    touched.clear();
    hits = misses = 0;
  }

  CacheStats stats() {
    sums.reset();
    if (!sums.step()) return {};
    CacheStats s{sums.number(0), sums.number(1), sums.number(2) + hits, sums.number(3) + misses};
    sums.reset();
    return s;
  }

  /// Drops what was not used for longest, until at most `bytes` are left.
  void shrink_to(int64_t bytes) {
    int64_t excess = stats().bytes - bytes;
    std::vector<int64_t> rows;
    for (oldest.reset(); excess > 0 && oldest.step(); excess -= oldest.number(1)) rows.push_back(oldest.number(0));
    oldest.reset();
    for (int64_t row : rows) drop_row.bind(row).run();
  }

  Tables tables;
  Statement get{tables.database, "SELECT binary, check_sum FROM entries WHERE key = ?"};
  Statement drop{tables.database, "DELETE FROM entries WHERE key = ?"};
  Statement put{tables.database, "INSERT INTO entries VALUES(?, ?, ?, (SELECT uses + 1 FROM totals))"};
  Statement touch{tables.database, "UPDATE entries SET used = (SELECT uses + 1 FROM totals) WHERE key = ?"};
  Statement count{tables.database, "UPDATE totals SET hits = hits + ?, misses = misses + ?, uses = uses + 1"};
  Statement sums{tables.database, "SELECT entries, bytes, hits, misses FROM totals"};
  Statement oldest{tables.database, "SELECT rowid, length(binary) FROM entries ORDER BY used"};
  Statement drop_row{tables.database, "DELETE FROM entries WHERE rowid = ?"};
  Statement get_note{tables.database, "SELECT text FROM notes WHERE name = ?"};
  Statement put_note{tables.database, "INSERT OR REPLACE INTO notes VALUES(?, ?)"};
  std::set<std::string> touched;
  int64_t hits = 0, misses = 0;
};

BinaryCache::BinaryCache(fs::path file, int64_t max_bytes) : file_(std::move(file)), max_bytes_(max_bytes) {}

BinaryCache::~BinaryCache() {
  if (!connection_) return;
  try {
    connection_->flush();
  } catch (const Error& e) {
    log_message("the cache's counts are not kept: " + std::string(e.what()));
  }
}

/// What `function` makes of the open file; an empty value where that cannot be had.
template <class Function>
auto BinaryCache::guarded(Function&& function) {
  using Result = decltype(function(connection()));
  std::lock_guard lock(mutex_);
  for (int attempt = 0; attempt < 2 && !gave_up_; ++attempt) {
    try {
      return function(connection());
    } catch (const WrongTables& e) {
      set_aside(e.what());
    } catch (const DatabaseError& e) {
      if (e.is_corrupt())
        set_aside(e.what());
      else
        give_up(e.what());
    } catch (const Error& e) {
      give_up(e.what());
    }
  }
  return Result();
}

BinaryCache::Connection& BinaryCache::connection() {
  if (connection_) return *connection_;
  std::error_code error;
  fs::create_directories(file_.parent_path(), error);
  if (error) throw Error(file_.parent_path().string() + ": " + error.message());
  FileLock lock(beside(file_, ".lock"));
  identity_ = identity_of(file_);
  connection_ = std::make_unique<Connection>(file_);
  identity_ = identity_of(file_);
  return *connection_;
}

void BinaryCache::set_aside(const std::string& why) {
  connection_.reset();
  try {
    FileLock lock(beside(file_, ".lock"));
    if (identity_of(file_) != identity_) return;  // another process did it
    fs::path aside = beside(file_, ".corrupt");
    std::error_code error;
    fs::rename(beside(file_, "-wal"), beside(aside, "-wal"), error);  // there may be none
    fs::remove(beside(file_, "-shm"), error);
    fs::rename(file_, aside, error);
    if (error) return give_up(why + "; it cannot be renamed: " + error.message());
    log_message("the cache of compiled programs is damaged (" + why + "): set aside as " + aside.string());
  } catch (const Error& e) {
    give_up(e.what());
  }
}

void BinaryCache::give_up(const std::string& why) {
  connection_.reset();
  gave_up_ = true;
  log_message("going on without the cache of compiled programs: " + why);
}

std::optional<std::string> BinaryCache::find(const CacheKey& key) {
  return guarded([&](Connection& c) -> std::optional<std::string> {
    std::string hash = hash_of(key);
    if (!c.get.bind(Blob{hash}).step()) {
      c.get.reset();
      ++c.misses;
      return std::nullopt;
    }
    std::string binary = c.get.text(0);
    int64_t sum = c.get.number(1);
    c.get.reset();
    if (sum_of(binary) != sum) {
      log_message("an entry of " + file_.string() + " is damaged: dropped");
      c.drop.bind(Blob{hash}).run();
      ++c.misses;
      return std::nullopt;
    }
    c.note_use(hash);
    return binary;
  });
}

void BinaryCache::store(const CacheKey& key, std::string_view binary) {
  auto size = static_cast<int64_t>(binary.size());
  if (size > max_bytes_) return;
  guarded([&](Connection& c) {
    std::string hash = hash_of(key);
    Transaction t(c.tables.database);
    c.write_uses();
    c.drop.bind(Blob{hash}).run();
    c.shrink_to(max_bytes_ - size);
    c.put.bind(Blob{hash}, Blob{binary}, sum_of(binary)).run();
    t.commit();
    return true;
  });
}

std::optional<std::string> BinaryCache::note(const std::string& name) {
  return guarded([&](Connection& c) -> std::optional<std::string> {
    std::optional<std::string> text;
    if (c.get_note.bind(name).step()) text = c.get_note.text(0);
    c.get_note.reset();
    return text;
  });
}

void BinaryCache::set_note(const std::string& name, const std::string& text) {
  guarded([&](Connection& c) {
    c.put_note.bind(name, text).run();
    return true;
  });
}

CacheStats BinaryCache::stats() {
  if (!fs::exists(file_)) return {};
  return guarded([](Connection& c) { return c.stats(); });
}

CacheStats BinaryCache::clear() {
  if (!fs::exists(file_)) return {};
  return guarded([](Connection& c) {
    CacheStats before = c.stats();
    Database& d = c.tables.database;
    c.touched.clear();
    c.hits = c.misses = 0;
    Transaction t(d);
    d.run("DELETE FROM entries; DELETE FROM notes; UPDATE totals SET hits = 0, misses = 0");
    t.commit();
    try {
      d.run("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)");
    } catch (const DatabaseError& e) {
      if (!e.is_busy()) throw;  // others use it: the free pages will be used again
    }
    return before;
  });
}

std::shared_ptr<BinaryCache> open_cache(const Settings& settings) {
  fs::path file = kept_file(settings, "QUERN_CACHE", "cache.db");
  if (file.empty()) return nullptr;
  return std::make_shared<BinaryCache>(file, settings.number("QUERN_CACHE_SIZE") << 20);
}

}  // namespace quern
