#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

#include "quern/error.h"

#include "base/log.h"
#include "cli/commands.h"
#include "cli/input.h"

// Exit status: 0, 1 (a check failed, or an internal error), 2 (bad usage or input).
int main(int argc, char** argv) {
  using namespace quern;
  CLI::App app{"Quern compiles tensor kernels for CPUs and GPUs, and runs and checks them."};
  app.name("quern");
  app.require_subcommand(1);
  cli::Context context;
  cli::add_commands(app, context);
  set_log_sink([](std::string_view message) { fmt::print(stderr, "quern: {}\n", message); });
  try {
    context.settings = Settings::from_environment(environ);
    app.parse(argc, argv);
    context.finish_recording();
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (const InternalError& e) {
    fmt::print(stderr, "quern: {}\n", e.what());
    return 1;
  } catch (const CompileError& e) {
    fmt::print(stderr, "quern: {}\n{}", e.what(), e.log());
    return 2;
  } catch (const ParseError& e) {
    fmt::print(stderr, "quern: {}\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "quern: {}\n", e.what());
    return 2;
  }
  return context.status;
}
