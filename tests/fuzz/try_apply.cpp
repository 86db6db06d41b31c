// libFuzzer: bytes pick a kernel, a target and a sequence of opts, sensible and not. try_apply throws nothing and leaves a kernel
// it refuses as it was; apply throws OptError only; whatever was applied, there is an optimized AST.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>

#include "quern/error.h"

#include "optimize/kernels.h"

namespace {

using namespace quern;
using namespace quern::test;

const std::vector<std::function<UOp(Graph&)>>& kernels() {
  static const std::vector<std::function<UOp(Graph&)>> all = {
      [](Graph& g) { return add_kernel(g, {1}); },
      [](Graph& g) { return add_kernel(g, {12, 35}); },
      [](Graph& g) { return padded_stack(g); },
      [](Graph& g) { return row_sums(g, 30, 250); },
      [](Graph& g) { return row_sums(g, 16, 96, Scalar::Half, Op::Max); },
      [](Graph& g) { return sums_of_exp2(g, 32, 64); },
      [](Graph& g) { return matvec(g, 64, 64); },
      [](Graph& g) { return matmul(g, 64, 64, 64, Scalar::Half, Scalar::Float); },
      [](Graph& g) { return matmul(g, 60, 36, 18, Scalar::Float, Scalar::Float); },
      [](Graph& g) { return max_of_row_sums(g, 4, 12, 48); },
      [](Graph& g) { return row_sums_of_images(g, 1, 8, 64); },
      [](Graph& g) {
        const SInt n = g.variable("n", 1, 10);
        return stored(load(g, 1, Scalar::Float, tracker({n, 12})), {n, 12});
      }};
  return all;
}

const std::vector<std::string>& targets() {
  static const std::vector<std::string> names = target_names();
  return names;
}

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  uint8_t next() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

/// Mostly small numbers and 0; now and then huge or negative ones, or none.
std::optional<int> number(Bytes& bytes) {
  constexpr int kOdd[] = {-1, -64, 1 << 30, INT32_MAX, INT32_MIN, 4096, 65536, 1000003};
  const uint8_t b = bytes.next();
  if (b < 200) return b % 40;
  if (b < 240) return (b - 200) * 8;
  if (b < 248) return kOdd[b - 240];
  return std::nullopt;
}

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(data, size);
  Graph graph;
  const UOp ast = kernels()[bytes.next() % kernels().size()](graph);
  const Target& target = find_target(targets()[bytes.next() % targets().size()]);
  Kernel kernel(ast, target, static_cast<TensorCoreUse>(bytes.next() % 4));
  for (int steps = 0; steps < 12 && !bytes.empty(); ++steps) {
    const auto op = static_cast<OptOp>(bytes.next() % 10);
    const std::optional<int> axis = number(bytes), amount = number(bytes);
    const Opt opt{op, axis, amount};
    const Kernel before = kernel;
    if (kernel.try_apply(opt)) {
      require(kernel == before);
      try {
        kernel.apply(opt);
        require(false);
      } catch (const OptError&) {
      }
      require(kernel == before);
    } else {
      require(kernel.applied_opts().size() == before.applied_opts().size() + 1);
    }
  }
  require(kernel.optimized_ast().is(Op::Sink));
  require(!kernel.name().empty());
  return 0;
}
