#include "search/beam.h"

#include <atomic>
#include <csignal>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/error.h"

#include "ir/text.h"

namespace quern {
namespace {

/// out[i] = a[i] + b[i] over 64 x 32 floats whose axes do not merge: b's are swapped.
constexpr const char* kAdd = R"(UOp(Ops.SINK, dtypes.void, arg=None, src=(
  UOp(Ops.STORE, dtypes.void, arg=None, src=(
    UOp(Ops.DEFINE_GLOBAL, dtypes.float.ptr(), arg=0, src=()),
    UOp(Ops.VIEW, dtypes.void, arg=ShapeTracker(views=(View(shape=(64, 32), strides=(32, 1), offset=0, mask=None, contiguous=True),)), src=()),
    UOp(Ops.ADD, dtypes.float, arg=None, src=(
      UOp(Ops.LOAD, dtypes.float, arg=None, src=(
        UOp(Ops.DEFINE_GLOBAL, dtypes.float.ptr(), arg=1, src=()),
        UOp(Ops.VIEW, dtypes.void, arg=ShapeTracker(views=(View(shape=(64, 32), strides=(32, 1), offset=0, mask=None, contiguous=True),)), src=()),)),
      UOp(Ops.LOAD, dtypes.float, arg=None, src=(
        UOp(Ops.DEFINE_GLOBAL, dtypes.float.ptr(), arg=2, src=()),
        UOp(Ops.VIEW, dtypes.void, arg=ShapeTracker(views=(View(shape=(64, 32), strides=(1, 64), offset=0, mask=None, contiguous=False),)), src=()),)),)),)),)))";

/// What a pretended kernel does.
struct Behaviour {
  double seconds = 1;
  bool refused = false;  ///< by the compiler
  bool crashes = false;
  bool hangs = false;
  int32_t writes = 1;  ///< what the check looks for
};
using Model = std::function<Behaviour(const std::vector<Opt>&)>;

class PretendedExecutable final : public Executable {
 public:
  explicit PretendedExecutable(const Behaviour& does) : does_(does) {}
  double run(std::span<Buffer* const> buffers, const VarValues&) override {
    if (does_.crashes) raise(SIGSEGV);
    while (does_.hangs) std::this_thread::sleep_for(std::chrono::seconds(1));
    *reinterpret_cast<int32_t*>(buffers[0]->data()) = does_.writes;
    return does_.seconds;
  }

 private:
  Behaviour does_;
};

/// A device on which kernels take the time that a model says; a program's opts stand in its source.
class PretendedDevice final : public Device {
 public:
  explicit PretendedDevice(Model model) : model_(std::move(model)) {}
  std::string name() const override { return "PRETENDED"; }
  const Target& default_target() const override { return find_target("llvm"); }
  bool accepts(const Target&) const override { return true; }
  bool survives_fork() const override { return true; }
  std::unique_ptr<Executable> compile(const Program& program) override {
    ++compiled;
    const Behaviour does = model_(parse_opts(program.source));
    if (does.refused) throw CompileError("the compiler does not like it");
    return std::make_unique<PretendedExecutable>(does);
  }
  std::atomic<int> compiled{0};

 private:
  Model model_;
};

struct Beam : testing::Test {
  Beam() {
    buffers.push_back(std::make_unique<Buffer>(Scalar::Int32, 1));
    environment.data.buffers = &buffers;
    environment.data.globals = {0};
    environment.data.outs = {0};
    environment.check = [](const Kernel&, std::span<Buffer* const> b) {
      return *reinterpret_cast<int32_t*>(b[0]->data()) == 1 ? "" : "not 1";
    };
    environment.build = [](const std::vector<Opt>& opts) {
      BuiltProgram built{std::make_unique<Graph>(), {}};
      Kernel kernel(parse(*built.graph, kAdd), find_target("llvm"));
      kernel.apply(opts);
      built.program = describe("pretended", lower(kernel.optimized_ast(), kernel.target()), kernel.target());
      built.program.source = to_string(opts);
      built.program.globals = {0};  // the one buffer that there is here
      return built;
    };
    options.jobs = 2;
  }
  BeamResult search(Model model) {
    PretendedDevice device(std::move(model));
    environment.device = &device;
    BeamResult r = beam_search({Kernel(ast, find_target("llvm"))}, environment, options);
    compiled = device.compiled;
    return r;
  }
  static int64_t left_out(const BeamResult& r, const std::string& why) {
    auto found = r.left_out.find(why);
    return found == r.left_out.end() ? 0 : found->second;
  }
  Graph graph;
  UOp ast = parse(graph, kAdd);
  Buffers buffers;
  BeamEnvironment environment;
  BeamOptions options;
  int compiled = 0;
};

