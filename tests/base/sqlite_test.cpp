#include "base/sqlite.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace quern {
namespace {

namespace fs = std::filesystem;

TEST(Sqlite, several_processes_turn_a_new_files_log_on_at_once) {
  constexpr int kFiles = 20, kProcesses = 4;
  std::string folder = (fs::temp_directory_path() / "quern_sqlite_XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  for (int f = 0; f < kFiles; ++f) {
    const std::string file = folder + "/" + std::to_string(f) + ".db";
    int gate[2];
    ASSERT_EQ(pipe(gate), 0);
    std::vector<pid_t> children;
    for (int p = 0; p < kProcesses; ++p) {
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        close(gate[1]);
        char byte;
        if (read(gate[0], &byte, 1) != 0) _exit(2);  // the end of the file: all may start
        try {
          Database database(file, OpenMode::Create);
          database.use_write_ahead_log();
          Transaction t(database);
          database.run("CREATE TABLE IF NOT EXISTS poems(text); INSERT INTO poems VALUES('a')");
          t.commit();
        } catch (const DatabaseError& e) {
          std::string message = std::string(e.what()) + "\n";
          _exit(write(STDERR_FILENO, message.data(), message.size()) < 0 ? 3 : 1);
        }
        _exit(0);
      }
      children.push_back(child);
    }
    close(gate[0]);
    close(gate[1]);
    for (pid_t child : children) {
      int status = -1;
      waitpid(child, &status, 0);
      EXPECT_EQ(status, 0);
    }
    Database database(file, OpenMode::Read);
    EXPECT_EQ(database.number("SELECT count(*) FROM poems"), kProcesses);
  }
  fs::remove_all(folder);
}

TEST(Sqlite, a_file_that_stays_locked_is_busy_after_the_time_to_wait) {
  std::string folder = (fs::temp_directory_path() / "quern_sqlite_XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  Database holder(folder + "/one.db", OpenMode::Create);
  Transaction t(holder);
  holder.run("CREATE TABLE poems(text)");
  Database other(folder + "/one.db", OpenMode::Create, 20);
  try {
    other.use_write_ahead_log();
    ADD_FAILURE() << "the lock was not seen";
  } catch (const DatabaseError& e) {
    EXPECT_TRUE(e.is_busy()) << e.what();
  }
  t.commit();
  EXPECT_NO_THROW(other.use_write_ahead_log());
  fs::remove_all(folder);
}

}  // namespace
}  // namespace quern
