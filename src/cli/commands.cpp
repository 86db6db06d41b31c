#include "cli/commands.h"

#include <charconv>

#include <fmt/format.h>

#include "cli/input.h"

namespace quern::cli {

void add_commands(CLI::App& app, Context& context) {
  add_compile(app, context);
  add_run(app, context);
  add_corpus(app, context);
  add_walk(app, context);
  add_replay(app, context);
  add_tune(app, context);
  add_db(app, context);
  add_cache(app, context);
  add_lists(app, context);
}

void check_command(const CLI::App& app, const std::string& word) {
  if (word.starts_with('-')) return;
  std::string known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == word) return;
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  throw UsageError(fmt::format("there is no command '{}'; there are: {}", word, known));
}

CLI::Validator at_least(int64_t min) {
  auto check = [min](const std::string& text) {
    int64_t value = 0;
    const char* end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data(), end, value);
    const bool fits = error == std::errc() && stop == end && value >= min;
    return fits ? std::string() : fmt::format("takes a whole number from {} up, not {}", min, text);
  };
  return {check, ""};
}

}  // namespace quern::cli
