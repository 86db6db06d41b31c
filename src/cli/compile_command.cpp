#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/input.h"
#include "cli/json_records.h"
#include "engine/compile.h"
#include "engine/records.h"
#include "ir/text.h"

namespace quern::cli {

namespace {

struct Options {
  std::string file;
  std::string target;
  std::string opts;
  std::string emit = "source";
};

void print_stages(const Kernel& kernel) {
  compile(kernel, [](std::string_view stage, UOp graph) {
    fmt::print("== {}\n{}\n", stage, print(graph, TextStyle::Indented));
  });
}

void run_compile(const Options& o, Context& context) {
  LoadedKernel k = load_kernel(o.file);
  const Target& target = o.target.empty() ? own_cpu_target() : find_target(o.target);
  OptimizeOptions options = context.optimize_options(o.opts, k.ast, target, nullptr);
  context.record(print(k.ast), target, options);
  Kernel kernel = optimize(k.ast, target, options);
  if (o.emit == "graph") return print_stages(kernel);
  if (o.emit == "ast") {
    fmt::print("{}\n", print(kernel.optimized_ast(), TextStyle::Indented));
    return;
  }
  Program program = compile(kernel, context.stage_hook());
  context.tell(kernel, program);
  if (o.emit == "linear") {
    fmt::print("{}", print_linear(program.linear));
  } else if (o.emit == "json") {
    Json j = json_of(decision_of(Kernel(k.ast, target), kernel, program), o.file, target.name);
    j["source"] = program.source;
    fmt::print("{}\n", text_of(j, 2));
  } else {
    fmt::print("{}\n", program.source);
  }
}

}  // namespace

void add_compile(CLI::App& app, Context& context) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("compile", "Print what a kernel becomes for a target");
  sub->add_option("FILE", o->file, "Kernel in the reference notation, .gz or not; - is standard input")->required();
  sub->add_option("--target", o->target, "Target (quern targets lists them); default: this CPU");
  sub->add_option("--opts", o->opts,
                  "heuristic, reference, none, or a list such as \"UPCAST(0,4) LOCAL(1,8)\"; default: the fastest "
                  "known, or heuristic");
  sub->add_option("--emit", o->emit,
                  "source; ast: the optimized kernel; graph: after each stage; linear: the program; json")
      ->check(CLI::IsMember({"source", "ast", "graph", "linear", "json"}))
      ->capture_default_str();
  sub->callback([o, &context] { run_compile(*o, context); });
}

}  // namespace quern::cli
