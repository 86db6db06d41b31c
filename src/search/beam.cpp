#include "search/beam.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <utility>

#include "quern/error.h"

#include "base/log.h"
#include "base/parallel.h"

namespace quern {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kHopeless = 3;      // times the best: one run is enough to see it
constexpr double kClose = 1.05;      // times the last that is kept: worth a second look
constexpr double kCopyByte = 2e-8;   // seconds that copying a byte takes at most, and
constexpr double kCheckByte = 1e-7;  // comparing it
constexpr int kBatchPerThread = 16;  // candidates compiled before they are timed

struct Candidate {
  Kernel kernel;
  std::optional<BuiltProgram> built;
  std::unique_ptr<Executable> executable;  // freed before the graph of its program
  double seconds = kNever;
  bool right = false;
};
using Candidates = std::vector<std::unique_ptr<Candidate>>;

const char* text_of(TrialReport::Kind kind) {
  switch (kind) {
    case TrialReport::Kind::Wrong: return "wrong";
    case TrialReport::Kind::Crashed: return "crashed";
    case TrialReport::Kind::TimedOut: return "did not end";
    default: return "failed";
  }
}

/// UOps, without lanes that are named one by one where vectors are shuffled.
int64_t length_of(const LinearProgram& linear) {
  return std::ranges::count_if(linear.uops, [](UOp u) { return !u.is(Op::Gep); });
}

class BeamSearch {
 public:
  BeamSearch(const BeamEnvironment& environment, const BeamOptions& options)
      : env_(environment), options_(options), random_(options.seed) {
    for (const std::unique_ptr<Buffer>& b : *environment.data.buffers) buffer_bytes_ += static_cast<double>(b->bytes());
  }

  BeamResult run(const std::vector<Kernel>& starts) {
    std::unique_ptr<Candidate> winner;
    for (const Kernel& start : starts) {
      result_.start_seconds.push_back(kNever);
      cut_ |= winner && is_over();
      if (cut_) continue;
      std::unique_ptr<Candidate> found = climb(start);
      if (found && (!winner || found->seconds < winner->seconds)) winner = std::move(found);
    }
    if (!winner) throw Error("no kernel to search from runs: " + last_trouble_);
    result_.complete = !cut_;
    result_.opts = winner->kernel.applied_opts();
    result_.seconds = winner->seconds;
    return std::move(result_);
  }

 private:
  /// The fastest from one start on; null if that does not run.
  std::unique_ptr<Candidate> climb(const Kernel& start) {
    seen_.clear();
    best_ = kNever;
    step_ = 0;
    Candidates beam;
    beam.push_back(candidate(start));
    try_all(beam);
    beam = best_of(std::move(beam));
    if (beam.empty()) return nullptr;
    result_.start_seconds.back() = beam.front()->seconds;
    bool gains = true;
    for (step_ = 1; gains && !is_cut(); ++step_) {
      Candidates next = children(beam);
      try_all(next);
      next = best_of(std::move(next));
      const double before = beam.front()->seconds;
      gains = !next.empty() && next.front()->seconds < before - options_.min_progress &&
              next.front()->seconds > options_.min_progress;
      if (gains) {
        beam = std::move(next);
      } else if (!next.empty() && next.front()->seconds < before) {
        beam.front() = std::move(next.front());
      }
    }
    return std::move(beam.front());
  }

  static std::unique_ptr<Candidate> candidate(Kernel kernel) {
    return std::make_unique<Candidate>(Candidate{.kernel = std::move(kernel)});
  }

  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  bool is_over() const {
    return elapsed() > options_.seconds || result_.tried >= options_.max_candidates || (env_.stop && env_.stop());
  }

  /// Whether this step ends here; the first, which tries the starts, never does.
  bool is_cut() {
    cut_ |= step_ > 0 && is_over();
    return cut_;
  }

  void leave_out(const Kernel& kernel, const std::string& why, const std::string& note) {
    ++result_.left_out[why];
    last_trouble_ = why + ": " + note;
    log_message("search: " + to_string(kernel.applied_opts()) + " is left out, " + last_trouble_);
  }

  /// Each kernel of the beam with one action more, or another amount in one, in an order by the seed: what time does not suffice for is a fair sample.
  Candidates children(const Candidates& beam) {
    Candidates all;
    for (const auto& parent : beam)
      for (int number : legal_actions(parent->kernel, options_.actions)) {
        const Opt& action = actions_for(parent->kernel.target())[static_cast<size_t>(number) - 1];
        if (action.op == OptOp::PADTO && !options_.pad) continue;
        Kernel kernel = parent->kernel;
        if (!kernel.try_apply(action)) all.push_back(candidate(std::move(kernel)));
      }
    if (options_.vary)
      for (const auto& parent : beam)
        for (Kernel& kernel : variations(parent->kernel, options_.actions)) all.push_back(candidate(std::move(kernel)));
    for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[random_() % i]);
    return all;
  }

