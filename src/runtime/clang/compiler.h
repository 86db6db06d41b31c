#pragma once
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings.h"

namespace quern {

/// The C compiler device CLANG would use: the setting CC, else the first of clang and cc on the PATH; nothing if there is none.
std::optional<std::string> find_c_compiler(const Settings& settings);

/// The system's C compiler. One that is gone but whose results are kept (open_cache) has at least its identity.
class CCompiler {
 public:
  /// Throws DeviceError where there is no compiler, and none is remembered.
  explicit CCompiler(const Settings& settings);
  /// The compiler's path, or the identity of one that is gone; nothing if there is neither.
  static std::optional<std::string> available(const Settings& settings);

  /// Path, version, flags and the processor that it compiles for.
  std::string identity() const;
  /// The shared object made of `source`. Throws CompileError with the compiler's messages; `name` is for them.
  std::string compile(const std::string& source, const std::string& name) const;
  const std::string& temporary_folder() const { return folder_; }

 private:
  std::string version() const;

  std::optional<std::string> path_;  ///< nothing where the compiler is gone
  Settings settings_;
  std::string folder_;
  std::vector<std::string> environment_;
  mutable std::mutex mutex_;
  mutable std::string identity_;  ///< empty until somebody asks
};

/// A folder of its own under another one, removed with all in it.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& above);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

}  // namespace quern
