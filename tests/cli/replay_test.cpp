#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/sqlite.h"
#include "cli/command.h"

namespace quern::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Replay : public Scratch {
 protected:
  std::string db() { return file("replay.db"); }
  int64_t number(const char* sql) { return Database(db(), OpenMode::Read).number(sql); }
  Result compare(const std::string& options = "") { return quern("replay compare " + db() + " " + options); }
};

TEST_F(Replay, of_the_same_build_changes_nothing) {
  std::ifstream in(kernel("matmul"));
  std::string text(std::istreambuf_iterator<char>(in), {});
  std::string corpus = file("corpus.jsonl", nlohmann::json{{"h", "matmul"}, {"ast", text}}.dump() + "\n");
  Result r = quern("replay record " + db() + " -- quern corpus " + corpus + " --target clang,llvm,cuda:sm_80");
  EXPECT_EQ(r.status, 0) << r.out;
  EXPECT_THAT(r.out, HasSubstr("3 compiled"));
  EXPECT_EQ(
      quern("replay record " + db() + " -- compile " + kernel("convolution") + " --target clang --opts 'UPCAST(0,4)'")
          .status,
      0);
  EXPECT_EQ(quern("replay record " + db() + " -- run " + kernel("padded_add") + " --device INTERP").status, 0);
  EXPECT_EQ(number("SELECT count(*) FROM kernels"), 5);
  EXPECT_EQ(
      number(
          "SELECT count(*) FROM kernels WHERE opts = 'UPCAST(0,4)' AND applied = 'UPCAST(0,4)' AND target = 'clang'"),
      1);
  for (const char* options : {"", "--keep-opts", "--jobs 2"}) {
    Result same = compare(options);
    EXPECT_EQ(same.status, 0) << same.out;
    EXPECT_EQ(same.out, "5 kernels: 5 same, 0 changed, 0 failed\n");
  }
}

TEST_F(Replay, records_where_the_setting_says) {
  EXPECT_EQ(quern("compile " + kernel("matmul") + " --target clang", "QUERN_RECORD=" + db()).status, 0);
  EXPECT_EQ(compare().out, "1 kernels: 1 same, 0 changed, 0 failed\n");
}

TEST_F(Replay, a_kernel_met_again_is_stored_once_for_each_way_it_is_asked_for) {
  for (const char* options : {"", "", " --opts none", " --target clang"})
    EXPECT_EQ(quern("compile " + kernel("matmul") + options, "QUERN_RECORD=" + db()).status, 0);
  EXPECT_EQ(quern("compile " + kernel("matmul"), "TC=0 QUERN_RECORD=" + db()).status, 0);
  EXPECT_EQ(number("SELECT count(*) FROM kernels"), 4);
  EXPECT_EQ(number("SELECT count(*) FROM texts"), 1);
}

TEST_F(Replay, shows_each_change_and_exits_1) {
  for (const char* name : {"matmul", "convolution", "padded_add"})
    EXPECT_EQ(quern("compile " + kernel(name) + " --target clang", "QUERN_RECORD=" + db()).status, 0);
  // As if the build that recorded had written otherwise: another line, another error, other opts.
  {
    Database d(db(), OpenMode::Create);
    d.run(
        "UPDATE kernels SET source = replace(source, 'void', 'static void') WHERE id = 1;"
        "UPDATE kernels SET opts = 'UPCAST(77,4)' WHERE id = 2");
  }
  Result r = compare();
  EXPECT_EQ(r.status, 1);
  EXPECT_THAT(r.out, HasSubstr("3 kernels: 1 same, 1 changed, 1 failed"));
  EXPECT_THAT(r.out, HasSubstr("\n-static void"));
  EXPECT_THAT(r.out, HasSubstr("\n+void"));
  EXPECT_THAT(r.out, HasSubstr("\n+error: "));
  EXPECT_THAT(r.out, HasSubstr("for clang, opts heuristic (TC=1 TC_OPT=0), recorded"));
  Result quiet = compare("--quiet");
  EXPECT_EQ(quiet.status, 1);
  EXPECT_EQ(quiet.out, "3 kernels: 1 same, 1 changed, 1 failed\n");
  EXPECT_THAT(compare("--keep-opts").out, HasSubstr("2 same, 1 changed, 0 failed"));
}

TEST_F(Replay, says_what_is_wrong_and_exits_2) {
  struct Case {
    std::string arguments, message;
  };
  for (const Case& c :
       std::vector<Case>{{"replay compare /no/such/file", "no such file"},
                         {"replay compare " + file("text.db", "a text, and no database, of some length\n"), "text.db"},
                         {"replay record " + db(), "COMMAND"},
                         {"replay record " + db() + " -- quern", "no command is given"},
                         {"replay record " + db() + " -- replay compare x", "not replay"},
                         {"replay record " + db() + " -- compile /no/such/file", "cannot open /no/such/file"},
                         {"replay record " + db() + " -- paint", "paint"}}) {
    Result r = quern(c.arguments);
    EXPECT_EQ(r.status, 2) << c.arguments << "\n" << r.out;
    EXPECT_THAT(r.out, HasSubstr(c.message)) << c.arguments;
  }
}

}  // namespace
}  // namespace quern::test
