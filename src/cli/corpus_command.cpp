#include <map>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <unistd.h>

#include "quern/error.h"

#include "base/parallel.h"
#include "base/workers.h"
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
  double timeout = 600;
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

/// The opts that a kernel is run with, one part of its task each: those asked for, then the walks.
int parts_of(const Options& o) { return o.walks + (o.walks == 0 || !o.opts.empty() ? 1 : 0); }

std::string opts_of_part(UOp ast, const Target& target, const Options& o, int part) {
  const int walk = part - (parts_of(o) - o.walks);
  return walk < 0 ? o.opts : random_walk(ast, target, o.walk_length, o.seed + static_cast<uint64_t>(walk));
}

/// What became of one part, as it goes between processes.
constexpr const char* kVerdicts[] = {"match", "mismatch", "skipped", "failed"};

Json result_json(const CheckResult& r, const std::string& opts) {
  return {{"verdict", kVerdicts[static_cast<int>(r.kind)]}, {"note", r.note}, {"sampled", r.sampled}, {"opts", opts}};
}

/// Runs a kernel with the opts of all parts from `first` on, and compares.
void execute(const CorpusItem& item, Device& device, const Target& target, const Options& o, const Context& context,
             int first, const std::function<void(std::string_view)>& part) {
  Graph graph;
  std::optional<UOp> ast;
  CheckLimits limits;
  limits.max_ops = o.max_ops;
  KernelCheck check(device, o.seed, limits);
  for (int k = first; k < parts_of(o); ++k) {
    std::string opts;
    try {
      if (!ast) ast = parse(graph, item.text);
      opts = opts_of_part(*ast, target, o, k);
      part(text_of(result_json(check(optimize(*ast, target, context.optimize_options(opts))), opts)));
    } catch (const Error& e) {
      part(text_of(result_json({.kind = CheckResult::Kind::Failed, .note = e.what()}, opts)));
      if (!ast) return;
    }
  }
}

/// Adds what became of one part to the kernel's outcome.
void take_in(Outcome& out, const CorpusItem& item, const Target& target, const Options& o, const Json& result,
             Context& context) {
  const std::string verdict = result["verdict"];
  const std::string note = result["note"];
  const std::string opts = result["opts"];
  context.record(item.text, target, context.optimize_options(opts));
  ++out.counts[verdict];
  if (verdict == "match" && result["sampled"]) ++out.counts["match on a sample of the outputs"];
  if (verdict == "skipped") ++out.counts["skipped: " + note];
  if (verdict != "match" && verdict != "skipped")
    out.line += text_of({{"h", item.key}, {"t", target.name}, {"opts", opts}, {"seed", o.seed}, {"note", note}}) + "\n";
}

void progress(size_t done, size_t total) {
  if (!isatty(2)) return;
  fmt::print(stderr, "\r{} of {}{}", done, total, done == total ? "\n" : "");
  std::fflush(stderr);
}

std::vector<CorpusItem> read_items(const Options& o) {
  std::vector<CorpusItem> items;
  for (const std::string& f : o.files)
    for (CorpusItem& item : read_corpus(f)) items.push_back(std::move(item));
  if (o.sample && o.sample < items.size()) {  // evenly spread
    std::vector<CorpusItem> some;
    for (size_t i = 0; i < o.sample; ++i) some.push_back(std::move(items[i * items.size() / o.sample]));
    items = std::move(some);
  }
  if (o.limit && o.limit < items.size()) items.resize(o.limit);
  return items;
}

/// Prints what there is to print as kernels come in, and adds up the counts.
class Tally {
 public:
  explicit Tally(size_t total) : outcomes_(total) {}
  Outcome& operator[](size_t i) { return outcomes_[i]; }
  void done(size_t i) {
    fmt::print("{}", outcomes_[i].line);
    for (const auto& [name, n] : outcomes_[i].counts) counts_[name] += n;
    outcomes_[i] = {};
    progress(i + 1, outcomes_.size());
  }
  std::string summary() const {
    std::string text;
    for (const auto& [name, n] : counts_) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", n, name);
    return text;
  }
  int of(const std::string& name) const { return counts_.contains(name) ? counts_.at(name) : 0; }

