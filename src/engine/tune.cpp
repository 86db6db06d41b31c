#include "engine/tune.h"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "quern/error.h"
#include "quern/tune.h"

#include "base/log.h"
#include "engine/compile.h"
#include "engine/replay.h"
#include "ir/text.h"

namespace quern {

namespace {

constexpr double kMaxPlainOps = 1e9;  // of larger kernels a sample of the outputs is compared with the plain kernel's

std::vector<size_t> written_positions(const Program& program) {
  std::vector<size_t> at;
  for (size_t i = 0; i < program.globals.size(); ++i)
    if (std::ranges::find(program.outs, program.globals[i]) != program.outs.end()) at.push_back(i);
  return at;
}

TuningKey key_of(UOp ast, const Device& device, const Target& target, const OptimizeOptions& options) {
  return {print(ast), target.name, device.tuning_identity(), replay_settings(options), {}};
}

Tuned search(UOp ast, Device& device, const Target& target, const TuningOptions& options) {
  OptimizeOptions optimize_options = options.optimize;
  optimize_options.opts = "none";
  const Kernel plain = optimize(ast, target, optimize_options);
  optimize_options.opts = "heuristic";
  const Kernel hand_coded = optimize(ast, target, optimize_options);

  const Program plain_program = compile(plain);
  const Buffers inputs = make_inputs(ast, plain_program, options.beam.seed);
  BeamEnvironment environment;
  environment.device = &device;
  environment.data = {&inputs, plain_program.globals, written_positions(plain_program),
                      make_vars(plain_program, options.beam.seed)};
  const PlainOutputs want(ast, plain_program, device, inputs, environment.data.vars, kMaxPlainOps, options.beam.seed);
  environment.check = [&](const Kernel& kernel, std::span<Buffer* const> got) {
    return want.compare(got, tolerance_of(ast, kernel.tensor_core())).text;
  };
  const std::string text = print(ast);
  environment.build = [&, tensor_cores = options.optimize](const std::vector<Opt>& opts) {
    BuiltProgram built;
    built.graph = std::make_unique<Graph>();
    OptimizeOptions o = tensor_cores;
    o.opts = opts.empty() ? "none" : to_string(opts);
    built.program = compile(parse(*built.graph, text), target, o);
    return built;
  };
  Tuned tuned;
  environment.progress = options.progress;
  environment.stop = options.stop;
  std::vector<Kernel> starts{hand_coded};
  if (hand_coded.applied_opts() != plain.applied_opts()) starts.push_back(plain);
  BeamOptions beam = options.beam;
  // What is chosen for CPUs is a whole layout: what could be better is found near it, not only beyond it.
  beam.vary = target.vector_bytes != 0;
  tuned.search = beam_search(starts, environment, beam);
  const BeamResult& found = tuned.search;
  tuned.result = {found.opts.empty() ? "none" : to_string(found.opts), found.seconds, found.tried, found.complete};
  tuned.hand_coded_seconds = found.start_seconds.front();
  return tuned;
}

}  // namespace

std::unique_ptr<TuningDatabase> open_tuning_database(const Settings& settings) {
  const std::filesystem::path file = tuning_file(settings);
  if (file.empty()) return nullptr;
  try {
    return std::make_unique<TuningDatabase>(file);
  } catch (const Error& e) {
    log_message("going on without what searches found before: " + std::string(e.what()));
    return nullptr;
  }
}

BeamOptions beam_options(const Settings& settings) {
  BeamOptions o;
  o.width = static_cast<int>(settings.number("BEAM"));
  o.actions = {settings.number("BEAM_UPCAST_MAX"), settings.number("BEAM_LOCAL_MAX")};
  o.pad = settings.number("BEAM_PADTO") != 0;
  o.min_progress = settings.real("BEAM_MIN_PROGRESS") * 1e-6;
  o.max_uops = settings.number("BEAM_UOPS_MAX");
  o.candidate_seconds = static_cast<double>(settings.number("BEAM_TIMEOUT_SEC"));
  const auto parallel = static_cast<int>(settings.number("PARALLEL"));
  o.jobs = parallel > 0 ? parallel : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return o;
}

std::string settings_text(const BeamOptions& o) {
  return fmt::format(
      "BEAM={} BEAM_UPCAST_MAX={} BEAM_LOCAL_MAX={} BEAM_PADTO={} BEAM_UOPS_MAX={} BEAM_MIN_PROGRESS={} "
      "BEAM_TIMEOUT_SEC={} seconds={} candidates={} seed={}",
      o.width, o.actions.max_lanes, o.actions.max_threads, o.pad ? 1 : 0, o.max_uops, o.min_progress * 1e6,
      o.candidate_seconds, o.seconds, o.max_candidates, o.seed);
}

Tuned tune(UOp ast, Device& device, const Target& target, const TuningOptions& options) {
  TuningKey key = key_of(ast, device, target, options.optimize);
  key.search = settings_text(options.beam);
  const bool kept = options.database != nullptr && !key.identity.empty();
  if (kept && !options.search_again)
    if (std::optional<TuningResult> known = options.database->find(key)) return {.result = *known, .known = true};
  Tuned tuned = search(ast, device, target, options);
  if (kept) options.database->store(key, tuned.result);
  return tuned;
}

std::optional<TuningResult> known_opts(UOp ast, const Device& device, const Target& target,
                                       const OptimizeOptions& options, TuningDatabase& database) {
  const TuningKey key = key_of(ast, device, target, options);
  return key.identity.empty() ? std::nullopt : database.best(key);
}

std::optional<TuningResult> known_opts(UOp ast, const Target& target, const OptimizeOptions& options,
                                       const Settings& settings, TuningDatabase& database) {
  if (!database.has(print(ast), target.name)) return std::nullopt;  // no device is opened for nothing
  for (const DeviceInfo& info : devices(settings)) {
    if (!info.available || info.name == "INTERP") continue;
    std::shared_ptr<Device> device = open_device(info.name, settings);
    if (!device->accepts(target)) continue;
    if (auto found = known_opts(ast, *device, target, options, database)) return found;
  }
  return std::nullopt;
}

TuneResult tune(const KernelGraph& kernel, const TuneOptions& options) {
  if (options.beam < 1) throw Error("a search needs a beam of at least 1, not " + std::to_string(options.beam));
  if (!(options.seconds >= 0))  // nor is NaN a time
    throw Error("a search takes at least 0 seconds, not " + std::to_string(options.seconds));
  const std::shared_ptr<Device> device = open_device(options.device);
  const Target& target = target_for(*device, options.target);
  std::unique_ptr<TuningDatabase> database;
  if (!options.database.empty()) database = std::make_unique<TuningDatabase>(options.database);

  bool ends = false;
  TuningOptions internal;
  internal.beam = beam_options(Settings());
  internal.beam.width = options.beam;
  internal.beam.seconds = options.seconds;
  internal.beam.seed = options.seed;
  internal.database = database.get();
  internal.search_again = options.search_again;
  if (options.progress)
    internal.progress = [&](const BeamProgress& p) { ends |= !options.progress({p.best, p.tried, p.elapsed}); };
  internal.stop = [&] { return ends; };
  Graph graph;
  const Tuned tuned = tune(parse(graph, kernel.text()), *device, target, internal);
  const TuningResult& r = tuned.result;
  return {r.opts, r.seconds, r.tried, r.complete, tuned.known};
}

}  // namespace quern
