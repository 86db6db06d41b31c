#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "quern/error.h"

struct sqlite3;
struct sqlite3_stmt;

namespace quern {

/// What SQLite answered; it names the file.
class DatabaseError : public Error {
 public:
  DatabaseError(const std::string& message, int code) : Error(message), code_(code) {}
  /// The file is not a database, or a damaged one.
  bool is_corrupt() const;
  /// Another process held it longer than we waited.
  bool is_busy() const;

 private:
  int code_;
};

enum class OpenMode : uint8_t { Read, Create };

/// An SQLite database: a file that several processes may use at once, which is whole whenever one of them is killed. To be used
/// by one thread at a time, and not across a fork.
class Database {
 public:
  /// Waits up to `busy_ms` for other processes, here and in every statement. Throws DatabaseError, as all of its functions do.
  Database(std::string path, OpenMode mode, int busy_ms = 5000);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  const std::string& path() const { return path_; }
  /// Writes go to a log beside the file, so that readers and a writer do not wait for each other; a power failure may lose the
  /// last of them, but not the file.
  void use_write_ahead_log();
  /// Runs statements that give no rows (or whose rows do not matter).
  void run(const char* sql);
  int64_t number(const char* sql);  ///< first column of the first row, 0 if there is none
  /// Rows that the last insert, update or delete touched.
  int64_t changes() const;

 private:
  friend class Statement;
  [[noreturn]] void fail(int code) const;

  std::string path_;
  int busy_ms_;
  sqlite3* handle_ = nullptr;
};

/// A value that is bytes, not text.
struct Blob {
  std::string_view bytes;
};

/// A statement that is run any number of times: bind its ?s from left to right, step through its rows, reset. The database must
/// outlive it.
class Statement {
 public:
  Statement(Database& database, std::string_view sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  /// The values must live until the statement ends or is reset.
  template <class... Values>
  Statement& bind(const Values&... values) {
    reset();
    int position = 0;
    (bind_at(++position, values), ...);
    return *this;
  }
  bool step();  ///< true: there is a row
  void run() {
    step();
    reset();
  }
  void reset();

  int64_t number(int column) const;
  double real(int column) const;
  std::string text(int column) const;  ///< bytes as they are, of text and blobs

 private:
  void bind_at(int position, int64_t value);
  void bind_at(int position, double value);
  void bind_at(int position, const std::string& value);
  void bind_at(int position, const Blob& value);

  Database& database_;
  sqlite3_stmt* handle_ = nullptr;
};

/// Everything that is run while it lives happens at once, at commit(), or not at all. It takes the write lock at once.
class Transaction {
 public:
  explicit Transaction(Database& database) : database_(database) { database.run("BEGIN IMMEDIATE"); }
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

}  // namespace quern
