#include "ir/parse_cursor.h"

#include <algorithm>

#include "base/shown.h"

namespace quern {

namespace {
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
}  // namespace

std::string_view Cursor::word() {
  peek();
  const char* from = at_;
  while (at_ != end_ && is_word(*at_)) ++at_;
  return {from, static_cast<size_t>(at_ - from)};
}

Int128 Cursor::integer() {
  peek();
  const char* from = at_;
  bool negative = accept('-');
  // 30 digits stay far inside 128 bits; the fields they are for are narrower and say so.
  constexpr int kMaxDigits = 30;
  Int128 value = 0;
  int digits = 0;
  for (; at_ != end_ && is_digit(*at_); ++at_)
    if (++digits <= kMaxDigits) value = value * 10 + (*at_ - '0');
  if (digits == 0) fail("an integer");
  if (digits > kMaxDigits) fail_at(static_cast<size_t>(from - begin_), "an integer of at most 30 digits");
  return negative ? -value : value;
}

int64_t Cursor::integer(int64_t min, int64_t max) {
  size_t from = place();
  Int128 value = integer();
  if (value < min || value > max)
    fail_at(from, "an integer from " + std::to_string(min) + " to " + std::to_string(max));
  return static_cast<int64_t>(value);
}

std::string Cursor::quoted() {
  if (peek() != '\'' && peek() != '"') fail("a quoted string");
  char quote = *at_++;
  std::string text;
  for (; at_ != end_ && *at_ != quote; ++at_) {
    if (*at_ == '\\' && at_ + 1 != end_ && (at_[1] == '\\' || at_[1] == '\'' || at_[1] == '"'))
      ++at_;
    else if (*at_ == '\\' || static_cast<unsigned char>(*at_) < ' ')
      fail("a plain character or the end of the string");
    text += *at_;
  }
  if (at_ == end_) fail(std::string("'") + quote + "' at the end of the string");
  ++at_;
  return text;
}

bool Cursor::boolean() {
  if (accept("True")) return true;
  if (accept("False")) return false;
  fail("True or False");
}

std::string_view Cursor::number_text() {
  peek();
  const char* from = at_;
  if (at_ != end_ && *at_ == '-') ++at_;
  auto is_exponent_sign = [&] {
    return (*at_ == '-' || *at_ == '+') && at_ != from && (at_[-1] == 'e' || at_[-1] == 'E');
  };
  while (at_ != end_ && (is_word(*at_) || *at_ == '.' || is_exponent_sign())) ++at_;
  return {from, static_cast<size_t>(at_ - from)};
}

std::pair<int, int> Cursor::line_and_column(size_t place) const {
  int line = 1, column = 1;
  for (const char* p = begin_; p != begin_ + place; ++p) {
    ++column;
    if (*p == '\n') ++line, column = 1;
  }
  return {line, column};
}

std::string Cursor::where(size_t place) const {
  auto [line, column] = line_and_column(place);
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

void Cursor::fail_at(size_t place, std::string expected) const {
  constexpr size_t kShown = 24;
  auto [line, column] = line_and_column(place);
  std::string_view found(begin_ + place, std::min(kShown, static_cast<size_t>(end_ - begin_) - place));
  found = found.substr(0, found.find_first_of("\r\n"));
  std::string message = where(place) + ": expected " + expected + ", found " +
                        (begin_ + place == end_ ? std::string("the end of the text") : "\"" + shown(found) + "\"");
  throw ParseError(line, column, std::move(expected), message);
}

}  // namespace quern
