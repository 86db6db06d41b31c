#include "symbolic/rules.h"

namespace quern {

std::vector<Rule> boolean_rules() {
  const Pat x = pat::var("x", kBoolOnly), c = pat::scalar_const("c");
  const Pat y = pat::var("y");
  return {
      {"and true", x & c, x, val("c") != 0},
      {"and false", x & c, c, val("c") == 0},
      {"or true", x | c, c, val("c") != 0},
      {"or false", x | c, x, val("c") == 0},
      {"not not", pat::logical_not(pat::logical_not(x)), x},
      {"where true else false", pat::where(x, pat::boolean(true), pat::boolean(false)), x},
      {"or absorbs and", y | (y & pat::any()), y},
  };
}

}  // namespace quern
