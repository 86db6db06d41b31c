// Wrong opts, targets, devices and launches, through the public interface.

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "errors.h"

namespace quern {
namespace {

using test::Outcome;
using test::outcome_of;
using testing::HasSubstr;

/// out[i] = in[i] * n for 8 ints, n of 1 to 9
KernelGraph scaled() {
  KernelBuilder k;
  k.store(0, k.load(1, DataType::Int32, {8}) * k.variable("n", 1, 9));
  return k.build();
}

bool is_here(const char* device) {
  return outcome_of([&] { compile(scaled(), {.device = device}); }).type == "none";
}

TEST(Opts, that_are_wrong_are_refused_with_the_reason) {
  for (const auto& [opts, message] : std::vector<std::pair<const char*, const char*>>{
           {"UPCAST(0,3)", "UPCAST(0,3)"},
           {"UPCAST(4,2)", "UPCAST(4,2)"},
           {"UPCAST(-1,2)", "UPCAST(-1,2)"},
           {"UPCAST(0,-2)", "UPCAST(0,-2)"},
           {"UPCAST(0,1)", "UPCAST(0,1)"},
           {"UPCAST(2147483647,2147483647)", "UPCAST(2147483647,2147483647)"},
           {"UPCAST(99999999999,2)", "99999999999"},
           {"UNROLL(0,4)", "UNROLL(0,4)"},
           {"GROUP(0,4)", "GROUP(0,4)"},
           {"LOCAL(0,2)", "LOCAL(0,2)"},
           {"UPCAST(0,4) UPCAST(0,4)", "UPCAST(0,4)"},
           {"SWAP(0,0)", "SWAP(0,0)"},
           {"PADTO(0,0)", "PADTO(0,0)"},
           {"TC(0,0)", "TC(0,0)"},
           {"TC(0,7)", "TC(0,7)"},
           {"UPCAST", "UPCAST"},
           {"UPCAST(0", "UPCAST(0"},
           {"UPCAST(0,4", "UPCAST(0,4"},
           {"UPCAST(,)", "UPCAST(,)"},
           {"UPCAST(0,4)(", "UPCAST(0,4)("},
           {"FASTER(0,4)", "no opt is called 'FASTER'"},
           {"Heuristic", "Heuristic"},
           {"0,4", "0"},
       }) {
    const Outcome o = outcome_of([&] { compile(scaled(), {.device = "INTERP", .target = "clang", .opts = opts}); });
    EXPECT_EQ(o.type, "OptError") << opts << ": " << o.message;
    EXPECT_THAT(o.message, HasSubstr(message));
  }
}

TEST(Targets, and_devices_that_are_not_are_refused_with_those_that_are) {
  Outcome o = outcome_of([] { compile(scaled(), {.device = "TPU"}); });
  EXPECT_EQ(o.type, "DeviceError");
  EXPECT_THAT(o.message, HasSubstr("no device is called 'TPU': there are CPU, CLANG, OPENCL, CUDA, INTERP"));
  o = outcome_of([] { compile(scaled(), {.device = ""}); });
  EXPECT_EQ(o.type, "DeviceError");
  for (const char* target : {"cuda", "clang:", "CLANG", "opencl:sm_80", "cuda:sm_8"}) {
    o = outcome_of([&] { compile(scaled(), {.device = "INTERP", .target = target}); });
    EXPECT_EQ(o.type, "DeviceError") << target;
    EXPECT_THAT(o.message, HasSubstr("no target is called '" + std::string(target) + "'; there are: cpu:avx512"));
    o = outcome_of([&] { render_source(scaled(), target); });
    EXPECT_THAT(o.message, HasSubstr("no target is called '" + std::string(target) + "'; there are: cpu:avx512"));
  }
  if (!is_here("CPU")) GTEST_SKIP() << "no CPU device";
  o = outcome_of([] { compile(scaled(), {.device = "CPU", .target = "opencl"}); });
  EXPECT_EQ(o.type, "DeviceError");
  EXPECT_THAT(o.message, HasSubstr("CPU cannot run programs for opencl"));
}

class Launches : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!is_here(GetParam())) GTEST_SKIP() << GetParam() << " is not on this machine";
  }
};

