#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>
#include <unistd.h>

#include "quern/error.h"

#include "base/log.h"
#include "cli/commands.h"
#include "cli/input.h"

namespace {

/// A line for the user. Where it cannot be written there is nobody to tell.
void tell(std::string_view message, std::string_view more = {}) {
  const std::string line = fmt::format("quern: {}\n{}", message, more);
  (void)std::fwrite(line.data(), 1, line.size(), stderr);
}

/// What is still in stdout's buffer goes out now, so that a full disk does not pass for success.
bool written() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return true;
  tell(std::string("cannot write the output: ") + (errno != 0 ? std::strerror(errno) : "a write failed"));
  return false;
}

}  // namespace

// Exit status: 0, 1 (a check failed, or an internal error), 2 (bad usage or input, or output that cannot be written).
int main(int argc, char** argv) {
  using namespace quern;
  CLI::App app{"Quern compiles tensor kernels for CPUs and GPUs, and runs and checks them."};
  app.name("quern");
  app.require_subcommand(1);
  cli::Context context;
  cli::add_commands(app, context);
  set_log_sink([](std::string_view message) { tell(message); });
  try {
    context.settings = Settings::from_environment(environ);
    if (argc > 1) cli::check_command(app, argv[1]);
    app.parse(argc, argv);
    context.finish_recording();
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 && written() ? 0 : 2;
  } catch (const InternalError& e) {
    tell(e.what());
    return 1;
  } catch (const CompileError& e) {
    tell(e.what(), e.log());
    return 2;
  } catch (const std::exception& e) {
    tell(e.what());
    return 2;
  }
  return written() ? context.status : 2;
}
