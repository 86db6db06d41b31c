#include "runtime/clang/clang.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "quern/error.h"

namespace quern {

namespace {

namespace fs = std::filesystem;

/// A folder of its own under the system's temporary one, removed with all in it.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const fs::path& above) {
    std::string pattern = (above / "quern-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw DeviceError("cannot make a temporary folder " + pattern + ": " + std::strerror(errno));
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string file(std::string_view name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

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
  int failed = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), envp.data());
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

class SharedObject {
 public:
  SharedObject(const std::string& path, const std::string& entry)
      : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw CompileError("cannot load the compiled kernel", dlerror());
    entry_ = reinterpret_cast<Entry>(dlsym(handle_, entry.c_str()));
    if (entry_ == nullptr) {
      dlclose(handle_);
      throw CompileError("the compiled kernel has no function " + entry);
    }
  }
  ~SharedObject() { dlclose(handle_); }
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;
  void call(void* const* buffers, const int64_t* vars) const { entry_(buffers, vars); }

 private:
  using Entry = void (*)(void* const*, const int64_t*);
  void* handle_;
  Entry entry_ = nullptr;
};

class ClangExecutable final : public Executable {
 public:
  ClangExecutable(const Program& program, const std::string& path, const std::string& entry)
      : program_(program), object_(path, entry) {}

  double run(std::span<Buffer* const> buffers, const VarValues& vars) override {
    check_launch(program_, buffers, vars);
    std::vector<void*> addresses;
    for (Buffer* b : buffers) addresses.push_back(b->data());
    std::vector<int64_t> values = variable_values(program_, vars);
    auto start = std::chrono::steady_clock::now();
    object_.call(addresses.data(), values.data());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  Program program_;
  SharedObject object_;
};

class ClangDevice final : public Device {
 public:
  ClangDevice(std::string compiler, const Settings& settings)
      : compiler_(std::move(compiler)),
        folder_(settings.text("TMPDIR")),
        environment_{"PATH=" + settings.text("PATH"), "TMPDIR=" + folder_, "LC_ALL=C"} {}
  std::string name() const override { return "CLANG"; }
  const Target& default_target() const override { return find_target("clang"); }
  bool accepts(const Target& target) const override { return target.dialect == Dialect::C; }

  std::unique_ptr<Executable> compile(const Program& program) override {
    if (!accepts(*program.target))
      throw DeviceError("device CLANG runs C, and " + program.name + " is for target " + program.target->name);
    const std::string entry = "quern_entry";
    TemporaryFolder folder(folder_);
    std::string source = folder.file("kernel.c"), object = folder.file("kernel.so");
    std::ofstream(source) << program.source << c_entry(program, entry);
    Outcome outcome =
        run_program({compiler_, "-std=c11", "-O2", "-march=native", "-ffp-contract=off", "-fno-math-errno",
                     "-fno-ident", "-w", "-shared", "-fPIC", "-o", object, source, "-lm"},
                    environment_, folder.file("log"));
    if (outcome.status != 0)
      throw CompileError(compiler_ + " refused kernel " + program.name + " (exit status " +
                             std::to_string(outcome.status) + "):\n" + outcome.log,
                         outcome.log);
    return std::make_unique<ClangExecutable>(program, object, entry);
  }

 private:
  std::string compiler_, folder_;
  std::vector<std::string> environment_;
};

}  // namespace

std::optional<std::string> find_c_compiler(const Settings& settings) {
  std::string wanted = settings.text("CC"), path = settings.text("PATH");
  if (!wanted.empty()) return find_program(wanted, path);
  for (const char* name : kCompilers)
    if (std::optional<std::string> found = find_program(name, path)) return found;
  return std::nullopt;
}

std::shared_ptr<Device> make_clang_device(const Settings& settings) {
  std::optional<std::string> compiler = find_c_compiler(settings);
  if (!compiler) throw DeviceError("no C compiler is found for device CLANG");
  return std::make_shared<ClangDevice>(*compiler, settings);
}

}  // namespace quern
