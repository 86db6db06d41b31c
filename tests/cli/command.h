#pragma once
// Running the command as a user does.

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace quern::test {

struct Result {
  int status;
  std::string out;  // stdout and stderr
};

/// A shell's command; settings of its environment stand before it. What the developer tuned is none of the tests' business.
inline Result run(const std::string& arguments, const std::string& before = "") {
  std::string command = "QUERN_TUNED=off " + before + " " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  Result r{-1, {}};
  std::array<char, 4096> piece{};
  while (size_t n = fread(piece.data(), 1, piece.size(), pipe)) r.out.append(piece.data(), n);
  int code = pclose(pipe);
  r.status = WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
  return r;
}

inline Result quern(const std::string& arguments, const std::string& before = "") {
  return run(QUERN_COMMAND " " + arguments, before);
}

inline std::string kernel(const std::string& name) { return QUERN_SOURCE_DIR "/examples/kernels/" + name + ".kernel"; }

class Scratch : public ::testing::Test {
 protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("quern_test_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::string file(const std::string& name, const std::string& contents = {}) {
    std::string path = folder / name;
    if (!contents.empty()) std::ofstream(path, std::ios::binary) << contents;
    return path;
  }
  std::filesystem::path folder;
};

}  // namespace quern::test
