#pragma once
#include <string>
#include <string_view>

namespace quern {

/// Text of a user's for a message: control characters, and what is no UTF-8, are question marks.
std::string shown(std::string_view text);

/// The same in quotes, cut short after 120 bytes: 'UPCAST(0,4)'
std::string in_quotes(std::string_view text);

}  // namespace quern
