#pragma once
#include <string>
#include <string_view>

#include "quern/error.h"

#include "base/int128.h"

namespace quern {

/// A place in a text that is read once from front to back. Spaces and line ends between tokens mean nothing.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : begin_(text.data()), at_(text.data()), end_(text.data() + text.size()) {}

  /// The next character that is not a space, '\0' at the end.
  char peek() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
    return at_ == end_ ? '\0' : *at_;
  }
  bool at_end() { return peek() == '\0' && at_ == end_; }
  size_t place() {
    peek();
    return static_cast<size_t>(at_ - begin_);
  }

  bool accept(char c) {
    if (peek() != c || at_ == end_) return false;
    ++at_;
    return true;
  }
  bool accept(std::string_view token) {
    peek();
    if (!rest().starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("'") + c + "'");
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail("\"" + std::string(token) + "\"");
  }
  /// `name=` of a keyword argument, after a comma.
  void expect_keyword(std::string_view name) {
    expect(',');
    expect(name);
    expect('=');
  }

  /// Letters, digits and underscores from here on; may be empty.
  std::string_view word();
  Int128 integer();
  int64_t integer(int64_t min, int64_t max);
  /// A quoted string with \' and \\ as its only escapes.
  std::string quoted();
  bool boolean();
  /// The sign, digits, point and exponent of a number, inf or nan, from here on.
  std::string_view number_text();

  /// Digits without a sign up to 18 of them: the common case of an int in a view.
  bool accept_small(int64_t& value) {
    const char* p = at_;
    uint64_t v = 0;  // past 18 digits it may wrap, and is not used
    while (p != end_ && *p >= '0' && *p <= '9') v = v * 10 + static_cast<uint64_t>(*p++ - '0');
    if (p == at_ || p - at_ > 18) return false;
    at_ = p;
    value = static_cast<int64_t>(v);
    return true;
  }

  /// Throws ParseError at this place.
  [[noreturn]] void fail(std::string expected) const {
    fail_at(static_cast<size_t>(at_ - begin_), std::move(expected));
  }
  [[noreturn]] void fail_at(size_t place, std::string expected) const;
  /// "line 3, column 14"
  std::string where(size_t place) const;

 private:
  std::string_view rest() const { return {at_, static_cast<size_t>(end_ - at_)}; }
  std::pair<int, int> line_and_column(size_t place) const;

  const char* begin_;
  const char* at_;
  const char* end_;
};

}  // namespace quern
