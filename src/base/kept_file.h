#pragma once
#include <filesystem>
#include <string_view>

#include "base/settings.h"

namespace quern {

/// Where something is kept between processes: the file that `setting` names; empty for "off"; where it is not set, `name` in folder
/// quern of the user's cache (XDG_CACHE_HOME or ~/.cache), empty where no such folder is known. Absolute.
std::filesystem::path kept_file(const Settings& settings, std::string_view setting, std::string_view name);

}  // namespace quern
