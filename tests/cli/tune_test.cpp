#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/command.h"

namespace quern::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class TuneCommand : public Scratch {
 protected:
  std::string settings() { return "QUERN_TUNED=" + file("tuned.db"); }
  /// A search that is short on any machine.
  Result tune(const std::string& more = "", const std::string& name = "symbolic_sum") {
    return quern("tune " + kernel(name) + " --beam 1 --candidates 6 " + more, settings());
  }
  static std::string line(const Result& r, const std::string& name) {
    const std::string all = "\n" + r.out;
    const size_t at = all.find("\n" + name);
    if (at == std::string::npos) return "nothing in: " + r.out;
    const std::string found = all.substr(at + 1, all.find('\n', at + 1) - at - 1);
    return found.substr(found.find_first_not_of(' ', name.size()));
  }
};

TEST_F(TuneCommand, searches_once_and_knows_it_then) {
  Result first = tune();
  EXPECT_EQ(first.status, 0) << first.out;
  EXPECT_THAT(first.out, HasSubstr("tried "));
  Result second = tune();
  EXPECT_THAT(line(second, "known"), StartsWith("from "));
  EXPECT_EQ(line(second, "opts"), line(first, "opts"));
  EXPECT_THAT(tune("--again").out, HasSubstr("tried "));
  // Another budget, another search: what little time found is not what more would.
  EXPECT_THAT(quern("tune " + kernel("symbolic_sum") + " --beam 1 --candidates 7", settings()).out,
              HasSubstr("tried "));
  EXPECT_THAT(
      quern("tune " + kernel("symbolic_sum") + " --beam 1 --candidates 6", settings() + " IGNORE_BEAM_CACHE=1").out,
      HasSubstr("tried "));
}

TEST_F(TuneCommand, finds_what_compile_and_run_take_then) {
  const std::string opts = "UPCAST(0,4) UPCAST(1,2)";
  ASSERT_EQ(tune("", "matmul").status, 0);
  // Instead of what this machine found, something that no heuristic would take.
  std::string json = quern("db export -", settings()).out;
  const size_t at = json.find("\"opts\":\"") + 8;
  json.replace(at, json.find('"', at) - at, opts);
  const size_t time = json.find("\"seconds\":") + 10;
  json.replace(time, json.find(',', time) - time, "1e-9");
  EXPECT_EQ(quern("db import " + file("new.jsonl", json), settings()).out,
            file("new.jsonl") + ": 1 results are new or faster\n");
  EXPECT_THAT(quern("compile " + kernel("matmul"), settings()).out, HasSubstr("; opts: " + opts));
  EXPECT_THAT(quern("run " + kernel("matmul") + " --check", settings() + " DEBUG=1").out,
              ::testing::AllOf(HasSubstr(opts), HasSubstr("agrees with the plain kernel")));
  EXPECT_THAT(quern("compile " + kernel("matmul") + " --opts heuristic", settings()).out, Not(HasSubstr(opts)));
  EXPECT_THAT(quern("compile " + kernel("matmul") + " --target clang", settings()).out, Not(HasSubstr(opts)));
  EXPECT_THAT(quern("compile " + kernel("matmul"), "QUERN_TUNED=off").out, Not(HasSubstr(opts)));
  EXPECT_THAT(quern("compile " + kernel("matmul"), settings() + " NOOPT=1").out, Not(HasSubstr(opts)));
}

TEST_F(TuneCommand, is_what_run_does_where_beam_is_set) {
  EXPECT_EQ(quern("run " + kernel("symbolic_sum") + " --check", settings() + " BEAM=1").status, 0);
  EXPECT_EQ(line(quern("db", settings()), "results"), "1");
}

TEST_F(TuneCommand, gives_the_best_so_far_on_an_interrupt) {
  Result r = run(
      "timeout --foreground -s INT 2 " QUERN_COMMAND " tune " + kernel("convolution") + " --beam 1000 --device CLANG",
      settings() + " BEAM_MIN_PROGRESS=0 BEAM_UOPS_MAX=0");
  if (r.out.find("is not here") != std::string::npos) GTEST_SKIP() << r.out;
  // Status 124: timeout sent the signal; the command itself ended with what it had.
  if (r.status != 124) GTEST_SKIP() << "the search was over before the interrupt";
  EXPECT_THAT(r.out, HasSubstr("ended before the search was complete"));
}

TEST_F(TuneCommand, merges_shows_and_clears_what_is_kept) {
  EXPECT_EQ(line(quern("db", settings()), "results"), "0");
  EXPECT_FALSE(std::filesystem::exists(file("tuned.db"))) << "made by a mere look";
  tune();
  const std::string other = "QUERN_TUNED=" + file("other.db");
  EXPECT_EQ(quern("db merge " + file("tuned.db"), other).out, file("tuned.db") + ": 1 results are new or faster\n");
  EXPECT_EQ(quern("db export " + file("all.jsonl"), other).out, file("all.jsonl") + ": 1 results\n");
  EXPECT_THAT(quern("db clear", other).out, HasSubstr("other.db: 1 results"));
  EXPECT_EQ(line(quern("db", other), "results"), "0");
}

TEST_F(TuneCommand, refuses_what_is_wrong) {
  struct Case {
    std::string arguments, message;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"tune " + kernel("matmul") + " --budget soon", "--budget"},
           {"tune " + kernel("matmul") + " --budget -3", "--budget"},
           {"tune " + kernel("matmul") + " --beam 0", "--beam: takes a whole number from 1 up, not 0"},
           {"tune " + kernel("matmul") + " --device NONE", "no device is called 'NONE'"},
           {"tune " + kernel("matmul") + " --target metal", "device CPU cannot run programs for metal"},
           {"db merge " + file("none.db"), "none.db: no such file"},
           {"db import " + file("none.jsonl"), "cannot open " + file("none.jsonl")},
           {"db import " + file("bad.jsonl", "{\n"), "bad.jsonl: line 1 is no tuning result"},
           {"db export /none/file", "cannot write /none/file"},
       }) {
    Result r = quern(c.arguments, settings());
    EXPECT_EQ(r.status, 2) << c.arguments;
    EXPECT_THAT(r.out, HasSubstr(c.message));
  }
  EXPECT_EQ(quern("db", "QUERN_TUNED=off").status, 2);
  Result r = quern("run " + kernel("symbolic_sum"),
                   "QUERN_TUNED=" + file("poem.db", "a poem, not a database at all, is it\n"));
  EXPECT_EQ(r.status, 0) << r.out;
  EXPECT_THAT(r.out, HasSubstr("going on without what searches found before"));
}

}  // namespace
}  // namespace quern::test
