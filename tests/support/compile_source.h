#pragma once
// Sources through the compilers of this machine.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

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

}  // namespace quern::test
