#pragma once
// Sources through the compilers of this machine.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

namespace quern::test {

/// A folder for a test's files, gone with it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "quern-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string operator/(const std::string& file) const { return (path_ / file).string(); }

 private:
  std::filesystem::path path_;
};

inline bool has_compiler(const std::string& command) {
  return std::system((command + " --version > /dev/null 2>&1").c_str()) == 0;
}

/// What the compiler says about a source: empty if it takes it in silence.
inline std::string complaints(const std::string& command, const std::string& file, const std::string& source) {
  std::ofstream(file) << source;
  int status = std::system((command + " " + file + " > " + file + ".log 2>&1").c_str());
  std::stringstream log;
  log << std::ifstream(file + ".log").rdbuf();
  return status == 0 ? log.str() : "exit status " + std::to_string(status) + "\n" + log.str() + "\n" + source;
}

/// Metal's sources as C++ and the DSP's as C for this machine, through what stands in for their libraries.
inline const std::string kMetalAsCpp =
    "clang++-19 -std=c++17 -Wall -Werror -Wno-unknown-pragmas -Wno-unknown-attributes -ffp-contract=off "
    "-Xclang -ffloat16-excess-precision=none -isystem " QUERN_SOURCE_DIR "/tests/support/metal";
inline const std::string kHexagonAsC =
    "cc -std=c11 -Wall -Werror -Wno-unknown-pragmas -ffp-contract=off -I" QUERN_SOURCE_DIR "/tests/support";

/// A function of a source under another name.
inline std::string renamed(const std::string& source, const std::string& from, const std::string& to) {
  return std::regex_replace(source, std::regex("\\b" + from + "\\b"), to);
}

/// Sources of one language in one file: what stands outside of all brackets, with what is inside those it opens, comes once.
inline std::string joined(const std::vector<std::string>& sources) {
  std::string all;
  std::set<std::string> known;
  for (const std::string& source : sources) {
    std::string part;
    std::ptrdiff_t depth = 0;
    std::istringstream lines(source);
    for (std::string line; std::getline(lines, line);) {
      part += line + "\n";
      auto count = [&](char c) { return std::count(line.begin(), line.end(), c); };
      if (!line.starts_with("//")) depth += count('(') + count('{') - count(')') - count('}');
      if (depth > 0) continue;
      if (known.insert(part).second) all += part;
      part.clear();
    }
    all += part;
  }
  return all;
}

}  // namespace quern::test
