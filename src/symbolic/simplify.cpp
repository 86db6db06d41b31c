#include "symbolic/simplify.h"

#include "symbolic/rules.h"

namespace quern {

namespace {

std::vector<Rule> joined(std::initializer_list<std::vector<Rule>> parts) {
  std::vector<Rule> all;
  for (const std::vector<Rule>& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::vector<Rule> simple_rules() {
  return joined({identity_rules(), float_rules(), boolean_rules(), constant_rules(), cast_rules()});
}

std::vector<Rule> all_rules() {
  return joined({simple_rules(), order_rules(), term_rules(), choice_rules(), stage_rules(), compare_rules(),
                 index_cast_rules(), data_divmod_rules(), index_divmod_rules()});
}

}  // namespace

const RuleSet& symbolic_simple() {
  static const RuleSet rules("symbolic_simple", simple_rules(), RuleSet::Memo::SymbolicSimple);
  return rules;
}

const RuleSet& symbolic() {
  static const RuleSet rules("symbolic", all_rules(), RuleSet::Memo::Symbolic);
  return rules;
}

const RuleSet& symbolic_flat() {
  static const RuleSet rules("symbolic_flat", joined({all_rules(), distribution_rules()}), RuleSet::Memo::SymbolicFlat);
  return rules;
}

UOp simplify(UOp x) { return graph_rewrite(x, symbolic()); }

bool resolve(UOp condition, bool otherwise) {
  UOp x = simplify(condition);
  return x.vmin() == x.vmax() ? x.vmin() != 0 : otherwise;
}

}  // namespace quern
