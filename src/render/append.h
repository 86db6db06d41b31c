#pragma once
#include <charconv>
#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>

namespace quern {

inline void append_part(std::string& out, std::string_view text) { out += text; }
inline void append_part(std::string& out, char c) { out += c; }
template <std::integral T>
void append_part(std::string& out, T number) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

/// Appends strings, characters and numbers one after the other: what the renderers do most.
template <class... Parts>
void append(std::string& out, const Parts&... parts) {
  (append_part(out, parts), ...);
}

inline size_t longest(std::string_view text) { return text.size(); }
template <std::integral T>
size_t longest(T) {
  return std::is_same_v<T, char> ? 1 : 20;
}

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::string text;
  text.reserve((longest(parts) + ...));
  append(text, parts...);
  return text;
}

}  // namespace quern
