#pragma once
#include <vector>

#include "ir/rewrite.h"

namespace quern {

// The rows of the rule tables by theme. simplify.cpp puts them in order.

std::vector<Rule> identity_rules();      ///< x + 0, x / x, (x % y) % y, ...
std::vector<Rule> boolean_rules();       ///< and, or, not
std::vector<Rule> float_rules();         ///< the identities that hold for NaN, infinities and -0.0 too
std::vector<Rule> constant_rules();      ///< constants folded, bool arithmetic as logic
std::vector<Rule> cast_rules();          ///< casts of casts
std::vector<Rule> order_rules();         ///< operands of commutative ops in the order of compare()
std::vector<Rule> term_rules();          ///< terms of the same node combined
std::vector<Rule> choice_rules();        ///< WHERE, MAX, and what its bounds leave one value
std::vector<Rule> stage_rules();         ///< constants combined and moved outward
std::vector<Rule> compare_rules();       ///< CMPLT and CMPNE against constants
std::vector<Rule> index_cast_rules();    ///< casts from index type outward, comparisons inward
std::vector<Rule> data_divmod_rules();   ///< truncating IDIV and MOD of machine ints
std::vector<Rule> index_divmod_rules();  ///< floor IDIV and MOD of index type
std::vector<Rule> distribution_rules();  ///< (x + y) * c multiplied out

}  // namespace quern
