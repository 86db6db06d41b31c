#include <cmath>
#include <csignal>

#include <fmt/format.h>
#include <unistd.h>

#include "quern/error.h"

#include "cli/commands.h"
#include "cli/input.h"
#include "engine/tune.h"

namespace quern::cli {

namespace {

struct Options {
  std::string file;
  std::string device = "CPU";
  std::string target;
  int64_t beam = 0;
  double budget = 0;
  int64_t candidates = 0;
  bool again = false;
  uint64_t seed = 1;
};

// A signal handler can reach nothing else.
volatile std::sig_atomic_t interrupted = 0;

/// While it lives, the first Ctrl-C asks the search to end; a second one ends the program as ever.
class Interruptible {
 public:
  Interruptible() {
    interrupted = 0;
    previous_ = std::signal(SIGINT, [](int) {
      interrupted = 1;
      std::signal(SIGINT, SIG_DFL);
    });
  }
  ~Interruptible() { std::signal(SIGINT, previous_); }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  void (*previous_)(int);
};

void show(const BeamProgress& p, double budget) {
  if (isatty(2) == 0) return;
  const std::string left = budget > 0 ? fmt::format(", {:.0f} s left", std::max(0.0, budget - p.elapsed)) : "";
  fmt::print(stderr, "\r{:.1f} s{}: step {}, {} tried, best {}\033[K", p.elapsed, left, p.step, p.tried,
             std::isinf(p.best) ? "none yet" : fmt::format("{:.1f} us {}", p.best * 1e6, p.opts));
  std::fflush(stderr);
}

void run_tune(const Options& o, Context& context) {
  LoadedKernel k = load_kernel(o.file);
  std::shared_ptr<Device> device = open_device(o.device, context.settings);
  const Target& target = target_for(*device, o.target);
  Tuned tuned = context.tune(k.ast, *device, target, [&](TuningOptions& t) {
    if (o.beam > 0) t.beam.width = static_cast<int>(o.beam);
    if (t.beam.width == 0) t.beam.width = 4;
    if (o.budget > 0) t.beam.seconds = o.budget;
    if (o.candidates > 0) t.beam.max_candidates = o.candidates;
    t.beam.seed = o.seed;
    t.search_again |= o.again;
    t.progress = [budget = o.budget](const BeamProgress& p) { show(p, budget); };
  });
  const TuningResult& r = tuned.result;
  fmt::print("opts      {}\ntime      {:.2f} us\n", r.opts, r.seconds * 1e6);
  if (tuned.known) {
    fmt::print("known     from {} candidates, {}\n", r.tried, tuning_file(context.settings).string());
    return;
  }
  if (!std::isinf(tuned.hand_coded_seconds))
    fmt::print("hand-coded opts {:.2f} us, {:.2f} times as long\n", tuned.hand_coded_seconds * 1e6,
               tuned.hand_coded_seconds / r.seconds);
  fmt::print("tried     {} candidates{}\n", r.tried, r.complete ? "" : "; ended before the search was complete");
  for (const auto& [why, n] : tuned.search.left_out) fmt::print("left out  {}: {}\n", n, why);
}

}  // namespace

Tuned Context::tune(UOp ast, Device& device, const Target& target, const std::function<void(TuningOptions&)>& adjust) {
  TuningOptions options;
  options.beam = beam_options(settings);
  options.optimize = optimize_options("none");
  options.database = tuning_database();
  options.search_again = settings.number("IGNORE_BEAM_CACHE") != 0;
  options.stop = [] { return interrupted != 0; };
  if (adjust) adjust(options);
  Interruptible guard;
  Tuned tuned = quern::tune(ast, device, target, options);
  if (options.progress && isatty(2) != 0) fmt::print(stderr, "\r\033[K");
  return tuned;
}

void add_tune(CLI::App& app, Context& context) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("tune", "Search for a kernel's fastest opts, and keep them");
  sub->add_option("FILE", o->file, "Kernel in the reference notation, .gz or not; - is standard input")->required();
  sub->add_option("--device", o->device, "Device (quern devices lists them)")->capture_default_str();
  sub->add_option("--target", o->target, "Target to compile for, if not the device's own");
  sub->add_option("--beam", o->beam, "Kernels that each step goes on from (4, or setting BEAM)")->check(at_least(1));
  sub->add_option("--budget", o->budget, "Time to search, such as 30s or 2m; without, until a step gains nothing")
      ->transform(CLI::AsNumberWithUnit(std::map<std::string, double>{{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}},
                                        CLI::AsNumberWithUnit::CASE_SENSITIVE, "TIME"))
      ->check(CLI::PositiveNumber);
  sub->add_option("--candidates", o->candidates, "Candidates to run at most")->check(at_least(1));
  sub->add_flag("--again", o->again, "Search for what is known too");
  sub->add_option("--seed", o->seed, "Seed of the inputs and of the order of candidates")
      ->check(at_least(0))
      ->capture_default_str();
  sub->callback([o, &context] { run_tune(*o, context); });
}

}  // namespace quern::cli
