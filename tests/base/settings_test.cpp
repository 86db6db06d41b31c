#include "base/settings.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/error.h"

namespace quern {
namespace {

std::string refusal(std::string_view name, std::string_view value) {
  Settings settings;
  try {
    settings.set(name, value);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Settings, are_their_defaults_until_set) {
  Settings settings;
  EXPECT_EQ(settings.number("TC"), 1);
  EXPECT_EQ(settings.text("CC"), "");
  EXPECT_FALSE(settings.is_set("TC"));
  settings.set("TC", "2");
  EXPECT_EQ(settings.number("TC"), 2);
  EXPECT_EQ(settings.value("TC"), "2");
  EXPECT_TRUE(settings.is_set("TC"));
}

TEST(Settings, are_read_from_an_environment_block_and_others_there_are_ignored) {
  const char* environment[] = {"HOME=/root", "NOOPT=1", "CC=gcc=x", "odd", nullptr};
  Settings settings = Settings::from_environment(environment);
  EXPECT_EQ(settings.number("NOOPT"), 1);
  EXPECT_EQ(settings.text("CC"), "gcc=x");
}

TEST(Settings, refuse_unknown_names_and_values_of_another_type_or_range) {
  EXPECT_THAT(refusal("NOPE", "1"), ::testing::StartsWith("no setting is called 'NOPE': there are DEBUG, NOOPT"));
  EXPECT_EQ(refusal("TC", "two"), "setting TC takes a number, not 'two'");
  EXPECT_EQ(refusal("TC", "1x"), "setting TC takes a number, not '1x'");
  EXPECT_EQ(refusal("TC", ""), "setting TC takes a number, not ''");
  EXPECT_EQ(refusal("TC", "9"), "setting TC takes 0 to 3, not 9");
  EXPECT_EQ(refusal("BEAM_MIN_PROGRESS", "0.5"), "accepted");
  EXPECT_EQ(refusal("BEAM_MIN_PROGRESS", "nan"), "setting BEAM_MIN_PROGRESS takes a number, not 'nan'");
  EXPECT_EQ(refusal("BEAM_MIN_PROGRESS", "-1"), "setting BEAM_MIN_PROGRESS takes 0 to 1000000, not -1");
  EXPECT_EQ(refusal("TC", "99999999999999999999"), "setting TC takes a number, not '99999999999999999999'");
  EXPECT_EQ(refusal("QUERN_TUNED", std::string_view("a\0b", 3)),
            "setting QUERN_TUNED takes text without zero bytes, not 'a?b'");
}

TEST(Settings, have_a_default_of_their_type_a_help_text_and_a_name_of_their_own) {
  std::set<std::string_view> names;
  for (const SettingInfo& row : all_settings()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.help.empty()) << row.name;
    if (row.type != SettingType::Text) {
      EXPECT_EQ(refusal(row.name, row.default_value), "accepted") << row.name;
    }
  }
}

}  // namespace
}  // namespace quern