/// The more lanes, the faster, but those of axis 1 count double.
Behaviour by_lanes(const std::vector<Opt>& opts) {
  double seconds = 1;
  for (const Opt& o : opts)
    if (o.op == OptOp::UPCAST && o.amount && *o.amount > 0) seconds /= *o.amount * (*o.axis == 1 ? 2 : 1);
  return {.seconds = seconds};
}

TEST_F(Beam, goes_on_until_a_step_gains_nothing) {
  // Only UPCAST(1,4) then UPCAST(0,4) pay.
  BeamResult r = search([](const std::vector<Opt>& opts) {
    const std::string text = to_string(opts);
    if (text == "UPCAST(1,4)") return Behaviour{.seconds = 0.5};
    if (text == "UPCAST(1,4) UPCAST(0,4)") return Behaviour{.seconds = 0.25};
    return Behaviour{.seconds = 1};
  });
  EXPECT_EQ(to_string(r.opts), "UPCAST(1,4) UPCAST(0,4)");
  EXPECT_EQ(r.seconds, 0.25);
  EXPECT_TRUE(r.complete);
  EXPECT_EQ(r.start_seconds, std::vector<double>{1});
  EXPECT_GT(r.tried, 10);
}

TEST_F(Beam, climbs_from_each_start_by_itself) {
  // The first start is better than all near the other, and nothing near it is better.
  PretendedDevice device([](const std::vector<Opt>& opts) {
    const std::string text = to_string(opts);
    if (text == "UPCAST(0,4) UPCAST(0,4)") return Behaviour{.seconds = 0.5};
    if (text == "UPCAST(1,2)") return Behaviour{.seconds = 2};
    if (text == "UPCAST(1,2) SWAP(0,1)") return Behaviour{.seconds = 0.25};
    return Behaviour{.seconds = 4};
  });
  environment.device = &device;
  options.width = 1;  // the same programs are made by other opts, which the model does not know
  Kernel plain(ast, find_target("llvm")), other = plain;
  other.apply(parse_opts("UPCAST(0,4) UPCAST(0,4)"));
  BeamResult r = beam_search({other, plain}, environment, options);
  EXPECT_EQ(to_string(r.opts), "UPCAST(1,2) SWAP(0,1)");
  EXPECT_EQ(r.start_seconds, (std::vector<double>{0.5, 4}));
}

TEST_F(Beam, varies_single_opts_of_a_start_where_asked_to) {
  PretendedDevice device([](const std::vector<Opt>& opts) {
    const std::string text = to_string(opts);
    return Behaviour{.seconds = text == "UPCAST(0,2)" ? 0.5 : text == "UPCAST(0,4)" ? 1 : 2};
  });
  environment.device = &device;
  Kernel start(ast, find_target("llvm"));
  start.apply(parse_opts("UPCAST(0,4)"));
  EXPECT_EQ(to_string(beam_search({start}, environment, options).opts), "UPCAST(0,4)");
  options.vary = true;
  EXPECT_EQ(to_string(beam_search({start}, environment, options).opts), "UPCAST(0,2)");
}

TEST_F(Beam, keeps_the_start_where_nothing_is_faster) {
  BeamResult r = search([](const std::vector<Opt>& opts) { return Behaviour{.seconds = opts.empty() ? 1.0 : 2.0}; });
  EXPECT_TRUE(r.opts.empty());
  EXPECT_EQ(r.seconds, 1);
}

