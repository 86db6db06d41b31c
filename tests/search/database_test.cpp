#include "search/database.h"

#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "quern/error.h"

#include "base/sqlite.h"

namespace quern {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

TuningKey key(int kernel, const std::string& search = "BEAM=4", const std::string& options = "TC=1") {
  return {"kernel " + std::to_string(kernel), "llvm", "a processor", options, search};
}
TuningResult result(const std::string& opts, double seconds) { return {opts, seconds, 12, true}; }

struct Tuning : testing::Test {
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "quern_tuned_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    file = folder / "below" / "tuned.db";
  }
  void TearDown() override { fs::remove_all(folder); }
  static std::string opts_of(TuningDatabase& db, const TuningKey& k) {
    auto found = db.find(k);
    return found ? found->opts : "nothing";
  }
  static std::string best_of(TuningDatabase& db, const TuningKey& k) {
    auto found = db.best(k);
    return found ? found->opts : "nothing";
  }
  template <class Function>
  static std::string refusal(Function&& function) {
    try {
      function();
      return "accepted";
    } catch (const Error& e) {
      return e.what();
    }
  }
  fs::path folder, file;
};

TEST_F(Tuning, keeps_results_for_another_process) {
  {
    TuningDatabase db(file);
    EXPECT_EQ(opts_of(db, key(1)), "nothing");
    db.store(key(1), result("UPCAST(0,4)", 0.125));
    db.store(key(1), result("UPCAST(0,2)", 0.25));  // what is found later counts
  }
  TuningDatabase db(file);
  const auto found = db.find(key(1));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->opts, "UPCAST(0,2)");
  EXPECT_EQ(found->seconds, 0.25);
  EXPECT_EQ(found->tried, 12);
  EXPECT_TRUE(found->complete);
  EXPECT_EQ(db.count(), 1);
  EXPECT_EQ(db.clear(), 1);
  EXPECT_EQ(opts_of(db, key(1)), "nothing");
}

TEST_F(Tuning, tells_keys_apart_by_each_of_their_parts) {
  TuningDatabase db(file);
  const TuningKey base = key(1);
  db.store(base, result("none", 1));
  for (std::string TuningKey::* part :
       {&TuningKey::kernel, &TuningKey::target, &TuningKey::identity, &TuningKey::options, &TuningKey::search}) {
    TuningKey other = base;
    other.*part += "!";
    EXPECT_EQ(opts_of(db, other), "nothing");
  }
}

TEST_F(Tuning, gives_the_fastest_of_all_searches) {
  TuningDatabase db(file);
  EXPECT_FALSE(db.has("kernel 1", "llvm"));
  db.store(key(1, "BEAM=1"), result("UPCAST(0,2)", 3));
  db.store(key(1, "BEAM=4"), result("UPCAST(0,4)", 1));
  db.store(key(1, "BEAM=8"), result("UPCAST(0,8)", 2));
  db.store(key(1, "BEAM=4", "TC=1 ALLOW_TF32=1"), result("TC(0,0)", 0.5));  // not to be had without
  EXPECT_EQ(best_of(db, key(1, "BEAM=99")), "UPCAST(0,4)");
  EXPECT_EQ(best_of(db, key(1, "", "TC=1 ALLOW_TF32=1")), "TC(0,0)");
  EXPECT_EQ(best_of(db, key(1, "", "TC=0")), "nothing");
  TuningKey elsewhere = key(1);
  elsewhere.identity = "another processor";
  EXPECT_EQ(best_of(db, elsewhere), "nothing");
  EXPECT_TRUE(db.has("kernel 1", "llvm"));
  EXPECT_FALSE(db.has("kernel 1", "clang"));
}

