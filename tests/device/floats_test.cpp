// NaNs, signed zeros, narrow floats, subnormals: the public cases C18 to C27.

#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include "everywhere.h"
#include "tables.h"

namespace quern {
namespace {

using namespace test;
using enum DataType;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();
const std::vector<DataType> kFloatTypes = {Half, BFloat16, Float, Double};

TEST(Floats, max_and_min_keep_nan_on_either_side) {  // C18
  const Binary larger = [](const Value& a, const Value& b) { return maximum(a, b); };
  const Binary smaller = [](const Value& a, const Value& b) { return minimum(a, b); };
  for (DataType type : kFloatTypes) {
    const Elements a = reals(type, {1, kNan, kNan, 3, -kInf}), b = reals(type, {kNan, 2, kNan, 2, kInf});
    expect_values(larger, a, b, reals(type, {kNan, kNan, kNan, 3, kInf}));
    expect_values(smaller, a, b, reals(type, {kNan, kNan, kNan, 2, -kInf}));
  }
}

TEST(Floats, a_max_over_elements_keeps_nan_wherever_it_stands) {  // C18
  for (DataType type : {Half, Float})
    for (size_t n : {2, 32, 37})
      for (size_t at : {size_t{0}, n / 2, n - 1}) {
        SCOPED_TRACE(std::to_string(at) + " of " + std::to_string(n));
        KernelBuilder k;
        Value v = k.load(2, type, {static_cast<int64_t>(n)});
        k.store(0, max(v, {0}));
        k.store(1, -max(-v, {0}));
        expect_everywhere(k.build(),
                          {{2, tabulate(type, n, [&](size_t i) { return i == at ? kNan : static_cast<double>(i); })}},
                          {{0, reals(type, {kNan})}, {1, reals(type, {kNan})}}, {.in_process_only = n > 2});
      }
}

TEST(Floats, a_max_of_negative_zeros_is_zero) {  // C23
  for (size_t n : {8191, 8192, 8193}) {
    SCOPED_TRACE(n);
    KernelBuilder k;
    k.store(0, max(k.load(1, Float, {static_cast<int64_t>(n)}) * -1, {0}));
    expect_everywhere(k.build(), {{1, filled(Float, n, 0)}}, {{0, reals(Float, {0})}},
                      {.opts = {"GROUP(0,16)", "GROUPTOP(0,32)", "GROUPTOP(0,256)"}, .signed_zeros = false});
  }
}

TEST(Floats, sums_of_halfs_in_float_do_not_stall) {  // C24
  struct Row {
    size_t n;
    double value, sum;
  };
  for (const Row& r : std::vector<Row>{{5120, 1, 5120}, {2000, 3, 6000}})
    for (DataType type : {Half, BFloat16}) {
      SCOPED_TRACE(std::to_string(r.n) + " of " + std::to_string(r.value));
      KernelBuilder k;
      k.store(0, sum(k.load(1, type, {static_cast<int64_t>(r.n)}).cast(Float), {0}).cast(type));
      expect_everywhere(
          k.build(), {{1, filled(type, r.n, r.value)}}, {{0, reals(type, {r.sum})}},
          {.opts = {"GROUP(0,16)", "GROUPTOP(0,16)", "GROUP(0,16) UNROLL(0,4)", "GROUPTOP(0,16) UNROLL(0,0)"}});
    }
}

TEST(Floats, a_min_over_ones_is_one_at_every_split) {  // C24
  KernelBuilder k;
  k.store(0, -max(-k.load(1, Half, {2, 16385, 1}), {0, 1, 2}));
  expect_everywhere(k.build(), {{1, filled(Half, size_t{2} * 16385, 1)}}, {{0, reals(Half, {1})}},
                    {.opts = {"GROUP(0,0)", "GROUPTOP(0,29)", "PADTO(0,32)"}});
}

TEST(Floats, means_and_variances_of_halfs_go_past_their_range) {  // C25
  KernelBuilder mean;
  mean.store(0, (sum(mean.load(1, Half, {4}).cast(Float), {0}) * 0.25).cast(Half));
  expect_everywhere(mean.build(), {{1, filled(Half, 4, 60000)}}, {{0, reals(Half, {60000})}});

  constexpr int64_t kCount = 70000;
  KernelBuilder variance;
  Value off = variance.load(1, Half, {kCount}).cast(Float) - 0.5;
  variance.store(0, sum(off * off, {0}) * (1.0 / (kCount - 1)));
  expect_everywhere(
      variance.build(), {{1, tabulate(Half, kCount, [](size_t i) { return i % 2; })}},
      {{0, reals(Float, {17500.0 / (kCount - 1)})}},
      {.opts = {"GROUP(0,16)", "GROUPTOP(0,16)", "UPCAST(0,4)", "UNROLL(0,4)"}, .tolerance = 1e-6, .few_opts = true});
}

TEST(Floats, subnormals_are_kept) {  // C26
  const Binary multiply = [](const Value& a, const Value& b) { return a * b; };
  expect_values(
      multiply, reals(Float, {0.1875, 1, std::ldexp(1, -149), 0.5}),
      reals(Float, {std::ldexp(1, -124), std::ldexp(1, -149), 1, std::ldexp(1, -126)}),
      reals(Float, {std::ldexp(0.1875, -124), std::ldexp(1, -149), std::ldexp(1, -149), std::ldexp(1, -127)}));
  expect_values(multiply, reals(Double, {std::ldexp(3, -1000)}), reals(Double, {std::ldexp(1, -70)}),
                reals(Double, {std::ldexp(3, -1070)}));
  expect_values(multiply, reals(Half, {0.1875}), reals(Half, {std::ldexp(1, -14)}),
                reals(Half, {std::ldexp(0.1875, -14)}));
  expect_values(multiply, reals(BFloat16, {0.25}), reals(BFloat16, {std::ldexp(1, -126)}),
                reals(BFloat16, {std::ldexp(1, -128)}));
}

#ifdef __x86_64__
TEST(Floats, the_hosts_mode_is_never_changed) {                         // C26
  for (const unsigned mode : {_mm_getcsr(), _mm_getcsr() | 0x6000U}) {  // as it is, and rounding toward zero
    const unsigned before = _mm_getcsr();
    _mm_setcsr(mode);
    constexpr unsigned kFlags = 0x3FU;  // what operations have met, which they may set
    for (const char* device : {"CPU", "CLANG", "INTERP"}) {
      try {
        KernelBuilder k;
        k.store(0, exp2(k.load(1, Float, {64}) * std::ldexp(1, -124)));
        CompiledKernel compiled = compile(k.build(), {.device = device});
        std::vector<float> in(64, 0.1875F), out(64);
        compiled.run({array(out), array(in)});
      } catch (const DeviceError&) {
      }  // not here
      EXPECT_EQ(_mm_getcsr() & ~kFlags, mode & ~kFlags) << device;
    }
    _mm_setcsr(before);
  }
}
#endif

TEST(Floats, quotients_are_the_same_in_vectors_and_alone) {  // C27
  const std::vector<double> a = {5.5, -5.5, 1e20, 1e30, 1.0, 0.0, -0.0, 3}, b = {kInf, -kInf, 3, 1e-30, 0.1F, 5, -3, 0};
  for (size_t n : {3, 8}) {
    std::vector<double> x(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n)),
        y(b.begin(), b.begin() + static_cast<std::ptrdiff_t>(n)), want;
    for (size_t i = 0; i < n; ++i) want.push_back(static_cast<float>(x[i]) * (1.0F / static_cast<float>(y[i])));
    expect_values([](const Value& p, const Value& q) { return p / q; }, reals(Float, x), reals(Float, y),
                  reals(Float, want));
  }
}

TEST(Floats, products_with_zero_keep_nan_and_sign) {
  const Unary zero_times = [](const Value& v) { return v * 0; };
  const Unary plus_zero = [](const Value& v) { return v + 0; };
  const Unary self_quotient = [](const Value& v) { return v / v; };
  for (DataType type : kFloatTypes) {
    const Elements a = reals(type, {1, -1, kInf, kNan, -0.0, 0});
    expect_values(zero_times, a, reals(type, {0, -0.0, kNan, kNan, -0.0, 0}));
    expect_values(plus_zero, a, reals(type, {1, -1, kInf, kNan, 0, 0}));
    expect_values(self_quotient, a, reals(type, {1, 1, kNan, kNan, kNan, kNan}));
  }
}

TEST(Floats, comparisons_with_nan_are_false_but_for_unequal) {
  const Elements a = reals(Float, {1, kNan, kNan, 0, 2}), b = reals(Float, {kNan, 1, kNan, -0.0, 1});
  const Binary below = [](const Value& x, const Value& y) { return less(x, y); };
  const Binary differ = [](const Value& x, const Value& y) { return not_equal(x, y); };
  const Binary alike = [](const Value& x, const Value& y) { return equal(x, y); };
  const Binary not_below = [](const Value& x, const Value& y) { return where(less(x, y), x, y); };
  expect_values(below, a, b, ints(Bool, {0, 0, 0, 0, 0}));
  expect_values(differ, a, b, ints(Bool, {1, 1, 1, 0, 1}));
  expect_values(alike, a, b, ints(Bool, {0, 0, 0, 1, 0}));
  expect_values(not_below, a, b, reals(Float, {kNan, 1, kNan, -0.0, 1}));
}

}  // namespace
}  // namespace quern
