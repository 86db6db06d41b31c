#include "runtime/cache.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sqlite.h"

namespace quern {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

constexpr int64_t kPlenty = int64_t{1} << 30;

class Cache : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "quern_cache_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    file = folder / "below" / "cache.db";
    set_log_sink([this](std::string_view m) { messages.emplace_back(m); });
  }
  void TearDown() override {
    set_log_sink({});
    fs::remove_all(folder);
  }
  fs::path folder, file;
  std::vector<std::string> messages;
};

/// Content that is told by its number, and long enough for several pages.
std::string binary_of(int n, size_t size = 10000) {
  std::string text;
  while (text.size() < size) text += "binary " + std::to_string(n) + std::string(1, '\0');
  text.resize(size);
  return text;
}

bool put(BinaryCache& c, int n, size_t size = 10000) {
  c.store({"source " + std::to_string(n), "cc 1", "-O2"}, binary_of(n, size));
  return true;
}
std::optional<std::string> get(BinaryCache& c, int n) {
  std::string source = "source " + std::to_string(n);
  return c.find({source, "cc 1", "-O2"});
}

/// Runs in a process of its own, which ends as a crash would: nothing is tidied up.
pid_t in_child(const std::function<bool()>& work) {
  pid_t child = fork();
  if (child == 0) _exit(work() ? 0 : 1);
  return child;
}
int status_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST_F(Cache, gives_back_what_was_stored_also_to_the_next_process) {
  {
    BinaryCache c(file, kPlenty);
    EXPECT_EQ(get(c, 1), std::nullopt);
    put(c, 1);
    EXPECT_EQ(get(c, 1), binary_of(1));
    c.store({"empty", "", ""}, "");
    EXPECT_EQ(c.find({"empty", "", ""}), "");
  }
  BinaryCache again(file, kPlenty);
  EXPECT_EQ(get(again, 1), binary_of(1));
  CacheStats s = again.stats();
  EXPECT_EQ(s.entries, 2);
  EXPECT_EQ(s.bytes, 10000);
  EXPECT_EQ(s.hits, 3);
  EXPECT_EQ(s.misses, 1);
  EXPECT_THAT(messages, IsEmpty());
}

TEST_F(Cache, makes_no_file_before_it_is_used) {
  BinaryCache c(file, kPlenty);
  EXPECT_EQ(c.stats().entries, 0);
  EXPECT_EQ(c.clear().entries, 0);
  EXPECT_FALSE(fs::exists(file));
}

TEST_F(Cache, tells_every_part_of_a_key_from_the_others) {
  BinaryCache c(file, kPlenty);
  const std::vector<CacheKey> keys = {{"source", "cc 1", "-O2"}, {"source2", "cc 1", "-O2"}, {"source", "cc 2", "-O2"},
                                      {"source", "cc 1", "-O3"}, {"sourcec", "c 1", "-O2"},  {"source", "cc 1-", "O2"},
                                      {"", "sourcecc 1", "-O2"}, {"cc 1", "source", "-O2"}};
  for (size_t i = 0; i < keys.size(); ++i) c.store(keys[i], binary_of(static_cast<int>(i)));
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(c.find(keys[i]), binary_of(static_cast<int>(i))) << i;
}

TEST_F(Cache, takes_the_newer_of_two_binaries_for_one_key) {
  BinaryCache c(file, kPlenty);
  c.store({"source 1", "cc 1", "-O2"}, "old");
  put(c, 1);
  EXPECT_EQ(get(c, 1), binary_of(1));
  EXPECT_EQ(c.stats().bytes, 10000);
}