TEST_F(Tuning, merges_what_is_new_or_faster) {
  TuningDatabase db(file), other(folder / "other.db");
  db.store(key(1), result("UPCAST(0,1)", 1));
  db.store(key(2), result("UPCAST(0,2)", 2));
  other.store(key(1), result("UNROLL(0,1)", 2));  // slower
  other.store(key(2), result("UNROLL(0,2)", 1));  // faster
  other.store(key(3), result("UNROLL(0,3)", 9));  // new
  EXPECT_EQ(db.merge(other.file()), 2);
  EXPECT_EQ(opts_of(db, key(1)), "UPCAST(0,1)");
  EXPECT_EQ(opts_of(db, key(2)), "UNROLL(0,2)");
  EXPECT_EQ(opts_of(db, key(3)), "UNROLL(0,3)");
  EXPECT_EQ(db.merge(other.file()), 0);
  EXPECT_EQ(refusal([&] { db.merge(folder / "none.db"); }),
            "cannot open " + (folder / "none.db").string() + ": no such file");
}

TEST_F(Tuning, goes_through_json_and_comes_back_the_same) {
  TuningDatabase db(file), copy(folder / "copy.db"), other_order(folder / "other.db");
  for (int i = 0; i < 5; ++i) db.store(key(i), result("UPCAST(0,4) LOCAL(1,8)", 1.0 / (i + 3)));
  for (int i = 5; i-- > 0;) other_order.store(key(i), result("UPCAST(0,4) LOCAL(1,8)", 1.0 / (i + 3)));
  std::stringstream text, again, third;
  EXPECT_EQ(db.write_json(text), 5);
  EXPECT_EQ(copy.read_json(text), 5);
  copy.write_json(again);
  other_order.write_json(third);
  EXPECT_EQ(again.str(), text.str());
  EXPECT_EQ(third.str(), text.str());
}

TEST_F(Tuning, takes_over_no_line_of_json_if_one_is_wrong) {
  TuningDatabase db(file);
  db.store(key(1), result("none", 1));
  std::stringstream good;
  db.write_json(good);
  db.clear();
  auto reading = [&](const std::string& text) {
    return refusal([&] {
      std::istringstream in(good.str() + text);
      db.read_json(in);
    });
  };
  EXPECT_THAT(reading("{\"kernel\":"), HasSubstr("line 2 is no tuning result: "));
  const std::string version = "\"version\":" + std::to_string(kOptsVersion);
  EXPECT_THAT(reading("\n{" + version + ", \"kernel\": 3}\n"), HasSubstr("line 3 is no tuning result: "));
  std::string poem = good.str();
  poem.replace(poem.find("\"none\""), 6, "\"a poem\"");
  EXPECT_THAT(reading(poem), HasSubstr("line 2 is no tuning result: "));
  EXPECT_EQ(db.count(), 0);
  std::string later = good.str();
  later.replace(later.find(version), version.size(), "\"version\":99");
  std::istringstream in(later);
  EXPECT_EQ(db.read_json(in), 0);
}

TEST_F(Tuning, refuses_files_that_are_something_else) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << "a poem, long enough to be no empty file: " << std::string(200, 'x');
  EXPECT_THAT(refusal([&] { TuningDatabase db(file); }), HasSubstr("file is not a database"));
  const fs::path other = folder / "other.db";
  Database(other.string(), OpenMode::Create).run("CREATE TABLE poems(text); PRAGMA user_version = 1");
  EXPECT_EQ(refusal([&] { TuningDatabase db(other); }), other.string() + " holds no tuning results of version 1");
}

TEST_F(Tuning, takes_writers_of_several_threads_and_processes) {
  constexpr int kWriters = 4, kEach = 20;
  auto write = [&](int writer) {
    TuningDatabase db(file);
    for (int i = 0; i < kEach; ++i) db.store(key(writer * kEach + i), result("none", 1));
  };
  std::vector<pid_t> children;
  for (int p = 0; p < kWriters; ++p) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        write(p);
      } catch (const Error&) {
        _exit(1);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  TuningDatabase db(file);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kWriters; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) db.store(key(1000 + t * kEach + i), result("none", 1));
      });
  }
  EXPECT_EQ(db.count(), 2 * kWriters * kEach);
}

}  // namespace
}  // namespace quern
