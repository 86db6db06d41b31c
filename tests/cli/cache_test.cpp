#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/command.h"

namespace quern::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class CacheCommand : public Scratch {
 protected:
  /// Device CLANG with `compiler`, and a cache of its own.
  Result run(const std::string& name, const std::string& compiler) {
    return quern("run " + kernel(name) + " --device CLANG", settings() + " CC=" + compiler);
  }
  /// spying_compiler() needs a cc; there is always the script.
  static bool no_compiler(const Result& r) {
    return r.out.find("device CLANG is not here") != std::string::npos ||
           r.out.find("cc: not found") != std::string::npos;
  }
  std::string settings() { return "QUERN_CACHE=" + file("cache.db"); }
  std::string shown(const std::string& name) {
    std::string all = "\n" + quern("cache", settings()).out;
    size_t at = all.find("\n" + name);
    if (at == std::string::npos) return "nothing";
    std::string line = all.substr(at + 1, all.find('\n', at + 1) - at - 1);
    return line.substr(line.find_first_not_of(' ', name.size()));
  }
  /// The system's compiler under a name of the test's; it writes a line in `log` each time it is started.
  std::string spying_compiler() {
    std::string path = file("spycc", "#!/bin/sh\necho \"$*\" >> " + file("log") + "\nexec cc \"$@\"\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  int starts() {
    std::ifstream in(file("log"));
    int n = 0;
    for (std::string line; std::getline(in, line);) ++n;
    return n;
  }
};

TEST_F(CacheCommand, a_kernel_is_compiled_once_for_all_processes) {
  std::string cc = spying_compiler();
  Result first = run("matmul", cc);
  if (no_compiler(first)) GTEST_SKIP() << first.out;
  ASSERT_EQ(first.status, 0) << first.out;
  EXPECT_EQ(starts(), 2);  // its version, and the kernel
  EXPECT_EQ(run("matmul", cc).status, 0);
  EXPECT_EQ(starts(), 2);
  EXPECT_EQ(shown("entries"), "1");
  EXPECT_EQ(shown("hits"), "1");
  EXPECT_EQ(shown("misses"), "1");
  EXPECT_EQ(run("padded_add", cc).status, 0);
  EXPECT_EQ(starts(), 3);
  EXPECT_EQ(shown("entries"), "2");
}

TEST_F(CacheCommand, a_kernel_that_was_compiled_needs_no_compiler) {
  std::string cc = spying_compiler();
  Result first = run("matmul", cc);
  if (no_compiler(first)) GTEST_SKIP() << first.out;
  ASSERT_EQ(first.status, 0) << first.out;
  std::filesystem::remove(cc);
  Result again = run("matmul", cc);
  EXPECT_EQ(again.status, 0) << again.out;
  EXPECT_EQ(starts(), 2);
  Result other = run("padded_add", cc);
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.out, HasSubstr("kernel "));
  EXPECT_THAT(other.out, HasSubstr("is gone"));
  EXPECT_THAT(run("matmul", cc + "2").out, HasSubstr("device CLANG is not here"));
}

TEST_F(CacheCommand, another_version_of_the_compiler_compiles_again) {
  std::string cc = spying_compiler();
  Result first = run("matmul", cc);
  if (no_compiler(first)) GTEST_SKIP() << first.out;
  ASSERT_EQ(first.status, 0) << first.out;
  std::ofstream(cc) << "#!/bin/sh\nif [ \"$1\" = --version ]; then echo cc 99; exit; fi\necho new >> " << file("log")
                    << "\nexec cc \"$@\"\n";
  EXPECT_EQ(run("matmul", cc).status, 0);
  EXPECT_EQ(starts(), 3);
  EXPECT_EQ(shown("entries"), "2");
}

TEST_F(CacheCommand, clears_what_it_shows) {
  Result first = run("matmul", "cc");
  if (no_compiler(first)) GTEST_SKIP() << first.out;
  ASSERT_EQ(first.status, 0) << first.out;
  EXPECT_EQ(shown("file"), file("cache.db"));
  Result cleared = quern("cache --clear", settings());
  EXPECT_EQ(cleared.status, 0);
  EXPECT_THAT(cleared.out, HasSubstr("1 entries"));
  EXPECT_EQ(shown("entries"), "0");
  EXPECT_EQ(shown("hits"), "0");
}

TEST_F(CacheCommand, says_when_nothing_is_kept) {
  EXPECT_THAT(quern("cache", "QUERN_CACHE=off").out, HasSubstr("no compiled programs are kept"));
  EXPECT_EQ(quern("run " + kernel("matmul") + " --device INTERP --opts none", settings()).status, 0);
  EXPECT_FALSE(std::filesystem::exists(file("cache.db")));  // the interpreter compiles nothing
}

TEST_F(CacheCommand, a_damaged_file_is_told_and_replaced) {
  file("cache.db", "this is not a database, but a text, and a long one at that\n");
  Result r = run("matmul", "cc");
  if (no_compiler(r)) GTEST_SKIP() << r.out;
  EXPECT_EQ(r.status, 0) << r.out;
  EXPECT_THAT(r.out, HasSubstr("set aside as " + file("cache.db") + ".corrupt"));
  EXPECT_THAT(run("matmul", "cc").out, Not(HasSubstr("set aside")));
  EXPECT_EQ(shown("hits"), "1");
}

}  // namespace
}  // namespace quern::test
