#include <unordered_map>

#include <fmt/format.h>

#include "quern/error.h"

#include "base/parallel.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/json_records.h"
#include "engine/compile.h"
#include "engine/corpus.h"
#include "engine/records.h"
#include "ir/text.h"

namespace quern::cli {

namespace {

struct Options {
  std::vector<std::string> kernels;
  std::string target;
  std::string walks;
  int jobs = 1;
};

Json state(const Kernel& kernel) {
  return {{"shape", shape_texts(kernel).empty() ? Json::array() : json_of_sizes(shape_texts(kernel))},
          {"colors", Json(color_texts(kernel))}};
}

/// A walk recomputed from the actions it picked.
Json replay(const Json& walk, const std::string& text, const Target& target) {
  Json out;
  try {
    Graph graph;
    Kernel kernel(parse(graph, text), target);
    out["steps"] = Json::array();
    for (const Json& step : walk.at("steps")) {
      Json s;
      s["ok"] = legal_actions(kernel);
      s["pick"] = step.at("pick");
      kernel.apply(actions_for(target).at(step.at("pick").get<size_t>() - 1));
      s["opt"] = Json::array({json_of(kernel.applied_opts().back())});
      s.update(state(kernel));
      out["steps"].push_back(std::move(s));
    }
    out["opts"] = json_of(kernel.applied_opts());
    out["final_ok"] = legal_actions(kernel);
    Program program = compile_decisions(kernel);
    out["name"] = program.name;
    out["gs"] = json_of_sizes(launch_texts(program.global_size));
    out["ls"] = json_of_sizes(launch_texts(program.local_size));
    out["nu"] = program.linear.uops.size();
  } catch (const std::exception& e) {
    out["err"] = e.what();
  }
  out["h"] = walk.at("h");
  out["t"] = target.name;
  return out;
}

/// Throws UsageError unless it has the form of a walk of one of the kernels.
void check_walk(const Json& walk, const std::unordered_map<std::string, std::string>& texts, const Target& target,
                const std::string& where) {
  const size_t actions = actions_for(target).size();
  try {
    if (!texts.contains(walk.at("h").get<std::string>()))
      throw UsageError(fmt::format("{}: no kernel {} in the files given", where, text_of(walk["h"])));
    if (!walk.at("steps").is_array()) throw UsageError(fmt::format("{}: not a walk: its steps are no array", where));
    for (const Json& step : walk["steps"])
      if (const Json& pick = step.at("pick");
          !pick.is_number_unsigned() || pick.get<uint64_t>() < 1 || pick.get<uint64_t>() > actions)
        throw UsageError(fmt::format("{}: not a walk: the pick {} is not an action's number, 1 to {}", where,
                                     text_of(pick), actions));
  } catch (const nlohmann::json::exception& e) {
    throw UsageError(fmt::format("{}: not a walk: {}", where, e.what()));
  }
}

void run_walk(const Options& o) {
  std::unordered_map<std::string, std::string> texts;
  for (const std::string& f : o.kernels)
    for (CorpusItem& item : read_corpus(f)) texts.emplace(std::move(item.key), std::move(item.text));
  const Target& target = find_target(o.target);
  std::vector<Json> walks;
  std::string file = read_file(o.walks);
  size_t number = 0;
  for (size_t at = 0; at < file.size();) {
    size_t end = std::min(file.find('\n', at), file.size());
    ++number;
    const std::string where = fmt::format("{}:{}", o.walks, number);
    try {
      if (end > at) walks.push_back(Json::parse(file.substr(at, end - at)));
    } catch (const nlohmann::json::exception& e) {
      throw UsageError(fmt::format("{}: not a walk: {}", where, e.what()));
    }
    if (end > at) check_walk(walks.back(), texts, target, where);
    at = end + 1;
  }
  std::vector<std::string> lines(walks.size());
  parallel_in_order(
      walks.size(), o.jobs,
      [&](size_t i) { lines[i] = text_of(replay(walks[i], texts.at(walks[i].at("h").get<std::string>()), target)); },
      [&](size_t i) { fmt::print("{}\n", lines[i]); });
}

}  // namespace

void add_walk(CLI::App& app, Context&) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("walk", "Replay walks of opts and print what was legal at each step");
  sub->add_option("--kernels", o->kernels, "Files with the kernels (JSON lines with \"h\" and \"ast\")")->required();
  sub->add_option("--target", o->target, "Target")->required();
  sub->add_option("WALKS", o->walks, "Walks: JSON lines with \"h\" and \"steps\", each step with its \"pick\"")
      ->required();
  sub->add_option("--jobs", o->jobs, "Threads")->check(at_least(1))->capture_default_str();
  sub->callback([o] { run_walk(*o); });
}

}  // namespace quern::cli