TEST_F(Beam, goes_around_what_crashes_never_ends_is_wrong_or_does_not_compile) {
  options.candidate_seconds = 1;  // enough for the others on a busy machine
  BeamResult r = search([](const std::vector<Opt>& opts) {
    Behaviour b = by_lanes(opts);
    const std::string text = to_string(opts);
    b.crashes = text.find("UPCAST(0,4)") != std::string::npos;
    b.hangs = text == "UPCAST(1,2)";
    b.refused = text == "SWAP(0,1)";
    if (text.starts_with("UPCAST(1,4)")) b.writes = 2;
    return b;
  });
  EXPECT_THAT(to_string(r.opts), ::testing::Not(::testing::HasSubstr("UPCAST(0,4)")));
  EXPECT_FALSE(to_string(r.opts).starts_with("UPCAST(1,4)"));
  EXPECT_FALSE(r.opts.empty());
  EXPECT_GT(left_out(r, "crashed"), 0);
  EXPECT_EQ(left_out(r, "did not end"), 1);
  EXPECT_EQ(left_out(r, "failed"), 1);
  EXPECT_GT(left_out(r, "wrong"), 0);
}

TEST_F(Beam, fails_where_not_even_the_start_runs) {
  try {
    search([](const auto&) { return Behaviour{.writes = 2}; });
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "no kernel to search from runs: wrong: not 1");
  }
}

TEST_F(Beam, compiles_the_same_program_once) {
  // Swapping twice is the start again.
  std::set<std::string> seen;
  int twice = 0;
  std::mutex mutex;
  auto build = environment.build;
  environment.build = [&](const std::vector<Opt>& opts) {
    BuiltProgram built = build(opts);
    std::lock_guard lock(mutex);
    twice += seen.insert(print_linear(built.program.linear)).second ? 0 : 1;
    return built;
  };
  BeamResult r = search([](const std::vector<Opt>& opts) {
    return Behaviour{.seconds = to_string(opts).starts_with("SWAP(0,1)") ? 0.5 : 1};
  });
  EXPECT_EQ(compiled + left_out(r, "too long"), static_cast<int>(seen.size()));
  EXPECT_EQ(left_out(r, "the same program"), twice);
  EXPECT_GT(twice, 0);
}

TEST_F(Beam, stays_inside_its_limits) {
  options.actions.max_lanes = 8;
  for (const Opt& o : search(by_lanes).opts) EXPECT_TRUE(o.op == OptOp::UPCAST || o.op == OptOp::SWAP) << to_string(o);
  EXPECT_GE(search(by_lanes).seconds, 1.0 / 64);
  options.max_candidates = 5;
  BeamResult r = search(by_lanes);
  EXPECT_EQ(r.tried, 5);
  EXPECT_FALSE(r.complete);
  options.max_candidates = 1000;
  options.seconds = 0;
  r = search(by_lanes);
  EXPECT_TRUE(r.opts.empty());
  EXPECT_FALSE(r.complete);
}

TEST_F(Beam, gives_the_best_so_far_when_asked_to_stop) {
  int64_t tried = 0;
  environment.progress = [&](const BeamProgress& p) { tried = p.tried; };
  environment.stop = [&] { return tried >= 7; };
  BeamResult r = search(by_lanes);
  EXPECT_EQ(r.tried, 7);
  EXPECT_FALSE(r.complete);
  EXPECT_LT(r.seconds, 1);
}

TEST_F(Beam, finds_the_same_by_the_same_seed) {
  options.max_candidates = 12;  // so that the order matters
  std::set<std::string> found;
  for (uint64_t seed : {1, 2, 3, 4}) {
    options.seed = seed;
    const std::string once = to_string(search(by_lanes).opts);
    EXPECT_EQ(to_string(search(by_lanes).opts), once);
    found.insert(once);
  }
  EXPECT_GT(found.size(), 1U);
}

}  // namespace
}  // namespace quern
