// Integer division, overflow and conversions: the public cases C01 to C17.

#include <gtest/gtest.h>

#include "everywhere.h"
#include "ir/text.h"
#include "shape/shapetracker.h"
#include "tables.h"

namespace quern {
namespace {

using namespace test;
using enum DataType;

const Binary kDivide = [](const Value& a, const Value& b) { return a / b; };
const Binary kModulo = [](const Value& a, const Value& b) { return a % b; };

TEST(Devices, the_C_compiler_is_here) {
  try {
    KernelBuilder k;
    k.store(0, k.load(1, Int32, {1}));
    compile(k.build(), {.device = "CLANG"});
  } catch (const DeviceError& e) {
    GTEST_SKIP() << e.what();
  }
}

TEST(Devices, LLVM_is_here) {
  try {
    KernelBuilder k;
    k.store(0, k.load(1, Int32, {1}));
    compile(k.build(), {.device = "CPU"});
  } catch (const DeviceError& e) {
    GTEST_SKIP() << e.what();
  }
}

TEST(Integers, division_truncates_toward_zero) {  // C01
  for (DataType type : {Int8, Int16, Int32, Int64})
    expect_values(kDivide, ints(type, {-5, -1, -7, 7, -8, -9, 100, -100, 5, 0}),
                  ints(type, {2, 4, 8, -2, 4, -4, -7, 7, 3, -3}), ints(type, {-2, 0, 0, -3, -2, 2, -14, -14, 1, 0}));
}

TEST(Integers, modulo_has_the_sign_of_the_dividend) {  // C04
  for (DataType type : {Int8, Int16, Int32, Int64})
    expect_values(kModulo, ints(type, {7, -7, 7, -7, 124, 6, -6, 1, -1, 0}),
                  ints(type, {4, 4, -4, -4, -4, -4, 4, -4, 3, 5}), ints(type, {3, -3, 3, -3, 0, 2, -2, 1, -1, 0}));
}

TEST(Integers, division_by_zero_is_zero_and_the_least_value_wraps) {  // C06
  const std::vector<std::pair<DataType, Int128>> least = {
      {Int8, -128}, {Int16, -32768}, {Int32, -(Int128{1} << 31)}, {Int64, -(Int128{1} << 63)}};
  for (const auto& [type, low] : least) {
    expect_values(kDivide, ints(type, {1, -1, 0, low, low, 7}), ints(type, {0, 0, 0, 0, -1, -1}),
                  ints(type, {0, 0, 0, 0, low, -7}));
    expect_values(kModulo, ints(type, {1, -1, 0, low, low, 7}), ints(type, {0, 0, 0, 0, -1, -1}),
                  ints(type, {0, 0, 0, 0, 0, 0}));
  }
  for (DataType type : {UInt8, UInt16, UInt32, UInt64})
    expect_values(kDivide, ints(type, {1, -1, 0, -1}), ints(type, {0, 0, 0, -1}), ints(type, {0, 0, 0, 1}));
}

TEST(Integers, division_by_zero_does_not_trap_in_lanes_that_are_thrown_away) {  // C06
  const Binary guarded = [](const Value& a, const Value& b) {
    return where(not_equal(b, 0), a / b, constant_like(a, 0));
  };
  expect_values(guarded, ints(Int32, {1, 8, -9, INT32_MIN}), ints(Int32, {0, 2, 0, -1}),
                ints(Int32, {0, 4, 0, INT32_MIN}));
}

TEST(Integers, linear_numerators_divide_as_numbers_do) {  // C08
  const Unary f = [](const Value& x) { return (x * 48 + 241) / 16; };
  const Elements xs = ints(Int32, {-10, -6, -5, -1, 0, 1, 10}), want = ints(Int32, {-14, -2, 0, 12, 15, 18, 45});
  expect_values(f, xs, want);
  KernelBuilder k;
  k.store(0, k.load(1, Int32, {4}) * 0 + f(k.variable("x", -10, 10)));
  for (size_t i = 0; i < xs.size(); ++i)
    expect_everywhere(
        k.build(), {{1, count_up(Int32, 4)}},
        {{0, ints(Int32, std::vector<Int128>(4, int_of_const(Scalar::Int32, want.values[i])))}},
        {.variables = {{"x", static_cast<int64_t>(int_of_const(Scalar::Int32, xs.values[i]))}}, .few_opts = true});
}

/// Outputs that depend on a variable, at several of its values.
struct OfVariable {
  const char* what;
  int64_t min, max;
  DataType type;
  std::function<Value(const Value&)> f;
  std::vector<std::pair<int64_t, int64_t>> values;  // of the variable, and what comes out
};

TEST(Integers, expressions_over_variables_keep_their_value) {  // C02, C04, C14
  constexpr int64_t k53 = int64_t{1} << 53, k54 = int64_t{1} << 54;
  auto as_long = [](const Value& v) { return v.cast(Int64); };
  const std::vector<OfVariable> cases = {
      {"(a - 3) / 8", 0, 1, Int32, [](const Value& a) { return (a - 3) / 8; }, {{0, 0}, {1, 0}}},
      {"(a - 3) % 8", 0, 1, Int32, [](const Value& a) { return (a - 3) % 8; }, {{0, -3}, {1, -2}}},
      {"a % -4", 0, 124, Int32, [](const Value& a) { return a % -4; }, {{0, 0}, {3, 3}, {6, 2}, {124, 0}}},
      {"-a % 4", 0, 124, Int32, [](const Value& a) { return -a % 4; }, {{0, 0}, {3, -3}, {6, -2}, {124, 0}}},
      {"a / -2", 0, 124, Int32, [](const Value& a) { return a / -2; }, {{0, 0}, {3, -1}, {7, -3}, {124, -62}}},
      {"2 * a < 2^54 + 1",
       0,
       k54 + 1,
       Int64,
       [&](const Value& a) { return as_long(less(a * 2, k54 + 1)); },
       {{k53 - 1, 1}, {k53, 1}, {k53 + 1, 0}, {k54 + 1, 0}}},
      {"-2 * a < -(2^54 - 1)",
       0,
       k54 + 1,
       Int64,
       [&](const Value& a) { return as_long(less(a * -2, -(k54 - 1))); },
       {{k53 - 1, 0}, {k53, 1}, {k53 + 1, 1}, {0, 0}}},
  };
  for (const OfVariable& c : cases)
    for (const auto& [value, want] : c.values) {
      SCOPED_TRACE(std::string(c.what) + " at " + std::to_string(value));
      KernelBuilder k;
      Value v = c.f(k.variable("a", c.min, c.max, c.type));
      k.store(0, where(k.load(1, Bool, {4}), v, constant_like(v, 77)));
      expect_everywhere(k.build(), {{1, filled(Bool, 4, 1)}}, {{0, ints(c.type, {want, want, want, want})}},
                        {.variables = {{"a", value}}, .few_opts = true, .in_process_only = true});
    }
}

/// f(0), f(1), ..., f(n - 1) over a count that the compiler may fold.
KernelGraph of_arange(int64_t n, const std::function<UOp(UOp)>& f) {
  Graph g;
  UOp i = count_from_one(g, n, 0, 1, 2) + int64_t{-1};
  return kernel_of({store(g, 0, tracker({n, 1}), f(i))});
}

struct OfArange {
  const char* what;
  int64_t n;
  std::function<UOp(UOp)> f;
  std::function<int64_t(int64_t)> want;
};

TEST(Integers, aranges_divide_the_same_fused_and_loaded) {  // C02, C09
  auto c = [](UOp i, int64_t v) { return i.const_like(v); };
  const std::vector<OfArange> cases = {
      {"(i - 7) / 3", 10, [&](UOp i) { return (i + int64_t{-7}).idiv(c(i, 3)); },
       [](int64_t i) { return (i - 7) / 3; }},
      {"(i - 7) % 3", 10, [&](UOp i) { return (i + int64_t{-7}).mod(c(i, 3)); }, [](int64_t i) { return (i - 7) % 3; }},
      {"(3i + 6) % 8", 32, [&](UOp i) { return (i * int64_t{3} + int64_t{6}).mod(c(i, 8)); },
       [](int64_t i) { return (3 * i + 6) % 8; }},
      {"(3i - 20) % 8", 32, [&](UOp i) { return (i * int64_t{3} + int64_t{-20}).mod(c(i, 8)); },
       [](int64_t i) { return (3 * i - 20) % 8; }},
      {"i / 4 * 4 + i % 4", 64, [&](UOp i) { return i.idiv(c(i, 4)) * int64_t{4} + i.mod(c(i, 4)); },
       [](int64_t i) { return i; }},
      {"(7 - i) / -2", 16, [&](UOp i) { return (i * int64_t{-1} + int64_t{7}).idiv(c(i, -2)); },
       [](int64_t i) { return (7 - i) / -2; }},
  };
  for (const OfArange& a : cases) {
    SCOPED_TRACE(a.what);
    const Elements want =
        tabulate(Int32, static_cast<size_t>(a.n), [&](size_t i) { return a.want(static_cast<int64_t>(i)); });
    expect_everywhere(of_arange(a.n, a.f), {}, {{0, want}});
    Graph g;
    KernelGraph loaded = kernel_of({store(g, 0, tracker({a.n}), a.f(load(g, 1, Scalar::Int32, tracker({a.n}))))});
    expect_everywhere(loaded, {{1, count_up(Int32, static_cast<size_t>(a.n))}}, {{0, want}});
  }
}

TEST(Integers, exact_quotients_are_exact) {  // C10
  expect_values(kDivide, ints(Int32, {110}), ints(Int32, {55}), ints(Int32, {2}));
  expect_values(kModulo, ints(Int32, {110}), ints(Int32, {55}), ints(Int32, {0}));
  std::vector<Int128> a, b, quotient;
  for (int divisor = 1; divisor <= 2000; ++divisor)
    for (int multiple = 1; multiple * divisor <= 2000; ++multiple) {
      a.push_back(multiple * divisor);
      b.push_back(divisor);
      quotient.push_back(multiple);
    }
  const auto n = static_cast<int64_t>(a.size());
  for (DataType type : {Int16, Int32, UInt32}) {
    KernelBuilder k;
    Value x = k.load(2, type, {n}), y = k.load(3, type, {n});
    k.store(0, x / y);
    k.store(1, x % y);
    expect_everywhere(k.build(), {{2, ints(type, a)}, {3, ints(type, b)}},
                      {{0, ints(type, quotient)}, {1, filled(type, a.size(), 0)}},
                      {.opts = {"UPCAST(0,4)"}, .few_opts = true});
  }
}

TEST(Integers, wrap_to_their_width) {  // C13
  struct Row {
    const char* what;
    Binary f;
    DataType type;
    Int128 a, b, want;
  };
  const Binary add = [](const Value& a, const Value& b) { return a + b; };
  const Binary subtract = [](const Value& a, const Value& b) { return a - b; };
  const Binary multiply = [](const Value& a, const Value& b) { return a * b; };
  const Binary left = [](const Value& a, const Value& b) { return a << b; };
  const Binary right = [](const Value& a, const Value& b) { return a >> b; };
  for (const Row& r : std::vector<Row>{
           {"1 << 31", left, Int32, 1, 31, INT32_MIN},
           {"1 << 32", left, Int32, 1, 32, 0},
           {"1 << -1", left, Int32, 1, -1, 0},
           {"200 << 1", left, UInt8, 200, 1, 144},
           {"-8 >> 40", right, Int32, -8, 40, -1},
           {"8 >> 64", right, UInt64, 8, 64, 0},
           {"65536 * 65536", multiply, Int32, 65536, 65536, 0},
           {"0 - 1", subtract, UInt32, 0, 1, 4294967295},
           {"200 + 100", add, UInt8, 200, 100, 44},
           {"127 + 1", add, Int8, 127, 1, -128},
           {"300 * 300", multiply, Int16, 300, 300, 24464},
           {"2^63 - 1 + 1", add, Int64, INT64_MAX, 1, INT64_MIN},
           {"2^64 - 1 * 2", multiply, UInt64, -1, 2, -2},
       }) {
    SCOPED_TRACE(r.what);
    expect_values(r.f, ints(r.type, {r.a}), ints(r.type, {r.b}), ints(r.type, {r.want}));
  }
}

TEST(Conversions, of_floats_to_ints_go_through_64_bits) {  // C15, C16
  auto to = [](DataType type) { return [type](const Value& v) { return v.cast(type); }; };
  expect_values(to(Int32), reals(Float, {2147483646.0, -2147483648.0, 4294968320.0, 1.9, -1.9}),
                ints(Int32, {INT32_MIN, INT32_MIN, 1024, 1, -1}));
  expect_values(to(UInt8), reals(Float, {-2, -1.5, -0.5, 300}), ints(UInt8, {254, 255, 0, 44}));
  expect_values(to(UInt8), reals(Half, {-2, -1.5, -0.5, 300}), ints(UInt8, {254, 255, 0, 44}));
  expect_values(to(Int8), reals(Double, {-129, 128, 1e10}), ints(Int8, {127, -128, Int128{10000000000}}));
  expect_values(to(UInt64), reals(Double, {9223372036854775808.0, 1.5}), ints(UInt64, {Int128{1} << 63, 1}));
}

TEST(Conversions, of_floats_to_bytes_are_the_same_at_every_length) {  // C16
  for (size_t n : {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 100, 255, 256, 257, 600}) {
    SCOPED_TRACE(n);
    KernelBuilder k;
    k.store(0, k.load(1, Float, {static_cast<int64_t>(n)}).cast(UInt8));
    const std::vector<double> in = {-2, -1.5, -0.5, 300}, out = {254, 255, 0, 44};
    expect_everywhere(k.build(), {{1, tabulate(Float, n, [&](size_t i) { return in[i % 4]; })}},
                      {{0, tabulate(UInt8, n, [&](size_t i) { return out[i % 4]; })}}, {.in_process_only = n > 8});
  }
}

TEST(Conversions, of_large_unsigned_numbers_to_floats_are_exact) {  // C17
  auto to = [](DataType type) { return [type](const Value& v) { return v.cast(type); }; };
  const Elements big = ints(UInt64, {Int128{1} << 63, (Int128{1} << 64) - 1, (Int128{1} << 63) + 1025, 1});
  expect_values(to(Float), big,
                reals(Float, {9223372036854775808.0, 18446744073709551616.0, 9223372036854775808.0, 1}));
  expect_values(to(Double), big,
                reals(Double, {9223372036854775808.0, 18446744073709551616.0, 9223372036854775808.0 + 2048, 1}));
  expect_values(to(Float), ints(UInt32, {4294967295, 2147483648}), reals(Float, {4294967296.0, 2147483648.0}));
}

}  // namespace
}  // namespace quern
