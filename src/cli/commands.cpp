#include "cli/commands.h"

namespace quern::cli {

void add_commands(CLI::App& app, Context& context) {
  add_compile(app, context);
  add_run(app, context);
  add_corpus(app, context);
  add_walk(app, context);
  add_replay(app, context);
  add_cache(app, context);
  add_lists(app, context);
}

}  // namespace quern::cli
