#include "optimize/opt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/error.h"

namespace quern {
namespace {

TEST(Opt, prints_as_it_is_read) {
  for (const char* text : {"TC(0,2)", "UPCAST(0,4)", "UPCASTMID(1,4)", "UNROLL(0,0)", "LOCAL(2,16)", "GROUP(0,8)",
                           "GROUPTOP(0,256)", "NOLOCALS", "PADTO(1,32)", "SWAP(0,1)"})
    EXPECT_EQ(to_string(parse_opt(text)), text);
}

TEST(Opt, lists_are_separated_by_spaces_commas_or_semicolons) {
  for (const char* text :
       {"UPCAST(0,4) LOCAL(1,8) NOLOCALS", "UPCAST( 0, 4 ),LOCAL(1,8);NOLOCALS", " UPCAST(0,4)\nLOCAL(1,8)\tNOLOCALS "})
    EXPECT_EQ(to_string(parse_opts(text)), "UPCAST(0,4) LOCAL(1,8) NOLOCALS") << text;
  EXPECT_TRUE(parse_opts("").empty());
}

TEST(Opt, what_is_not_one_is_refused_with_the_reason) {
  struct Case {
    const char* text;
    const char* message;
  };
  for (const Case& c : std::vector<Case>{{"", "'' is not an opt: no opt is called ''; there are: TC, UPCAST,"},
                                         {"UPCASTS(0,4)", "no opt is called 'UPCASTS'"},
                                         {"upcast(0,4)", "no opt is called 'upcast'"},
                                         {"UPCAST(0,4", "the closing ')' is missing"},
                                         {"UPCAST(", "the closing ')' is missing"},
                                         {"UPCAST(0,x)", "'x' is not a number"},
                                         {"UPCAST(0,)", "'' is not a number"},
                                         {"UPCAST(0,99999999999)", "'99999999999' is not a number"},
                                         {"UPCAST(0)", "it takes an axis and an amount, as in UPCAST(0,4)"},
                                         {"UPCAST", "it takes an axis and an amount"},
                                         {"NOLOCALS(1)", "it takes no numbers"}}) {
    try {
      parse_opt(c.text);
      ADD_FAILURE() << c.text << " was read";
    } catch (const OptError& e) {
      EXPECT_THAT(e.what(), testing::HasSubstr(c.message));
    }
  }
}

TEST(SearchActions, are_the_references_in_its_order) {
  const std::vector<Opt>& actions = search_actions();
  ASSERT_EQ(actions.size(), 159u);
  EXPECT_EQ(to_string(actions[0]), "UPCAST(0,0)");
  EXPECT_EQ(to_string(actions[36]), "UNROLL(0,0)");
  EXPECT_EQ(to_string(actions[51]), "LOCAL(0,2)");
  EXPECT_EQ(to_string(actions[117]), "GROUP(0,0)");
  EXPECT_EQ(to_string(actions[138]), "UPCASTMID(1,4)");
  EXPECT_EQ(to_string(actions[139]), "TC(0,0)");
  EXPECT_EQ(to_string(actions[158]), "SWAP(3,4)");
}

}  // namespace
}  // namespace quern