TEST_F(Cache, drops_what_was_not_used_for_longest_beyond_its_size) {
  BinaryCache c(file, 100'000);
  for (int i = 0; i < 10; ++i) put(c, i);
  EXPECT_TRUE(get(c, 0).has_value());
  EXPECT_TRUE(get(c, 3).has_value());
  for (int i = 10; i < 17; ++i) put(c, i);
  std::vector<int> left;
  for (int i = 0; i < 17; ++i)
    if (get(c, i)) left.push_back(i);
  EXPECT_EQ(left, (std::vector<int>{0, 3, 9, 10, 11, 12, 13, 14, 15, 16}));
  EXPECT_EQ(c.stats().bytes, 100'000);
  put(c, 100, 55'000);  // takes the room of several
  EXPECT_TRUE(get(c, 100).has_value());
  EXPECT_LE(c.stats().bytes, 100'000);
  int64_t before = c.stats().entries;
  put(c, 101, 100'001);  // never fits
  EXPECT_EQ(get(c, 101), std::nullopt);
  EXPECT_EQ(c.stats().entries, before);
}

TEST_F(Cache, uses_are_known_to_the_next_process) {
  {
    BinaryCache c(file, 30'000);
    put(c, 1);
    put(c, 2);
    put(c, 3);
  }
  {
    BinaryCache c(file, 30'000);
    get(c, 1);
  }
  BinaryCache c(file, 30'000);
  put(c, 4);
  EXPECT_TRUE(get(c, 1).has_value());
  EXPECT_FALSE(get(c, 2).has_value());
}

TEST_F(Cache, is_empty_after_clear) {
  BinaryCache c(file, kPlenty);
  for (int i = 0; i < 50; ++i) put(c, i);
  c.set_note("name", "text");
  EXPECT_EQ(c.clear().entries, 50);
  EXPECT_EQ(c.stats().entries, 0);
  EXPECT_EQ(c.note("name"), std::nullopt);
  EXPECT_LT(fs::file_size(file), 100'000U);
  put(c, 1);
  EXPECT_EQ(get(c, 1), binary_of(1));
}

TEST_F(Cache, keeps_notes) {
  {
    BinaryCache c(file, kPlenty);
    c.set_note("cc", "1");
    c.set_note("cc", "2");
  }
  BinaryCache c(file, kPlenty);
  EXPECT_EQ(c.note("cc"), "2");
  EXPECT_EQ(c.note("gcc"), std::nullopt);
}

TEST_F(Cache, serves_threads_at_once) {
  BinaryCache c(file, kPlenty);
  std::vector<std::jthread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        put(c, t * 50 + i);
        if (get(c, t * 50 + i / 2) != binary_of(t * 50 + i / 2)) ++wrong;
      }
    });
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(c.stats().entries, 200);
}

TEST_F(Cache, serves_processes_at_once) {
  constexpr int kProcesses = 6, kEach = 40;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p)  // all of them make the file, first of all
    children.push_back(in_child([&, p] {
      BinaryCache c(file, kPlenty);
      bool good = true;
      for (int i = 0; i < kEach; ++i) {
        put(c, p * kEach + i);
        put(c, 10'000 + i);  // all write this one
        good &= get(c, p * kEach + i) == binary_of(p * kEach + i) && get(c, 10'000 + i) == binary_of(10'000 + i);
      }
      return good && messages.empty();
    }));
  for (pid_t child : children) EXPECT_EQ(status_of(child), 0);
  BinaryCache c(file, kPlenty);
  EXPECT_EQ(c.stats().entries, kProcesses * kEach + kEach);
  EXPECT_EQ(c.stats().bytes, (kProcesses * kEach + kEach) * 10'000);
  for (int i = 0; i < kProcesses * kEach; ++i) EXPECT_EQ(get(c, i), binary_of(i)) << i;
  EXPECT_THAT(messages, IsEmpty());
}

TEST_F(Cache, is_whole_after_kills_in_the_middle_of_writes) {
  uint64_t seed = 77;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 25; ++round) {
    std::vector<pid_t> children;
    for (int p = 0; p < 2; ++p)
      children.push_back(in_child([&] {
        BinaryCache c(file, 3'000'000);
        for (int i = 0;; i = (i + 1) % 500) {
          if (auto found = get(c, i); found && *found != binary_of(i)) return false;
          put(c, i);
        }
      }));
    std::this_thread::sleep_for(std::chrono::microseconds(500 + random() % 30'000));
    for (pid_t child : children) kill(child, SIGKILL);
    for (pid_t child : children) {
      int status = status_of(child);
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
          << "a wrong binary; seed " << seed << ", round " << round;
    }
    BinaryCache c(file, 3'000'000);
    int64_t entries = 0;
    for (int i = 0; i < 500; ++i)
      if (auto found = get(c, i)) {
        EXPECT_EQ(*found, binary_of(i)) << "seed " << seed << ", round " << round;
        ++entries;
      }
    EXPECT_EQ(c.stats().entries, entries);
    EXPECT_EQ(c.stats().bytes, entries * 10'000);
    EXPECT_THAT(messages, IsEmpty());
  }
  Database d(file.string(), OpenMode::Create);
  Statement check(d, "PRAGMA integrity_check");
  ASSERT_TRUE(check.step());
  EXPECT_EQ(check.text(0), "ok");
}

TEST_F(Cache, sets_a_damaged_file_aside_and_says_so) {
  struct Damage {
    const char* name;
    std::function<void(const fs::path&)> make;
  };
  auto overwrite = [](const fs::path& f, std::streamoff at, size_t size) {
    std::fstream out(f, std::ios::binary | std::ios::in | std::ios::out);
    out.seekp(at);
    out << std::string(size, '\x5a');
  };
  for (const Damage& d : std::vector<Damage>{
           {"text", [](const fs::path& f) { std::ofstream(f) << "not a database, but a text of some length\n"; }},
           {"header", [&](const fs::path& f) { overwrite(f, 0, 100); }},
           {"pages", [&](const fs::path& f) { overwrite(f, 4096, fs::file_size(f) - 4096); }},
           {"cut", [](const fs::path& f) { fs::resize_file(f, 4096 * 3 + 17); }},
           {"other tables", [](const fs::path& f) {
              fs::remove(f);
              Database(f.string(), OpenMode::Create).run("CREATE TABLE t(x)");
            }}}) {
    fs::remove_all(folder / "below");
    {
      BinaryCache c(file, kPlenty);
      for (int i = 0; i < 20; ++i) put(c, i);
    }
    d.make(file);
    messages.clear();
    BinaryCache c(file, kPlenty);
    for (int i = 0; i < 20; ++i) EXPECT_THAT(get(c, i), AnyOf(std::nullopt, std::optional(binary_of(i)))) << d.name;
    put(c, 30);
    EXPECT_EQ(get(c, 30), binary_of(30)) << d.name;
    ASSERT_EQ(messages.size(), 1U) << d.name;
    EXPECT_THAT(messages[0], HasSubstr("set aside as " + file.string() + ".corrupt")) << d.name;
    EXPECT_TRUE(fs::exists(file.string() + ".corrupt")) << d.name;
  }
}

TEST_F(Cache, takes_a_flipped_bit_in_a_binary_for_a_miss) {
  {
    BinaryCache c(file, kPlenty);
    put(c, 1);
    put(c, 2);
  }
  Database(file.string(), OpenMode::Create)
      .run("UPDATE entries SET binary = CAST('x' || substr(binary, 2) AS BLOB) WHERE rowid = 1");
  BinaryCache c(file, kPlenty);
  EXPECT_EQ(get(c, 1), std::nullopt);
  EXPECT_EQ(get(c, 2), binary_of(2));
  EXPECT_THAT(messages, ::testing::ElementsAre(HasSubstr("is damaged: dropped")));
  put(c, 1);
  EXPECT_EQ(get(c, 1), binary_of(1));
}

TEST_F(Cache, goes_on_without_a_file_where_it_cannot_be_made) {
  std::ofstream(folder / "file") << "x";
  BinaryCache c(folder / "file" / "cache.db", kPlenty);
  put(c, 1);
  EXPECT_EQ(get(c, 1), std::nullopt);
  EXPECT_THAT(messages, ::testing::ElementsAre(HasSubstr("going on without the cache")));
}

TEST_F(Cache, stands_where_the_settings_say) {
  auto file_of = [](const std::vector<std::pair<const char*, const char*>>& values) {
    Settings s;
    for (auto [name, value] : values) s.set(name, value);
    std::shared_ptr<BinaryCache> c = open_cache(s);
    return c ? c->file().string() : "none";
  };
  EXPECT_EQ(file_of({}), "none");
  EXPECT_EQ(file_of({{"HOME", "/a"}}), "/a/.cache/quern/cache.db");
  EXPECT_EQ(file_of({{"HOME", "/a"}, {"XDG_CACHE_HOME", "/x"}}), "/x/quern/cache.db");
  EXPECT_EQ(file_of({{"HOME", "/a"}, {"XDG_CACHE_HOME", "relative"}}), "/a/.cache/quern/cache.db");
  EXPECT_EQ(file_of({{"HOME", "/a"}, {"QUERN_CACHE", "off"}}), "none");
  EXPECT_EQ(file_of({{"QUERN_CACHE", "/y/z.db"}}), "/y/z.db");
}

}  // namespace
}  // namespace quern
