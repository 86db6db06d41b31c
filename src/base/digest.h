#pragma once
#include <string>
#include <string_view>

namespace quern {

/// 16 bytes that stand for these (XXH3): the same on every machine. Keys of what is kept in files.
std::string digest(std::string_view bytes);

}  // namespace quern