 private:
  std::vector<Outcome> outcomes_;
  std::map<std::string, int> counts_;
};

void compile_all(const std::vector<CorpusItem>& items, const std::vector<const Target*>& targets, const Options& o,
                 Tally& tally, Context& context) {
  auto work = [&](size_t i) {
    Json j = decide(items[i / targets.size()], *targets[i % targets.size()], context.optimize_options(o.opts), o.source,
                    context);
    ++tally[i].counts[j.contains("err") ? "failed" : "compiled"];
    if (o.emit == "jsonl" || j.contains("err")) tally[i].line = text_of(j) + "\n";
  };
  parallel_in_order(items.size() * targets.size(), o.jobs, work, [&](size_t i) { tally.done(i); });
}

/// In processes of their own: a driver's compiler that aborts, or a kernel that crashes, is one line of the result.
void execute_all(const std::vector<CorpusItem>& items, size_t target_count, const Options& o, Tally& tally,
                 Context& context) {
  std::vector<const Target*> targets;
  ProcessWork work;
  work.start = [&]() -> ProcessWork::Started {
    std::shared_ptr<Device> device = open_device(o.device, context.settings);
    std::vector<const Target*> own;
    for (const std::string& t : o.targets) own.push_back(&target_for(*device, t));
    if (own.empty()) own.push_back(&device->default_target());
    std::vector<std::string> names;
    for (const Target* t : own) names.push_back(t->name);
    return {[&, device, own](size_t index, size_t first, const std::function<void(std::string_view)>& part) {
              execute(items[index / own.size()], *device, *own[index % own.size()], o, context, static_cast<int>(first),
                      part);
            },
            fmt::format("{}", fmt::join(names, " "))};
  };
  work.ready = [&](std::string_view names) {
    targets.clear();
    std::istringstream all{std::string(names)};
    for (std::string name; all >> name;) targets.push_back(&find_target(name));
  };
  work.part = [&](size_t i, std::string_view result) {
    take_in(tally[i], items[i / target_count], *targets[i % target_count], o, Json::parse(result), context);
  };
  work.lost = [&](size_t i, size_t part, const std::string& how) {
    const CorpusItem& item = items[i / target_count];
    const Target& target = *targets[i % target_count];
    Graph graph;
    const std::string opts = opts_of_part(parse(graph, item.text), target, o, static_cast<int>(part));
    const CheckResult result{.kind = CheckResult::Kind::Failed, .note = "the process was lost: " + how};
    take_in(tally[i], item, target, o, result_json(result, opts), context);
  };
  work.done = [&](size_t i) { tally.done(i); };
  work_in_processes(items.size() * target_count, o.jobs, o.timeout, work);
}

void run_corpus(const Options& o, Context& context) {
  const std::vector<CorpusItem> items = read_items(o);
  (void)context.optimize_options(o.opts);  // a wrong list of opts is one error, not one a kernel
  const size_t target_count = std::max<size_t>(o.targets.size(), 1);
  Tally tally(items.size() * target_count);
  if (o.device.empty()) {
    std::vector<const Target*> targets;
    for (const std::string& t : o.targets) targets.push_back(&find_target(t));
    if (targets.empty()) targets.push_back(&own_cpu_target());
    compile_all(items, targets, o, tally, context);
  } else {
    execute_all(items, target_count, o, tally, context);
  }
  if (o.emit != "jsonl") fmt::print("{} kernels, {} targets: {}\n", items.size(), target_count, tally.summary());
  if (tally.of("mismatch") + tally.of("failed") > 0) context.status = 1;
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
  sub->add_option("--timeout", o->timeout, "With --execute: seconds after which a kernel counts as hung (0: never)")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->needs(device);
  sub->add_option("--jobs", o->jobs, "Threads; with --execute, processes")->check(at_least(1))->capture_default_str();
  sub->add_option("--sample", o->sample, "Only this many kernels, evenly spread")->check(at_least(0));
  sub->add_option("--limit", o->limit, "Only the first so many")->check(at_least(0));
  sub->callback([o, &context] { run_corpus(*o, context); });
}

}  // namespace quern::cli
