#include "base/sqlite.h"

#include <chrono>
#include <thread>
#include <utility>

#include <sqlite3.h>

namespace quern {

bool DatabaseError::is_corrupt() const { return (code_ & 0xff) == SQLITE_CORRUPT || (code_ & 0xff) == SQLITE_NOTADB; }
bool DatabaseError::is_busy() const { return (code_ & 0xff) == SQLITE_BUSY || (code_ & 0xff) == SQLITE_LOCKED; }

Database::Database(std::string path, OpenMode mode, int busy_ms) : path_(std::move(path)), busy_ms_(busy_ms) {
  int flags = mode == OpenMode::Create ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  int code = sqlite3_open_v2(path_.c_str(), &handle_, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  if (code != SQLITE_OK) {
    std::string message = path_ + ": " + (handle_ != nullptr ? sqlite3_errmsg(handle_) : sqlite3_errstr(code));
    sqlite3_close(handle_);
    throw DatabaseError(message, code);
  }
  sqlite3_extended_result_codes(handle_, 1);
  sqlite3_busy_timeout(handle_, busy_ms);
}

Database::~Database() { sqlite3_close(handle_); }

void Database::fail(int code) const { throw DatabaseError(path_ + ": " + sqlite3_errmsg(handle_), code); }

void Database::run(const char* sql) {
  if (int code = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr); code != SQLITE_OK) fail(code);
}

void Database::use_write_ahead_log() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kPause(1);
  // Of several processes that turn a new file's log on, one gets the lock, and SQLite tells the others at once that it is busy:
  // it does not wait for a lock that it asks for while it holds a weaker one.
  for (const auto end = Clock::now() + std::chrono::milliseconds(busy_ms_);;) {
    try {
      return run("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
    } catch (const DatabaseError& e) {
      if (!e.is_busy() || Clock::now() >= end) throw;
    }
    std::this_thread::sleep_for(kPause);
  }
}

int64_t Database::number(const char* sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.number(0) : 0;
}

int64_t Database::changes() const { return sqlite3_changes64(handle_); }

Statement::Statement(Database& database, std::string_view sql) : database_(database) {
  int code = sqlite3_prepare_v3(database.handle_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                                &handle_, nullptr);
  if (code != SQLITE_OK) database.fail(code);
}

Statement::~Statement() { sqlite3_finalize(handle_); }

void Statement::bind_at(int position, int64_t value) {
  if (int code = sqlite3_bind_int64(handle_, position, value); code != SQLITE_OK) database_.fail(code);
}

void Statement::bind_at(int position, double value) {
  if (int code = sqlite3_bind_double(handle_, position, value); code != SQLITE_OK) database_.fail(code);
}

void Statement::bind_at(int position, const std::string& value) {
  int code = sqlite3_bind_text64(handle_, position, value.data(), value.size(), SQLITE_STATIC, SQLITE_UTF8);
  if (code != SQLITE_OK) database_.fail(code);
}

void Statement::bind_at(int position, const Blob& value) {
  // A null pointer would bind NULL, not an empty blob.
  const char* bytes = value.bytes.empty() ? "" : value.bytes.data();
  if (int code = sqlite3_bind_blob64(handle_, position, bytes, value.bytes.size(), SQLITE_STATIC); code != SQLITE_OK)
    database_.fail(code);
}

bool Statement::step() {
  int code = sqlite3_step(handle_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  std::string message = database_.path_ + ": " + sqlite3_errmsg(database_.handle_);
  sqlite3_reset(handle_);
  throw DatabaseError(message, code);
}

void Statement::reset() { sqlite3_reset(handle_); }

int64_t Statement::number(int column) const { return sqlite3_column_int64(handle_, column); }
double Statement::real(int column) const { return sqlite3_column_double(handle_, column); }

std::string Statement::text(int column) const {
  const void* bytes = sqlite3_column_blob(handle_, column);
  auto size = static_cast<size_t>(sqlite3_column_bytes(handle_, column));
  return bytes == nullptr ? std::string() : std::string(static_cast<const char*>(bytes), size);
}

Transaction::~Transaction() {
  if (!open_) return;
  try {
    database_.run("ROLLBACK");
  } catch (const DatabaseError&) {
    open_ = false;  // SQLite rolled it back already
  }
}

void Transaction::commit() {
  database_.run("COMMIT");
  open_ = false;
}

}  // namespace quern
