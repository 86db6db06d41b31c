#include "tables.h"

#include <gtest/gtest.h>

namespace quern::test {

namespace {

constexpr int kFirstInput = 80;
constexpr int64_t kRepeats = 4;  // so that opts have something to work on

/// Element `i` of an operand, over and over.
Value operand(KernelBuilder& k, size_t which, const Elements& e, size_t i, bool known) {
  if (known) return folded(k, e.type, e.values[i], kRepeats);
  return k.load(kFirstInput + static_cast<int>(which), e.type, {kRepeats},
                {.strides = {0}, .offset = static_cast<int64_t>(i)});
}

Filled inputs_of(const std::vector<Elements>& operands) {
  Filled inputs = {{90, filled(DataType::Bool, kRepeats, 1)}};
  for (size_t i = 0; i < operands.size(); ++i) inputs.emplace(kFirstInput + static_cast<int>(i), operands[i]);
  return inputs;
}

using Function = std::function<Value(const std::vector<Value>&)>;

void expect_table(const Function& f, const std::vector<Elements>& operands, const Elements& want, const How& how) {
  const auto n = static_cast<int64_t>(want.size());
  How few = how;
  few.few_opts = true;
  few.opts = {"UPCAST(0,4)", "UPCAST(0,0)", "LOCAL(0,2)"};
  {
    SCOPED_TRACE("loaded");
    KernelBuilder k;
    std::vector<Value> values;
    for (size_t i = 0; i < operands.size(); ++i)
      values.push_back(k.load(kFirstInput + static_cast<int>(i), operands[i].type, {n}));
    k.store(0, f(values));
    expect_everywhere(k.build(), inputs_of(operands), {{0, want}}, few);
  }
  few.opts = {"UPCAST(0,4)"};
  const size_t all_known = (size_t{1} << operands.size()) - 1;
  for (size_t known = 1; known <= all_known; ++known) {
    few.in_process_only = known != all_known;
    SCOPED_TRACE("operands known to the compiler, as bits: " + std::to_string(known));
    KernelBuilder k;
    Filled outputs;
    for (size_t row = 0; row < want.size(); ++row) {
      std::vector<Value> values;
      for (size_t i = 0; i < operands.size(); ++i)
        values.push_back(operand(k, i, operands[i], row, (known >> i & 1) != 0));
      k.store(static_cast<int>(row), f(values));
      outputs.emplace(static_cast<int>(row), Elements{want.type, std::vector<ConstBits>(kRepeats, want.values[row])});
    }
    expect_everywhere(k.build(), inputs_of(operands), outputs, few);
  }
}

}  // namespace

void expect_values(const Unary& f, const Elements& a, const Elements& want, const How& how) {
  expect_table([&](const std::vector<Value>& v) { return f(v[0]); }, {a}, want, how);
}

void expect_values(const Binary& f, const Elements& a, const Elements& b, const Elements& want, const How& how) {
  expect_table([&](const std::vector<Value>& v) { return f(v[0], v[1]); }, {a, b}, want, how);
}

}  // namespace quern::test
