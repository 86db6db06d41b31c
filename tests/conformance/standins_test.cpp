// Kernels as Metal and as Hexagon C, compiled for this machine against stand-ins for Metal's library and the DSP's runtime,
// compute what the interpreter says: those whose work items need not wait for each other.
// QUERN_STANDIN_KERNELS is how many kernels are tried, 40 if it is not set.
#include <algorithm>
#include <cstdlib>

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compile_source.h"
#include "conformance/recorded.h"
#include "engine/check.h"
#include "engine/compile.h"
#include "ir/text.h"

namespace quern {
namespace {

using namespace test;

constexpr double kMaxOps = 5e5;  // of a kernel: all are interpreted

struct Language {
  const char* target;
  const char* compiler;
  std::string command;
  const char* suffix;
  const char* below;  // once, below all kernels
  /// A function `entry(buffers, variables, groups, items)` around a kernel.
  std::string (*caller)(const Program& program, const std::string& entry);
};

/// The places of a work item that a kernel asks for, in the order of its parameters.
std::string places_of(const Program& program) {
  size_t from = program.source.find(" " + program.name + "("), to = program.source.find(") {", from);
  std::vector<std::pair<size_t, std::string>> found;
  for (const char* place : {"group", "item", "position"})
    if (size_t at = program.source.find(fmt::format("uint3 {} [[", place), from); at < to)
      found.emplace_back(at, place);
  std::sort(found.begin(), found.end());
  std::string text;
  for (const auto& [at, place] : found) text += (text.empty() ? "" : ", ") + place;
  return text;
}

std::string metal_caller(const Program& program, const std::string& entry) {
  std::string arguments;
  for (size_t i = 0; i < program.globals.size(); ++i) arguments += fmt::format("buffers[{}], ", i);
  for (size_t i = 0; i < program.vars.size(); ++i) arguments += fmt::format("(void*)(variables + {}), ", i);
  return fmt::format(
      "extern \"C\" void {}(void* const* buffers, const int* variables, const long* groups, const long* items) {{\n"
      "  (void)buffers; (void)variables;\n  void* arguments[] = {{{}nullptr}};\n"
      "  for_each_item(groups, items, [&](uint3 group, uint3 item, uint3 position) {{\n"
      "    (void)group; (void)item; (void)position;\n    call_with({}, arguments, {{{}}});\n  }});\n}}\n",
      entry, arguments, program.name, places_of(program));
}

std::string hexagon_caller(const Program& program, const std::string& entry) {
  return fmt::format(
      "void {}(void* const* buffers, const int* variables, const long* groups, const long* items) {{\n"
      "  (void)groups; (void)items;\n  call_entry({}_on_dsp, buffers, {}, variables, {});\n}}\n",
      entry, entry, program.globals.size(), program.vars.size());
}

const Language kMetal{"metal", "clang++-19", kMetalAsCpp, ".cpp", "", metal_caller};
const Language kHexagon{"dsp", "cc", kHexagonAsC, ".c", "#include \"dsp_standin.h\"\n", hexagon_caller};

/// A kernel with opts applied, alone in its graph.
struct Case {
  std::string key;
  Graph graph;
  std::optional<Kernel> kernel;
  Program program;
};

bool runs_alone(const Program& program) {
  return std::none_of(program.linear.uops.begin(), program.linear.uops.end(),
                      [](UOp u) { return u.is({Op::Barrier, Op::Wmma}); });
}

bool has_images(UOp ast) {
  std::vector<UOp> nodes = toposort(ast);
  return std::any_of(nodes.begin(), nodes.end(), [](UOp u) { return u.dtype().is_image(); });
}

/// Runs the programs it was made from: one compiler call for all of them.
class StandIn final : public Device {
 public:
  StandIn(const Language& language, const std::vector<std::unique_ptr<Case>>& cases)
      : target_(find_target(language.target)) {
    std::vector<std::string> sources;
    std::string callers;
    for (const auto& c : cases) {
      std::string entry = fmt::format("run_{}", sources.size()),
                  own = fmt::format("{}_{}", c->program.name, sources.size());
      auto [at, is_new] = entries_.emplace(c->program.source, entry);
      if (!is_new) continue;
      sources.push_back(renamed(renamed(c->program.source, c->program.name, own), "entry", entry + "_on_dsp"));
      Program with_own_name = c->program;
      with_own_name.name = own;
      with_own_name.source = sources.back();
      callers += language.caller(with_own_name, entry);
    }
    std::string library = folder_ / "kernels.so";
    complaints_ = complaints(language.command + " -O1 -shared -fPIC -o " + library,
                             folder_ / (std::string("kernels") + language.suffix),
                             joined(sources) + "\n" + language.below + callers);
    if (complaints_.empty()) handle_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (complaints_.empty() && handle_ == nullptr) complaints_ = dlerror();
  }
  ~StandIn() override {
    if (handle_ != nullptr) dlclose(handle_);
  }
  /// Of the compiler.
  const std::string& complaints_of() const { return complaints_; }

