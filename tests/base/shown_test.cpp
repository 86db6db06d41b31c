#include "base/shown.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

TEST(Shown, replaces_what_no_terminal_can_show) {
  EXPECT_EQ(shown("UPCAST(0,4)"), "UPCAST(0,4)");
  EXPECT_EQ(shown("caf\u00e9 \u2192 \U0001F600"), "caf\u00e9 \u2192 \U0001F600");
  EXPECT_EQ(shown("a\nb\x7F\x1B[1m"), "a?b??[1m");
  EXPECT_EQ(shown(std::string_view("a\0b", 3)), "a?b");
  EXPECT_EQ(shown("\xFF\xC3"), "??");                 // no start of a character; half of one
  EXPECT_EQ(shown("\xC0\xAF\xED\xA0\x80"), "?????");  // longer than need be; a surrogate
  EXPECT_EQ(shown(""), "");
}

TEST(InQuotes, is_cut_short_between_characters) {
  EXPECT_EQ(in_quotes("nowhere"), "'nowhere'");
  EXPECT_EQ(in_quotes(""), "''");
  EXPECT_EQ(in_quotes(std::string(120, 'x')), "'" + std::string(120, 'x') + "'");
  EXPECT_EQ(in_quotes(std::string(121, 'x')), "'" + std::string(120, 'x') + "...'");
  EXPECT_EQ(in_quotes(std::string(119, 'x') + "\u00e9\u00e9"), "'" + std::string(119, 'x') + "...'");
}

}  // namespace
}  // namespace quern
