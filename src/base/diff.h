#pragma once
#include <string>
#include <string_view>

namespace quern {

/// How `after` differs from `before`, by lines, in the unified format with three lines of context; empty if it does not. The names
/// stand in the two header lines.
std::string unified_diff(std::string_view before, std::string_view after, std::string_view before_name,
                         std::string_view after_name);

}  // namespace quern
