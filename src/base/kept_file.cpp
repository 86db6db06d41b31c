#include "base/kept_file.h"

namespace quern {

namespace fs = std::filesystem;

fs::path kept_file(const Settings& settings, std::string_view setting, std::string_view name) {
  std::string wanted = settings.text(setting);
  if (wanted == "off" || wanted == "0") return {};
  fs::path file = wanted;
  if (wanted.empty()) {
    std::string folder = settings.text("XDG_CACHE_HOME"), home = settings.text("HOME");
    // A relative XDG_CACHE_HOME is to be ignored, says its specification.
    if (!folder.empty() && folder.front() == '/')
      file = fs::path(folder) / "quern" / name;
    else if (!home.empty())
      file = fs::path(home) / ".cache" / "quern" / name;
    else
      return {};
  }
  std::error_code ignored;
  if (fs::path absolute = fs::absolute(file, ignored); !absolute.empty()) return absolute;
  return file;
}

}  // namespace quern
