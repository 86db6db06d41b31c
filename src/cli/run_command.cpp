#include <algorithm>
#include <charconv>
#include <chrono>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/input.h"
#include "cli/json_records.h"
#include "cli/npy.h"
#include "engine/check.h"
#include "engine/compile.h"
#include "ir/text.h"

namespace quern::cli {

namespace {

struct Options {
  std::string file;
  std::string device = "CPU";
  std::string target;
  std::string opts;
  bool check = false;
  int repeat = 1;
  double time = 0;  // seconds
  std::string emit = "text";
  uint64_t seed = 1;
  std::vector<std::string> inputs, outputs, vars;
};

using Assignment = std::pair<std::string, std::string>;

/// An option's "a=b", each a once.
std::vector<Assignment> split_assignments(const std::vector<std::string>& texts, const char* what) {
  std::vector<Assignment> all;
  for (const std::string& text : texts) {
    size_t at = text.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == text.size())
      throw UsageError(fmt::format("{} \"{}\" is not of the form {}", what, text,
                                   std::string_view(what) == "--var" ? "NAME=VALUE" : "N=FILE.npy"));
    Assignment one{text.substr(0, at), text.substr(at + 1)};
    for (const Assignment& other : all)
      if (other.first == one.first) throw UsageError(fmt::format("{} {} is given twice", what, one.first));
    all.push_back(std::move(one));
  }
  return all;
}

int64_t number(const std::string& text, const std::string& what) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw UsageError(what + ": \"" + text + "\" is not a number");
  return value;
}

size_t position_of(const Program& program, const std::string& text, const char* what) {
  int64_t n = number(text, what);
  auto it = std::find(program.globals.begin(), program.globals.end(), n);
  if (it == program.globals.end())
    throw UsageError(fmt::format("{} {}: the kernel has no buffer {}", what, text, text));
  return static_cast<size_t>(it - program.globals.begin());
}

VarValues variables(const Program& program, const Options& o) {
  VarValues values = make_vars(program, o.seed);
  for (const auto& [name, value] : split_assignments(o.vars, "--var")) {
    if (!values.contains(name))
      throw UsageError(fmt::format("--var {}={}: the kernel has no variable {}", name, value, name));
    values[name] = number(value, "--var " + name);
  }
  return values;
}

void load_inputs(const Program& program, const Options& o, Buffers& buffers) {
  for (const auto& [n, path] : split_assignments(o.inputs, "--in")) {
    size_t at = position_of(program, n, "--in");
    buffers[at] = read_npy(path, buffers[at]->dtype(), buffers[at]->size());
  }
}

/// Which buffers to write to which files.
std::vector<std::pair<size_t, std::string>> output_files(const Program& program, const Options& o) {
  std::vector<std::pair<size_t, std::string>> files;
  for (const auto& [n, path] : split_assignments(o.outputs, "--out"))
    files.emplace_back(position_of(program, n, "--out"), path);
  return files;
}

/// Seconds of each run: `repeat` of them at least, and as many as fit into `time` seconds.
std::vector<double> run_times(Executable& exe, const std::vector<Buffer*>& pointers, const VarValues& vars,
                              const Options& o) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(o.time));
  std::vector<double> times;
  do {
    times.push_back(exe.run(pointers, vars));
  } while (times.size() < static_cast<size_t>(o.repeat) || Clock::now() < end);
  return times;
}

void show_times(std::vector<double> times, const Program& program, const Kernel& kernel, const Device& device,
                const Target& target, const Options& o) {
  std::ranges::sort(times);
  const double best = times.front();
  if (o.emit == "text") {
    fmt::print("{} on {} ({}): {:.1f} us\n", program.name, device.name(), target.name, best * 1e6);
    return;
  }
  const Json json{{"name", program.name},
                  {"device", device.name()},
                  {"target", target.name},
                  {"opts", to_string(kernel.applied_opts())},
                  {"runs", times.size()},
                  {"best_us", best * 1e6},
                  {"median_us", times[times.size() / 2] * 1e6}};
  fmt::print("{}\n", text_of(json));
}

void run_run(const Options& o, Context& context) {
  LoadedKernel k = load_kernel(o.file);
  std::shared_ptr<Device> device = open_device(o.device, context.settings);
  const Target& target = target_for(*device, o.target);
  OptimizeOptions options = context.optimize_options(o.opts, k.ast, target, device.get());
  context.record(print(k.ast), target, options);
  Kernel kernel = optimize(k.ast, target, options);
  Program program = compile(kernel, context.stage_hook());
  context.tell(kernel, program);
  VarValues vars = variables(program, o);
  const std::vector<std::pair<size_t, std::string>> files = output_files(program, o);
  std::unique_ptr<Executable> exe = device->compile(program);
  Buffers buffers = make_inputs(k.ast, program, o.seed);
  load_inputs(program, o, buffers);
  std::vector<Buffer*> pointers = pointers_to(buffers);
  show_times(run_times(*exe, pointers, vars, o), program, kernel, *device, target, o);
  for (const auto& [at, path] : files) write_npy(path, *buffers[at]);
  if (o.check) {
    CheckResult result = check_kernel(kernel, *device, o.seed);
    switch (result.kind) {
      case CheckResult::Kind::Match:
        fmt::print("check: agrees with the plain kernel ({}{}), worst {:.3f} of the tolerance\n",
                   result.interpreted ? "interpreted" : "compiled",
                   result.sampled ? ", on a sample of the outputs" : "", result.worst);
        return;
      case CheckResult::Kind::Skipped: fmt::print("check: skipped, {}\n", result.note); return;
      default: fmt::print("check: {}\n", result.note); context.status = 1;
    }
  }
}

}  // namespace

void add_run(CLI::App& app, Context& context) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("run", "Run a kernel on a device");
  sub->add_option("FILE", o->file, "Kernel in the reference notation, .gz or not; - is standard input")->required();
  sub->add_option("--device", o->device, "Device (quern devices lists them)")->capture_default_str();
  sub->add_option("--target", o->target, "Target to compile for, if not the device's own (INTERP runs any)");
  sub->add_option("--opts", o->opts,
                  "heuristic, reference, none, or a list of opts; default: the fastest known, or heuristic");
  sub->add_flag("--check", o->check,
                "Compare every output with the plain kernel's, on random inputs (of large kernels, parts of them)");
  sub->add_option("--repeat", o->repeat, "Run this often and tell the best time")
      ->check(at_least(1))
      ->capture_default_str();
  sub->add_option("--time", o->time, "Run for this long, such as 500ms or 2s, and at least --repeat times")
      ->transform(CLI::AsNumberWithUnit(std::map<std::string, double>{{"ms", 1e-3}, {"s", 1}, {"m", 60}},
                                        CLI::AsNumberWithUnit::CASE_SENSITIVE, "TIME"))
      ->check(CLI::PositiveNumber);
  sub->add_option("--emit", o->emit, "text, or json: best and median time, opts")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  sub->add_option("--seed", o->seed, "Seed of inputs and variables that are not given")
      ->check(at_least(0))
      ->capture_default_str();
  sub->add_option("--in", o->inputs, "N=FILE.npy: contents of buffer N");
  sub->add_option("--out", o->outputs, "N=FILE.npy: write buffer N there (0 is the first output)");
  sub->add_option("--var", o->vars, "NAME=VALUE: value of a variable");
  sub->callback([o, &context] { run_run(*o, context); });
}

}  // namespace quern::cli
