#ifdef QUERN_HAVE_LLVM
// Dot products of int8 and bfloat16 on the CPU device.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/error.h"

#include "engine/compile.h"
#include "lower/kernels.h"
#include "runtime/device.h"

namespace quern::test {
namespace {

constexpr int kRows = 8, kColumns = 64, kSteps = 32;

bool is_there(Scalar in) {
  return std::ranges::any_of(own_cpu_target().dots, [&](const DotProduct& dot) { return dot.in == in; });
}

/// A(rows, steps) times B(steps, columns), of which every element is one of `values`. Empty where the CPU has no instruction for it.
template <class Element, class Sum>
std::vector<Sum> product(Graph& graph, Scalar in, Scalar out, const std::vector<Element>& a,
                         const std::vector<Element>& b) {
  const std::shared_ptr<Device> device = open_device("CPU");
  const Program program =
      compile(widening_matmul(graph, kRows, kColumns, kSteps, in, out), find_target("cpu:avx512bf16"),
              {.opts = "UPCAST(0,4) UPCAST(1,32) UNROLL(0,4) SWAP(0,1) PACK(1,2)"});
  EXPECT_THAT(program.source, testing::HasSubstr("llvm.x86.avx512"));
  if (!is_there(in)) {
    EXPECT_THROW(device->compile(program), DeviceError);
    return {};
  }
  Buffer left(in, kRows * kSteps), right(in, kSteps * kColumns), sums(out, kRows * kColumns);
  std::copy(a.begin(), a.end(), reinterpret_cast<Element*>(left.data()));
  std::copy(b.begin(), b.end(), reinterpret_cast<Element*>(right.data()));
  device->compile(program)->run(std::vector<Buffer*>{&sums, &left, &right}, {});
  const auto* got = reinterpret_cast<const Sum*>(sums.data());
  return {got, got + kRows * kColumns};
}

/// `of(row, step)` and so on, in the order of memory.
template <class Element, class Function>
std::vector<Element> filled(int rows, int columns, Function&& of) {
  std::vector<Element> all;
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) all.push_back(of(i, j));
  return all;
}

TEST(CpuDots, of_int8_are_exact_to_the_ends_of_the_range) {
  constexpr int8_t kEnds[] = {-128, 127, -1, 0, 1, -127, 64, -64};
  const auto a = filled<int8_t>(kRows, kSteps, [&](int i, int k) { return kEnds[(i + k * (i + 1)) % 8]; });
  const auto b = filled<int8_t>(kSteps, kColumns, [&](int k, int j) { return kEnds[(j * j + k) % 8]; });
  Graph graph;
  const std::vector<int32_t> got = product<int8_t, int32_t>(graph, Scalar::Int8, Scalar::Int32, a, b);
  if (got.empty()) GTEST_SKIP() << "this CPU has no AVX512-VNNI";
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kColumns; ++j) {
      int32_t sum = 0;
      for (int k = 0; k < kSteps; ++k) sum += a[i * kSteps + k] * b[k * kColumns + j];
      EXPECT_EQ(got[i * kColumns + j], sum) << i << ", " << j;
    }
}

TEST(CpuDots, of_bfloat16_keep_infinities_and_nan) {
  const auto bits = [](float x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16); };
  const auto value = [](uint16_t x) { return std::bit_cast<float>(uint32_t{x} << 16); };
  const auto a = filled<uint16_t>(kRows, kSteps, [&](int i, int k) {
    if (k == 5 && i == 1) return bits(std::numeric_limits<float>::infinity());
    if (k == 6 && i == 2) return bits(std::numeric_limits<float>::quiet_NaN());
    return bits(static_cast<float>(i - 3) + 0.125F * static_cast<float>(k));
  });
  const auto b =
      filled<uint16_t>(kSteps, kColumns, [&](int k, int j) { return bits(static_cast<float>((k * 7 + j) % 16 + 1)); });
  Graph graph;
  const std::vector<float> got = product<uint16_t, float>(graph, Scalar::BFloat16, Scalar::Float, a, b);
  if (got.empty()) GTEST_SKIP() << "this CPU has no AVX512-BF16";
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kColumns; ++j) {
      float sum = 0;
      for (int k = 0; k < kSteps; ++k) sum += value(a[i * kSteps + k]) * value(b[k * kColumns + j]);
      const float x = got[i * kColumns + j];
      EXPECT_TRUE(std::isnan(sum) ? std::isnan(x) : x == sum) << i << ", " << j << ": " << x << " for " << sum;
    }
}

}  // namespace
}  // namespace quern::test
#endif
