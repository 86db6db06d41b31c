#include <map>

#include <fmt/format.h>
#include <unistd.h>

#include "quern/error.h"

#include "base/parallel.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/json_records.h"
#include "engine/check.h"
#include "engine/compile.h"
#include "engine/corpus.h"
#include "engine/records.h"
#include "ir/text.h"

namespace quern::cli {

namespace {

struct Options {
  std::vector<std::string> files;
  std::vector<std::string> targets;
  std::string opts;
  std::string emit;
  std::string device;
  bool check = false;
  bool source = false;
  int jobs = 1;
  size_t limit = 0;
  size_t sample = 0;
  int walks = 0;
  int walk_length = 4;
  uint64_t seed = 1;
  double max_ops = 2e10;
};

/// What is printed for one kernel and target.
struct Outcome {
  std::string line;
  std::map<std::string, int> counts;
};

/// Without the source, the decision alone, which targets that cannot express the kernel (images) have too: launch dims come from
/// the linear program all the same.
Json decide(const CorpusItem& item, const Target& target, const OptimizeOptions& options, bool source,
            Context& context) {
  try {
    context.record(item.text, target, options);
    Graph graph;
    UOp ast = parse(graph, item.text);
    Kernel kernel = optimize(ast, target, options);
    Program program = source ? compile(kernel) : compile_decisions(kernel);
    Json j = json_of(decision_of(Kernel(ast, target), kernel, program), item.key, target.name);
    if (source) j["source"] = program.source;
    return j;
  } catch (const Error& e) {
    return Json{{"h", item.key}, {"t", target.name}, {"err", e.what()}};
  }
}

Outcome execute(const CorpusItem& item, Device& device, const Target& target, const Options& o, Context& context) {
  Outcome out;
  Graph graph;
  try {
    UOp ast = parse(graph, item.text);
    CheckLimits limits;
    limits.max_ops = o.max_ops;
    KernelCheck check(device, o.seed, limits);
    auto one = [&](const std::string& opts) {
      OptimizeOptions options = context.optimize_options(opts);
      context.record(item.text, target, options);
      CheckResult r = check(optimize(ast, target, options));
      static constexpr const char* kNames[] = {"match", "mismatch", "skipped", "failed"};
      ++out.counts[kNames[static_cast<int>(r.kind)]];
      if (r.kind == CheckResult::Kind::Match && r.sampled) ++out.counts["match on a sample of the outputs"];
      if (r.kind == CheckResult::Kind::Skipped) ++out.counts["skipped: " + r.note];
      if (r.kind == CheckResult::Kind::Mismatch || r.kind == CheckResult::Kind::Failed)
        out.line +=
            text_of({{"h", item.key}, {"t", target.name}, {"opts", opts}, {"seed", o.seed}, {"note", r.note}}) + "\n";
    };
    if (o.walks == 0 || !o.opts.empty()) one(o.opts);
    for (int w = 0; w < o.walks; ++w) one(random_walk(ast, target, o.walk_length, o.seed + static_cast<uint64_t>(w)));
  } catch (const Error& e) {
    ++out.counts["failed"];
    out.line += text_of({{"h", item.key}, {"t", target.name}, {"note", e.what()}}) + "\n";
  }
  return out;
}

void progress(size_t done, size_t total) {
  if (!isatty(2)) return;
  fmt::print(stderr, "\r{} of {}{}", done, total, done == total ? "\n" : "");
  std::fflush(stderr);
}

void run_corpus(const Options& o, Context& context) {
  std::vector<CorpusItem> items;
  for (const std::string& f : o.files)
    for (CorpusItem& item : read_corpus(f)) items.push_back(std::move(item));
  if (o.sample && o.sample < items.size()) {  // evenly spread
    std::vector<CorpusItem> some;
    for (size_t i = 0; i < o.sample; ++i) some.push_back(std::move(items[i * items.size() / o.sample]));
    items = std::move(some);
  }
  if (o.limit && o.limit < items.size()) items.resize(o.limit);

  std::shared_ptr<Device> device = o.device.empty() ? nullptr : open_device(o.device, context.settings);
  (void)context.optimize_options(o.opts);  // a wrong list of opts is one error, not one a kernel
  std::vector<const Target*> targets;
  for (const std::string& t : o.targets) targets.push_back(device ? &target_for(*device, t) : &find_target(t));
  if (targets.empty()) targets.push_back(device ? &device->default_target() : &own_cpu_target());

  std::map<std::string, int> counts;
  size_t total = items.size() * targets.size();
  std::vector<Outcome> outcomes(total);
  auto work = [&](size_t i) {
    const CorpusItem& item = items[i / targets.size()];
    const Target& target = *targets[i % targets.size()];
    if (device) {
      outcomes[i] = execute(item, *device, target, o, context);
      return;
    }
    Json j = decide(item, target, context.optimize_options(o.opts), o.source, context);
    ++outcomes[i].counts[j.contains("err") ? "failed" : "compiled"];
    if (o.emit == "jsonl" || j.contains("err")) outcomes[i].line = text_of(j) + "\n";
  };
  auto done = [&](size_t i) {
    fmt::print("{}", outcomes[i].line);
    for (const auto& [name, n] : outcomes[i].counts) counts[name] += n;
    outcomes[i] = {};
    progress(i + 1, total);
  };
  parallel_in_order(total, o.jobs, work, done);
  std::string summary;
  for (const auto& [name, n] : counts) summary += fmt::format("{}{} {}", summary.empty() ? "" : ", ", n, name);
  if (o.emit != "jsonl") fmt::print("{} kernels, {} targets: {}\n", items.size(), targets.size(), summary);
  if (counts["mismatch"] + counts["failed"] > 0) context.status = 1;
}

}  // namespace

void add_corpus(CLI::App& app, Context& context) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("corpus", "Compile, or run and check, many kernels");
  sub->add_option("FILE", o->files,
                  "Kernels: JSON lines with \"h\" and \"ast\", or kernels in the notation; .gz or not")
      ->required();
  sub->add_option("--target", o->targets, "Targets")->delimiter(',')->allow_extra_args(false);
  sub->add_option("--opts", o->opts, "heuristic (default), reference, none, or a list of opts");
  CLI::Option* emit =
      sub->add_option("--emit", o->emit, "jsonl: an object a kernel and target")->check(CLI::IsMember({"jsonl"}));
  sub->add_flag("--source", o->source, "With --emit: the objects have the source too")->needs(emit);
  CLI::Option* device =
      sub->add_option("--execute", o->device, "Run each kernel on this device and compare with the plain kernel");
  sub->add_flag("--check", o->check, "Compare (always done with --execute)")->needs(device);
  sub->add_option("--walks", o->walks,
                  "With --execute: this many random walks of legal opts, and --opts only if it is given")
      ->check(at_least(0))
      ->needs(device);
  sub->add_option("--walk-length", o->walk_length, "Opts a walk")->check(at_least(0))->capture_default_str();
  sub->add_option("--seed", o->seed, "Seed of inputs and walks")->check(at_least(0))->capture_default_str();
  sub->add_option("--max-ops", o->max_ops, "With --execute: skip kernels with more operations")->capture_default_str();
  sub->add_option("--jobs", o->jobs, "Threads")->check(at_least(1))->capture_default_str();
  sub->add_option("--sample", o->sample, "Only this many kernels, evenly spread")->check(at_least(0));
  sub->add_option("--limit", o->limit, "Only the first so many")->check(at_least(0));
  sub->callback([o, &context] { run_corpus(*o, context); });
}

}  // namespace quern::cli
