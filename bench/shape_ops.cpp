// Time of single view operations, as kernels use them: bench_shape_ops [--benchmark_filter=...]

#include <benchmark/benchmark.h>

#include "ir/graph.h"
#include "shape/shapetracker.h"

namespace quern {
namespace {

/// A padded image read by a strided 7x7 convolution: two views that do not merge.
ShapeTracker convolution() {
  View padded = make_view({1, 1, 1, 3, 8, 230, 8, 230}, {0, 0, 0, 50176, 0, 224, 0, 1}, -675,
                          Mask{{0, 1}, {0, 1}, {0, 1}, {0, 3}, {0, 8}, {3, 227}, {0, 8}, {3, 227}});
  View windows = make_view({1, 1, 64, 112, 112, 3, 7, 7}, {0, 0, 0, 3680, 2, 3385600, 425040, 231});
  return {{padded, windows}};
}

ShapeTracker plain() { return permute(tracker({32, 64, 16, 16}), std::vector{0, 2, 3, 1}); }
ShapeTracker masked() { return pad(plain(), Mask{{0, 0}, {1, 1}, {1, 1}, {0, 0}}); }

void reshape_plain(benchmark::State& state) {
  ShapeTracker st = plain();
  for (auto _ : state) benchmark::DoNotOptimize(reshape(st, {8, 4, 16, 16, 16, 4}));
}
BENCHMARK(reshape_plain);

void reshape_masked(benchmark::State& state) {
  ShapeTracker st = masked();
  for (auto _ : state) benchmark::DoNotOptimize(reshape(st, {8, 4, 18, 18, 16, 4}));
}
BENCHMARK(reshape_masked);

void permute_plain(benchmark::State& state) {
  ShapeTracker st = plain();
  for (auto _ : state) benchmark::DoNotOptimize(permute(st, std::vector{3, 1, 0, 2}));
}
BENCHMARK(permute_plain);

void pad_plain(benchmark::State& state) {
  ShapeTracker st = plain();
  Mask amounts{{0, 0}, {1, 1}, {1, 1}, {0, 0}};
  for (auto _ : state) benchmark::DoNotOptimize(pad(st, amounts));
}
BENCHMARK(pad_plain);

void shrink_masked(benchmark::State& state) {
  ShapeTracker st = masked();
  Mask ranges{{0, 16}, {1, 17}, {0, 9}, {0, 64}};
  for (auto _ : state) benchmark::DoNotOptimize(shrink(st, ranges));
}
BENCHMARK(shrink_masked);

void compose_permuted(benchmark::State& state) {
  ShapeTracker inner = plain(), outer = permute(tracker({32, 16, 16, 64}), std::vector{3, 1, 2, 0});
  for (auto _ : state) benchmark::DoNotOptimize(compose(inner, outer));
}
BENCHMARK(compose_permuted);

void compose_that_does_not_merge(benchmark::State& state) {
  ShapeTracker st = convolution();
  for (auto _ : state) benchmark::DoNotOptimize(simplify(st));
}
BENCHMARK(compose_that_does_not_merge);

void strides_of_one_masked_view(benchmark::State& state) {
  ShapeTracker st = masked();
  Graph graph;
  for (auto _ : state) benchmark::DoNotOptimize(real_strides(graph, st));
}
BENCHMARK(strides_of_one_masked_view);

void strides_by_index(benchmark::State& state) {
  ShapeTracker st = masked();
  Graph graph;
  for (auto _ : state) benchmark::DoNotOptimize(real_strides_by_index(graph, st));
}
BENCHMARK(strides_by_index);

void strides_of_a_convolution(benchmark::State& state) {
  ShapeTracker st = convolution();
  Graph graph;
  for (auto _ : state) benchmark::DoNotOptimize(real_strides(graph, st));
}
BENCHMARK(strides_of_a_convolution);

void strides_of_a_convolution_in_a_new_graph(benchmark::State& state) {
  ShapeTracker st = convolution();
  for (auto _ : state) {
    Graph graph;
    benchmark::DoNotOptimize(real_strides(graph, st));
  }
}
BENCHMARK(strides_of_a_convolution_in_a_new_graph);

void a_new_graph(benchmark::State& state) {
  for (auto _ : state) {
    Graph graph;
    benchmark::DoNotOptimize(graph.const_index(1));
  }
}
BENCHMARK(a_new_graph);

void index_of_a_convolution(benchmark::State& state) {
  ShapeTracker st = convolution();
  Graph graph;
  for (auto _ : state) benchmark::DoNotOptimize(index_tracker(graph, st));
}
BENCHMARK(index_of_a_convolution);

}  // namespace
}  // namespace quern

BENCHMARK_MAIN();