TEST_P(Launches, with_wrong_buffers_or_variables_are_refused_and_touch_nothing) {
  const CompiledKernel kernel = compile(scaled(), {.device = GetParam()});
  std::vector<int32_t> out(8, -1), in(8, 2);
  std::vector<int32_t> few(7);
  std::vector<float> reals(8);
  std::vector<uint32_t> naturals(8);
  const std::vector<int32_t> constant(8);
  std::array<int32_t, 20> shared{};
  alignas(8) std::array<char, 64> bytes{};
  const std::map<std::string, int64_t> n = {{"n", 3}};
  auto part = [&](int64_t first, int64_t count) { return Array{DataType::Int32, shared.data() + first, count}; };
  struct Case {
    const char* what;
    std::vector<Array> arrays;
    std::map<std::string, int64_t> variables;
    const char* message;
  };
  for (const Case& c : std::vector<Case>{
           {"none", {}, n, "0 buffers given, and it takes 2"},
           {"one", {array(out)}, n, "1 buffers given, and it takes 2"},
           {"three", {array(out), array(in), array(in)}, n, "3 buffers given, and it takes 2"},
           {"floats", {array(out), array(reals)}, n, "holds float, not int"},
           {"unsigned", {array(out), array(naturals)}, n, "holds uint, not int"},
           {"a short input", {array(out), array(few)}, n, "has 7 elements, and the kernel needs 8"},
           {"a short output", {array(few), array(in)}, n, "has 7 elements, and the kernel needs 8"},
           {"an empty one", {array(out), {DataType::Int32, in.data(), 0}}, n, "has 0 elements"},
           {"a negative size", {array(out), {DataType::Int32, in.data(), -8}}, n, "-8"},
           {"no memory", {array(out), {DataType::Int32, nullptr, 8}}, n, "missing"},
           {"no type", {array(out), {static_cast<DataType>(99), in.data(), 8}}, n, ""},
           {"a constant output", {array(constant), array(in)}, n, "is written, but its array is const"},
           {"crooked memory", {array(out), {DataType::Int32, bytes.data() + 2, 8}}, n, "is not aligned"},
           {"the same twice", {array(out), array(out)}, n, "shares memory"},
           {"overlapping ones", {part(0, 8), part(7, 8)}, n, "shares memory"},
           {"no variable", {array(out), array(in)}, {}, "variable n has no value"},
           {"another variable", {array(out), array(in)}, {{"m", 3}}, "variable n has no value"},
           {"too small a value", {array(out), array(in)}, {{"n", 0}}, "variable n is 0, outside 1 to 9"},
           {"too large a value", {array(out), array(in)}, {{"n", int64_t{1} << 40}}, "outside 1 to 9"},
       }) {
    const Outcome o = outcome_of([&] { kernel.run(c.arrays, c.variables); });
    EXPECT_EQ(o.type, "DeviceError") << c.what << ": " << o.message;
    EXPECT_THAT(o.message, HasSubstr(c.message)) << c.what;
  }
  EXPECT_EQ(out, std::vector<int32_t>(8, -1));
  EXPECT_EQ(outcome_of([&] { kernel.run({part(0, 8), part(8, 8)}, n); }).message, "");  // side by side is fine
  EXPECT_EQ(outcome_of([&] { kernel.run({array(out), array(constant)}, n); }).message, "");
  EXPECT_EQ(outcome_of([&] { kernel.run({array(out), array(in)}, n); }).message, "");
  EXPECT_EQ(out, std::vector<int32_t>(8, 6));
}

INSTANTIATE_TEST_SUITE_P(Devices, Launches, testing::Values("CPU", "CLANG", "INTERP"),
                         [](const auto& one) { return std::string(one.param); });

TEST(LaunchSizes, of_kernels_whose_buffer_is_too_large_for_memory_are_refused) {
  KernelBuilder k;
  k.store(0, k.load(1, DataType::Int32, {int64_t{1} << 50}));
  const CompiledKernel kernel = compile(k.build(), {.device = "INTERP"});
  std::vector<int32_t> small(8), other(8);
  const Outcome o = outcome_of([&] { kernel.run({array(small), array(other)}); });
  EXPECT_EQ(o.type, "DeviceError");
  EXPECT_THAT(o.message, HasSubstr("the kernel needs 1125899906842624"));
}

}  // namespace
}  // namespace quern
