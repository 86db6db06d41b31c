#include "base/shown.h"

#include <algorithm>

namespace quern {

namespace {

/// Bytes of the character at the start of `text`; 0 where it is none that can be shown: a control character, or no UTF-8.
size_t shown_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return byte(0) >= ' ' && byte(0) != 0x7F ? 1 : 0;
  const size_t length = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  // Longer than need be, surrogates, past the last character, and the control characters C1.
  const bool wrong = (byte(0) == 0xE0 && byte(1) < 0xA0) || (byte(0) == 0xED && byte(1) > 0x9F) ||
                     (byte(0) == 0xF0 && byte(1) < 0x90) || (byte(0) == 0xF4 && byte(1) > 0x8F) ||
                     (byte(0) == 0xC2 && byte(1) < 0xA0);
  return wrong ? 0 : length;
}

}  // namespace

std::string shown(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = shown_length(text);
    out += length != 0 ? text.substr(0, length) : "?";
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

std::string in_quotes(std::string_view text) {
  constexpr size_t kLongest = 120;
  if (text.size() <= kLongest) return "'" + shown(text) + "'";
  size_t end = kLongest;
  while (end > kLongest - 4 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // between characters
  return "'" + shown(text.substr(0, end)) + "...'";
}

}  // namespace quern
