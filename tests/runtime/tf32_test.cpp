// Float matmuls on tensor cores that round what they multiply to tf32, where that is allowed, in the interpreter.
#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lower/kernels.h"
#include "run_program.h"

namespace quern {
namespace {

using Values = std::vector<double>;
constexpr int kM = 32, kN = 16, kK = 24;

Program matmul_program(Graph& graph, const char* target, bool allow_tf32, const char* opts = "heuristic") {
  UOp ast = test::matmul(graph, kM, kN, kK, Scalar::Float, Scalar::Float);
  Kernel kernel = optimize(ast, find_target(target), {.opts = opts, .allow_tf32 = allow_tf32});
  Program p = render(kernel.name(), lower(kernel.optimized_ast(), kernel.target()), kernel.target());
  p.buffer_sizes = {{0, kM * kN}, {1, kM * kK}, {2, kK * kN}};
  return p;
}

bool has_tensor_core(const Program& p) { return !test::all(p.linear, Op::Wmma).empty(); }

/// Floats with all bits of mantissa in use.
Values random_floats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Values values(count);
  for (double& v : values) v = static_cast<float>(std::ldexp(static_cast<double>(random()) - 0x1p31, -31));
  return values;
}

Values interpreted(const Program& p, const Values& a, const Values& b) {
  std::vector<std::unique_ptr<Buffer>> buffers;
  buffers.push_back(test::buffer_of(Scalar::Float, Values(kM * kN, -77)));
  buffers.push_back(test::buffer_of(Scalar::Float, a));
  buffers.push_back(test::buffer_of(Scalar::Float, b));
  test::run(*open_device("INTERP", Settings()), p, buffers);
  return test::values_of(*buffers[0]);
}

/// 11 significant bits, the nearest; away from zero where two are: cvt.rna, by arithmetic.
double tf32(double x) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  return std::ldexp(std::round(std::ldexp(fraction, 11)), exponent - 11);
}

TEST(Tf32, is_used_only_where_it_is_allowed_and_there) {
  for (const auto& [target, there] : std::vector<std::pair<const char*, bool>>{{"cuda:sm_75", false},
                                                                               {"cuda:sm_80", true},
                                                                               {"cuda:sm_90", true},
                                                                               {"ptx:sm_75", false},
                                                                               {"ptx:sm_80", true},
                                                                               {"ptx:sm_90", true},
                                                                               {"opencl", false}}) {
    Graph graph;
    EXPECT_FALSE(has_tensor_core(matmul_program(graph, target, false))) << target;
    EXPECT_EQ(has_tensor_core(matmul_program(graph, target, true)), there) << target;
  }
}

TEST(Tf32, is_spelled_as_rounding_and_an_instruction) {
  for (const char* target : {"cuda:sm_80", "cuda:sm_90", "ptx:sm_80", "ptx:sm_90"}) {
    Graph graph;
    const std::string source = matmul_program(graph, target, true).source;
    EXPECT_THAT(source, testing::HasSubstr("cvt.rna.tf32.f32 ")) << target;
    EXPECT_THAT(source, testing::HasSubstr("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {")) << target;
  }
}

TEST(Tf32, products_are_of_rounded_floats_and_near_the_plain_kernels) {
  const Values a = random_floats(kM * kK, 1), b = random_floats(kK * kN, 2);
  for (const char* target : {"cuda:sm_80", "cuda:sm_90", "ptx:sm_80"})
    for (const char* opts : {"heuristic", "TC(0,0)", "TC(0,0) LOCAL(0,2)", "TC(0,0) UPCAST(1,2) UNROLL(0,3)"}) {
      Graph graph;
      const Program fast = matmul_program(graph, target, true, opts),
                    plain = matmul_program(graph, target, false, "none");
      ASSERT_TRUE(has_tensor_core(fast)) << target << " " << opts;
      const Values got = interpreted(fast, a, b), want = interpreted(plain, a, b);
      double furthest = 0;
      for (size_t row = 0; row < kM; ++row)
        for (size_t column = 0; column < kN; ++column) {
          double rounded = 0, magnitude = 0;
          for (size_t k = 0; k < kK; ++k) {
            const double x = a[row * kK + k], y = b[k * kN + column];
            rounded += tf32(x) * tf32(y);
            magnitude += std::fabs(x * y);
          }
          const size_t at = row * kN + column;
          EXPECT_NEAR(got[at], rounded, magnitude * 0x1p-20) << target << " " << opts << " " << row << " " << column;
          EXPECT_NEAR(got[at], want[at], magnitude * 0x1p-10) << target << " " << opts << " " << row << " " << column;
          furthest = std::max(furthest, std::fabs(got[at] - want[at]) / magnitude);
        }
      EXPECT_GT(furthest, 0x1p-16) << "nothing was rounded";
    }
}

}  // namespace
}  // namespace quern
