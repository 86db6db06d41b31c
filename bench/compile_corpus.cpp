// Compiles every kernel of a corpus, text to source, on one thread, and prints the times a kernel and the peak memory.
//   bench_compile_corpus [--target T,...] [--opts heuristic] [--limit N] FILE...
// With no file it takes the kernels of examples/kernels.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numeric>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sys/resource.h>

#include "engine/compile.h"
#include "engine/corpus.h"
#include "ir/text.h"

namespace {

using namespace quern;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

long peak_memory_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

void measure(const std::vector<CorpusItem>& items, const Target& target, const std::string& opts, int show) {
  std::vector<std::pair<double, size_t>> times;
  size_t failed = 0;
  auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < items.size(); ++i) {
    auto begin = std::chrono::steady_clock::now();
    try {
      Graph graph;
      compile(parse(graph, items[i].text), target, {.opts = opts});
      times.emplace_back(seconds_since(begin), i);
    } catch (const Error& e) {
      if (failed++ < 3) fmt::print(stderr, "{}: {}\n", items[i].key, e.what());
    }
  }
  double total = seconds_since(start);
  if (times.empty()) return;
  std::sort(times.begin(), times.end());
  double sum = std::accumulate(times.begin(), times.end(), 0.0, [](double s, const auto& t) { return s + t.first; });
  auto ms = [&](double quantile) {
    return times[static_cast<size_t>(quantile * static_cast<double>(times.size() - 1))].first * 1e3;
  };
  fmt::print(
      "{:<12} {:>6} kernels  mean {:.3f} ms  median {:.3f}  p99 {:.3f}  worst {:.3f} ({})  {:.0f} kernels/s  peak {} "
      "MB{}\n",
      target.name, times.size(), sum / static_cast<double>(times.size()) * 1e3, ms(0.5), ms(0.99), ms(1),
      items[times.back().second].key, static_cast<double>(times.size()) / total, peak_memory_mb(),
      failed ? fmt::format("  {} failed", failed) : "");
  for (int i = 0; i < show && static_cast<size_t>(i) < times.size(); ++i) {
    const auto& [time, at] = times[times.size() - 1 - static_cast<size_t>(i)];
    fmt::print("    {:.3f} ms {}\n", time * 1e3, items[at].key);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Times the compilation of a corpus"};
  std::vector<std::string> files, targets{"llvm"};
  std::string opts = "heuristic";
  size_t limit = 0, sample = 0;
  int show = 0;
  app.add_option("FILE", files);
  app.add_option("--target", targets)->delimiter(',')->allow_extra_args(false);
  app.add_option("--opts", opts);
  app.add_option("--limit", limit, "only the first so many kernels");
  app.add_option("--sample", sample, "only so many kernels, evenly spread");
  app.add_option("--slowest", show, "list this many of the slowest");
  CLI11_PARSE(app, argc, argv);
  if (files.empty())
    for (const auto& entry : std::filesystem::directory_iterator(QUERN_SOURCE_DIR "/examples/kernels"))
      files.push_back(entry.path().string());
  std::vector<CorpusItem> items;
  for (const std::string& f : files)
    for (CorpusItem& item : read_corpus(f)) items.push_back(std::move(item));
  if (sample && sample < items.size()) {
    std::vector<CorpusItem> some;
    for (size_t i = 0; i < sample; ++i) some.push_back(items[i * items.size() / sample]);
    items = std::move(some);
  }
  if (limit && limit < items.size()) items.resize(limit);
  for (const std::string& t : targets) measure(items, find_target(t), opts, show);
}
