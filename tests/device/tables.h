#pragma once
// Tables of operands and the value they should give, with each operand loaded and known to the compiler.

#include <functional>
#include <string>
#include <vector>

#include "everywhere.h"

namespace quern::test {

using Unary = std::function<Value(const Value&)>;
using Binary = std::function<Value(const Value&, const Value&)>;

/// f(a[i]) is want[i].
void expect_values(const Unary& f, const Elements& a, const Elements& want, const How& how = {});
/// f(a[i], b[i]) is want[i], in all four ways to know or load the operands.
void expect_values(const Binary& f, const Elements& a, const Elements& b, const Elements& want, const How& how = {});

}  // namespace quern::test