  /// Compiles and times, some at a time, and drops what does not run.
  void try_all(Candidates& all) {
    const size_t batch = static_cast<size_t>(std::max(options_.jobs, 1)) * kBatchPerThread;
    for (size_t from = 0; from < all.size(); from += batch) {
      const size_t to = std::min(all.size(), from + batch);
      if (is_cut()) break;
      parallel_in_order(to - from, options_.jobs, [&](size_t i) { compile(*all[from + i]); }, [](size_t) {});
      for (size_t i = from; i < to && !is_cut(); ++i)
        if (all[i]->executable) time(*all[i]);
    }
    std::erase_if(all, [](const auto& c) { return c->seconds == kNever; });
  }

  void compile(Candidate& c) {
    try {
      c.built = env_.build(c.kernel.applied_opts());
      const Program& program = c.built->program;
      {
        std::lock_guard lock(mutex_);
        if (!seen_.insert(print_linear(program.linear)).second) {
          ++result_.left_out["the same program"];
          c.built.reset();
          return;
        }
        if (options_.max_uops > 0 && length_of(program.linear) >= options_.max_uops && step_ > 0) {
          ++result_.left_out["too long"];
          c.built.reset();
          return;
        }
      }
      c.executable = env_.device->compile(program);
    } catch (const Error& e) {
      std::lock_guard lock(mutex_);
      leave_out(c.kernel, "failed", e.what());
      c.executable.reset();
      c.built.reset();
    }
  }

  void time(Candidate& c) {
    ++result_.tried;
    TrialReport report = trial(c, {}, best_ * kHopeless);
    if (report.kind == TrialReport::Kind::Timed) {
      c.seconds = std::min(c.seconds, report.seconds);
      best_ = std::min(best_, c.seconds);
      if (c.seconds < shown_) {
        shown_ = c.seconds;
        shown_opts_ = to_string(c.kernel.applied_opts());
      }
    } else {
      leave_out(c.kernel, text_of(report.kind), report.note);
    }
    if (env_.progress) env_.progress({shown_, shown_opts_, result_.tried, step_, elapsed()});
  }

  TrialReport trial(const Candidate& c, const OutputCheck& check, double stop_above) {
    TrialLimits limits;
    limits.stop_above = stop_above;
    limits.timeout = std::min(options_.candidate_seconds, std::max(1.0, 20 * best_)) +
                     (check ? kCheckByte : kCopyByte) * buffer_bytes_;
    // A process's threads are there only after some milliseconds: what they share takes that much longer to show its time.
    const std::vector<Axis>& axes = c.kernel.axes();
    if (!axes.empty() && axes[0].kind == AxisKind::Thread) limits.spend *= 5;
    env_.device->before_fork();
    return run_trial(*c.executable, c.built->program.globals, env_.data, limits, env_.device->survives_fork(), check);
  }

  static void sort(Candidates& all) {
    std::ranges::sort(all, [](const auto& a, const auto& b) {
      return std::tie(a->seconds, a->kernel.applied_opts()) < std::tie(b->seconds, b->kernel.applied_opts());
    });
  }

  /// The fastest, at most `width`, whose outputs are right.
  Candidates best_of(Candidates all) {
    sort(all);
    const auto width = static_cast<size_t>(std::max(options_.width, 1));
    if (all.size() > width) {
      const double limit = all[width - 1]->seconds * kClose;
      for (size_t i = 0; i < std::min(all.size(), 2 * width) && all[i]->seconds <= limit && !is_over(); ++i)
        look_again(*all[i]);
      sort(all);
    }
    Candidates best;
    for (auto& c : all) {
      if (best.size() == width) break;
      if (is_right(*c)) best.push_back(std::move(c));
    }
    if (!best.empty()) best_ = std::min(best_, best.front()->seconds);
    return best;
  }

  void look_again(Candidate& c) {
    TrialReport report = trial(c, {}, best_ * kHopeless);
    if (report.kind == TrialReport::Kind::Timed) c.seconds = std::min(c.seconds, report.seconds);
  }

  bool is_right(Candidate& c) {
    if (!env_.check || c.right) return true;
    TrialReport report = trial(c, [&](std::span<Buffer* const> buffers) { return env_.check(c.kernel, buffers); }, 0);
    c.right = report.kind == TrialReport::Kind::Timed;
    if (!c.right) {
      leave_out(c.kernel, text_of(report.kind), report.note);
      if (shown_opts_ == to_string(c.kernel.applied_opts())) shown_ = kNever;
      if (c.seconds <= best_) best_ = kNever;
    }
    return c.right;
  }

  const BeamEnvironment& env_;
  const BeamOptions& options_;
  std::mt19937_64 random_;
  double buffer_bytes_ = 0;
  const Clock::time_point start_ = Clock::now();
  int step_ = 0;
  bool cut_ = false;
  double best_ = kNever;   // seconds, from this start on
  double shown_ = kNever;  // and of all
  std::string shown_opts_;
  std::string last_trouble_ = "all were left out";
  std::mutex mutex_;  // guards what follows while candidates are compiled
  std::set<std::string> seen_;
  BeamResult result_;
};

}  // namespace

BeamResult beam_search(const std::vector<Kernel>& starts, const BeamEnvironment& environment,
                       const BeamOptions& options) {
  return BeamSearch(environment, options).run(starts);
}

}  // namespace quern
