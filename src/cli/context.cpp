#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/input.h"
#include "ir/text.h"

namespace quern::cli {

namespace {

/// Throws UsageError for a stage that does not exist: it would never be printed.
void check_stages(std::string_view list) {
  for (size_t end = 0; end != std::string_view::npos; list.remove_prefix(std::min(list.size(), end + 1))) {
    end = list.find(',');
    const std::string_view stage = list.substr(0, end);
    if (stage != "all" && std::ranges::find(stage_names(), stage) == stage_names().end())
      throw UsageError(fmt::format("setting QUERN_DUMP: there is no stage '{}'; there are: {}, all", stage,
                                   fmt::join(stage_names(), ", ")));
    if (end == std::string_view::npos) return;
  }
}

bool names(std::string_view list, std::string_view stage) {
  while (!list.empty()) {
    size_t end = list.find(',');
    if (list.substr(0, end) == stage || list.substr(0, end) == "all") return true;
    if (end == std::string_view::npos) break;
    list.remove_prefix(end + 1);
  }
  return false;
}

}  // namespace

OptimizeOptions Context::optimize_options(const std::string& opts) const {
  if (!opts.empty() && opts != "heuristic" && opts != "reference" && opts != "none") (void)parse_opts(opts);
  return {.opts = opts.empty() ? default_opts() : opts,
          .tensor_cores = static_cast<TensorCoreUse>(settings.number("TC")),
          .tc_opt = static_cast<int>(settings.number("TC_OPT")),
          .allow_tf32 = settings.number("ALLOW_TF32") != 0};
}

TuningDatabase* Context::tuning_database() {
  if (!tuning_) tuning_ = open_tuning_database(settings);
  return tuning_.get();
}

OptimizeOptions Context::optimize_options(const std::string& opts, UOp ast, const Target& target, Device* device) {
  OptimizeOptions options = optimize_options(opts);
  if (!opts.empty() || settings.number("NOOPT") != 0) return options;
  if (device != nullptr && settings.number("BEAM") != 0) {
    options.opts = tune(ast, *device, target).result.opts;
    return options;
  }
  const std::filesystem::path file = tuning_file(settings);
  if (file.empty() || !std::filesystem::exists(file)) return options;  // not made by a mere look
  TuningDatabase* database = tuning_database();
  if (database == nullptr) return options;
  const std::optional<TuningResult> known = device != nullptr ? known_opts(ast, *device, target, options, *database)
                                                              : known_opts(ast, target, options, settings, *database);
  if (known) options.opts = known->opts;
  return options;
}

StageHook Context::stage_hook() const {
  std::string stages = settings.text("QUERN_DUMP");
  if (stages.empty()) return {};
  check_stages(stages);
  return [stages](std::string_view stage, UOp graph) {
    if (names(stages, stage)) fmt::print(stderr, "== {}\n{}\n", stage, print(graph, TextStyle::Indented));
  };
}

void Context::tell(const Kernel& kernel, const Program& program) const {
  int64_t level = settings.number("DEBUG");
  if (level < 1) return;
  fmt::print(stderr, "{}  [{}]  {}\n", program.name, kernel.shape_text(isatty(2) != 0),
             kernel.applied_opts().empty() ? "no opts" : to_string(kernel.applied_opts()));
  if (level >= 2) fmt::print(stderr, "{}\n", program.source);
}

void Context::record(std::string_view kernel, const Target& target, const OptimizeOptions& options) {
  ReplayRecorder* recorder = nullptr;
  {
    std::lock_guard lock(mutex_);
    std::string file = settings.text("QUERN_RECORD");
    if (file.empty()) return;
    if (!recorder_) recorder_ = std::make_unique<ReplayRecorder>(file);
    recorder = recorder_.get();
  }
  recorder->add(kernel, target, options);
}

void Context::finish_recording() {
  if (recorder_) recorder_->flush();
}

}  // namespace quern::cli