  std::string name() const override { return "a stand-in"; }
  const Target& default_target() const override { return target_; }
  bool accepts(const Target& target) const override { return &target == &target_; }
  std::unique_ptr<Executable> compile(const Program& program) override {
    auto run = reinterpret_cast<Entry>(dlsym(handle_, entries_.at(program.source).c_str()));
    return std::make_unique<Compiled>(program, run);
  }

 private:
  using Entry = void (*)(void* const*, const int*, const int64_t*, const int64_t*);

  class Compiled final : public Executable {
   public:
    Compiled(Program program, Entry entry) : program_(std::move(program)), entry_(entry) {}
    double run(std::span<Buffer* const> buffers, const VarValues& vars) override {
      check_launch(program_, buffers, vars);
      std::vector<void*> addresses;
      for (Buffer* b : buffers) addresses.push_back(b->data());
      std::vector<int> values;
      for (int64_t v : variable_values(program_, vars)) values.push_back(static_cast<int>(v));
      constexpr std::array<int64_t, 3> kOne{1, 1, 1};
      auto groups = program_.global_size ? launch_dims(*program_.global_size, vars) : kOne;
      auto items = program_.local_size ? launch_dims(*program_.local_size, vars) : kOne;
      entry_(addresses.data(), values.data(), groups.data(), items.data());
      return 0;
    }

   private:
    Program program_;
    Entry entry_;
  };

  const Target& target_;
  std::map<std::string, std::string> entries_;  // by source
  TemporaryFolder folder_;
  std::string complaints_;
  void* handle_ = nullptr;
};

/// Checks kernels with the heuristic's opts and with random ones, 75 kernels at a time.
class StandIns : public testing::Test {
 protected:
  void check(const Language& language) {
    if (kernel_texts().empty()) GTEST_SKIP() << "no kernels in " << folder();
    if (!has_compiler(language.compiler)) GTEST_SKIP() << "there is no " << language.compiler << " on this machine";
    const char* chosen = std::getenv("QUERN_STANDIN_KERNELS");
    size_t all = kernel_texts().size(), count = std::min<size_t>(all, chosen ? std::stoul(chosen) : 40);
    std::vector<std::unique_ptr<Case>> cases;
    auto kernel = kernel_texts().begin();
    for (size_t i = 0, place = 0; i < count; ++i) {
      for (; place < i * all / count; ++place) ++kernel;
      for (const char* opts : {"heuristic", "a walk"}) add(cases, language, kernel->first, kernel->second, opts, i);
      if (i % 75 == 74 || i + 1 == count) run(language, cases);
      if (HasFatalFailure()) return;
    }
    std::cout << fmt::format("{} kernels: {} ran and agree, {} need other threads, {} have images, {} are too long\n",
                             count, agree_, waiting_, images_, too_long_);
    EXPECT_EQ(wrong_, 0U);
    EXPECT_GT(agree_, count / 2) << "of " << 2 * count;
  }

 private:
  void add(std::vector<std::unique_ptr<Case>>& cases, const Language& language, const std::string& key,
           const std::string& text, std::string opts, uint64_t seed) {
    auto c = std::make_unique<Case>();
    UOp ast = parse(c->graph, text);
    if (has_images(ast)) {
      ++images_;
      return;
    }
    const Target& target = find_target(language.target);
    if (opts == "a walk") opts = random_walk(ast, target, 4, seed);
    c->key = key + ", opts " + opts;
    c->kernel.emplace(optimize(ast, target, {.opts = opts}));
    c->program = compile(*c->kernel);
    if (runs_alone(c->program)) {
      cases.push_back(std::move(c));
    } else {
      ++waiting_;
    }
  }

  void run(const Language& language, std::vector<std::unique_ptr<Case>>& cases) {
    StandIn device(language, cases);
    ASSERT_EQ(device.complaints_of().substr(0, 3000), "");
    CheckLimits limits;
    limits.max_ops = limits.max_interpreted_ops = kMaxOps;
    for (const auto& c : cases) {
      CheckResult result = check_kernel(*c->kernel, device, 1, limits);
      if (result.kind == CheckResult::Kind::Match) {
        ++agree_;
      } else if (result.kind == CheckResult::Kind::Skipped) {
        ++too_long_;
      } else if (++wrong_ <= 5) {
        ADD_FAILURE() << c->key << ": " << result.note;
      }
    }
    cases.clear();
  }

  size_t agree_ = 0, wrong_ = 0, waiting_ = 0, images_ = 0, too_long_ = 0;
};

TEST_F(StandIns, of_metal_agree_with_the_interpreter) { check(kMetal); }
TEST_F(StandIns, of_the_dsp_agree_with_the_interpreter) { check(kHexagon); }

}  // namespace
}  // namespace quern
