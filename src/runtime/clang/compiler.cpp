#include "runtime/clang/compiler.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "quern/error.h"

#include "runtime/cache.h"
#include "runtime/host.h"

namespace quern {

namespace {

namespace fs = std::filesystem;

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

struct Outcome {
  int status;  ///< exit status; 127 where it could not be started
  std::string log;
};

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> all;
  for (const std::string& word : words) all.push_back(const_cast<char*>(word.c_str()));
  all.push_back(nullptr);
  return all;
}

/// Runs a program to its end; its output and errors go to the file `log`.
Outcome run_program(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                    const std::string& log) {
  std::vector<char*> argv = pointers(command), envp = pointers(environment);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  // In a group of its own: a Ctrl-C that this process survives (a search gives its best so far) must not fail a compilation.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  int failed = posix_spawn(&child, argv[0], &actions, &attributes, argv.data(), envp.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return {127, command[0] + ": " + std::strerror(failed)};
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents(log)};
}

bool is_program(const fs::path& path) { return access(path.c_str(), X_OK) == 0 && fs::is_regular_file(path); }

/// As the shell looks it up: in the folders of `path`, unless the name says where it is.
std::optional<std::string> find_program(const std::string& name, const std::string& path) {
  if (name.find('/') != std::string::npos) return is_program(name) ? std::optional(name) : std::nullopt;
  std::istringstream folders(path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (fs::path found = fs::path(folder.empty() ? "." : folder) / name; is_program(found)) return found.string();
  return std::nullopt;
}

// Newer compilers first: _Float16 needs clang 15 or gcc 12.
constexpr std::array kCompilers = {"clang-21", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15",
                                   "gcc-14",   "gcc-13",   "gcc-12",   "cc",       "gcc",      "clang"};

constexpr std::array kFlags = {
    "-std=c11", "-O2", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-ident", "-w", "-shared", "-fPIC"};

/// Tells this file from what stood in its place before.
std::string stamp_of(const std::string& path) {
  struct stat s{};
  std::error_code error;
  fs::path real = fs::canonical(path, error);
  if (error || stat(real.c_str(), &s) != 0) return path;
  return real.string() + " " + std::to_string(s.st_size) + " " + std::to_string(s.st_mtim.tv_sec) + "." +
         std::to_string(s.st_mtim.tv_nsec);
}

std::string remembered_name(const Settings& settings) { return "C compiler '" + settings.text("CC") + "'"; }

/// Of the compiler that these settings last meant.
std::optional<std::string> remembered_identity(const Settings& settings) {
  std::shared_ptr<BinaryCache> cache = open_cache(settings);
  if (!cache || !fs::exists(cache->file())) return std::nullopt;
  return cache->note(remembered_name(settings));
}

}  // namespace

TemporaryFolder::TemporaryFolder(const std::string& above) : path_(above + "/quern-XXXXXX") {
  if (mkdtemp(path_.data()) == nullptr)
    throw DeviceError("cannot make a temporary folder " + path_ + ": " + std::strerror(errno));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::optional<std::string> find_c_compiler(const Settings& settings) {
  std::string wanted = settings.text("CC"), path = settings.text("PATH");
  if (!wanted.empty()) return find_program(wanted, path);
  for (const char* name : kCompilers)
    if (std::optional<std::string> found = find_program(name, path)) return found;
  return std::nullopt;
}

std::optional<std::string> CCompiler::available(const Settings& settings) {
  if (std::optional<std::string> found = find_c_compiler(settings)) return found;
  return remembered_identity(settings);
}

CCompiler::CCompiler(const Settings& settings)
    : path_(find_c_compiler(settings)),
      settings_(settings),
      folder_(settings.text("TMPDIR")),
      environment_{"PATH=" + settings.text("PATH"), "TMPDIR=" + folder_, "LC_ALL=C"} {
  if (!path_) identity_ = remembered_identity(settings).value_or("");
  if (!path_ && identity_.empty()) throw DeviceError("no C compiler is found for device CLANG");
}

std::string CCompiler::version() const {
  TemporaryFolder folder(folder_);
  std::string log = run_program({*path_, "--version"}, environment_, folder.file("log")).log;
  return log.substr(0, log.find('\n'));
}

/// Asking a compiler for its version takes a while: the answer is kept until the compiler's file changes.
std::string CCompiler::identity() const {
  std::lock_guard lock(mutex_);
  if (!identity_.empty()) return identity_;
  std::shared_ptr<BinaryCache> cache = open_cache(settings_);
  std::string stamp = stamp_of(*path_);
  std::optional<std::string> known = cache ? cache->note(stamp) : std::nullopt;
  std::string text = known ? *known : version();
  if (cache && !known) cache->set_note(stamp, text);
  std::string all = *path_ + ", " + text + ",";
  for (const char* flag : kFlags) all += std::string(" ") + flag;
  all += "\n" + host_processor();
  if (cache && cache->note(remembered_name(settings_)) != all) cache->set_note(remembered_name(settings_), all);
  identity_ = all;
  return all;
}

std::string CCompiler::compile(const std::string& source, const std::string& name) const {
  if (!path_) {
    std::string gone = identity_.substr(0, identity_.find(','));
    throw DeviceError("kernel " + name + " is not among the compiled ones that are kept, and the compiler (" + gone +
                      ") is gone");
  }
  TemporaryFolder folder(folder_);
  std::string file = folder.file("kernel.c"), object = folder.file("kernel.so");
  std::ofstream(file) << source;
  std::vector<std::string> command = {*path_};
  command.insert(command.end(), kFlags.begin(), kFlags.end());
  for (const std::string& word : {std::string("-o"), object, file, std::string("-lm")}) command.push_back(word);
  Outcome outcome = run_program(command, environment_, folder.file("log"));
  if (outcome.status != 0)
    throw CompileError(
        *path_ + " refused kernel " + name + " (exit status " + std::to_string(outcome.status) + "):\n" + outcome.log,
        outcome.log);
  return contents(object);
}

}  // namespace quern
