// Builds a kernel, compiles it for this CPU and runs it: out = relu(a @ b), 64 x 96 times 96 x 32.
#include <cmath>
#include <cstdio>
#include <vector>

#include <quern/quern.h>

int main() {
  const int64_t m = 64, n = 32, k = 96;
  quern::KernelBuilder builder;
  quern::Value a = builder.load(1, quern::DataType::Float, {m, k}).reshape({m, 1, k});
  quern::Value b = builder.load(2, quern::DataType::Float, {k, n}).permute({1, 0}).reshape({1, n, k});
  builder.store(0, quern::maximum(quern::sum(a * b, {2}), 0));
  quern::CompiledKernel relu_matmul = quern::compile(builder.build());

  std::vector<float> left(m * k), right(k * n), out(m * n);
  for (size_t i = 0; i < left.size(); ++i) left[i] = static_cast<float>(i % 7) - 3;
  for (size_t i = 0; i < right.size(); ++i) right[i] = static_cast<float>(i % 5) - 2;
  double seconds = relu_matmul.run({quern::array(out), quern::array(left), quern::array(right)});

  double worst = 0;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t x = 0; x < k; ++x) sum += left[i * k + x] * right[x * n + j];
      worst = std::fmax(worst, std::fabs(out[i * n + j] - std::fmax(sum, 0)));
    }
  std::printf("%s with %s: %.1f us, off by %g at most\n", relu_matmul.name().c_str(), relu_matmul.opts().c_str(),
              seconds * 1e6, worst);
  return worst < 1e-3 ? 0 : 1;
}
