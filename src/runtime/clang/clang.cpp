#include "runtime/clang/clang.h"

#include <chrono>
#include <fstream>
#include <vector>

#include <dlfcn.h>

#include "quern/error.h"

namespace quern {

namespace {

constexpr const char* kEntry = "quern_entry";

class SharedObject {
 public:
  SharedObject(const std::string& path, const char* entry) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw CompileError("cannot load the compiled kernel", dlerror());
    entry_ = reinterpret_cast<Entry>(dlsym(handle_, entry));
    if (entry_ == nullptr) {
      dlclose(handle_);
      throw CompileError(std::string("the compiled kernel has no function ") + entry);
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
  /// Loading takes a file, for a moment.
  ClangExecutable(const Program& program, std::string binary, const std::string& file)
      : program_(program), binary_(std::move(binary)), object_(written(binary_, file), kEntry) {}
  std::string binary() override { return binary_; }

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
  static std::string written(const std::string& bytes, const std::string& file) {
    std::ofstream out(file, std::ios::binary);
    if (!out.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush())
      throw DeviceError("cannot write " + file);
    return file;
  }

  Program program_;
  std::string binary_;
  SharedObject object_;
};

class ClangDevice final : public Device {
 public:
  explicit ClangDevice(const Settings& settings) : compiler_(settings) {}
  std::string name() const override { return "CLANG"; }
  const Target& default_target() const override { return find_target("clang"); }
  bool accepts(const Target& target) const override { return target.dialect == Dialect::C; }
  bool survives_fork() const override { return true; }

  std::string identity() const override { return compiler_.identity(); }
  std::string compiled_source(const Program& program) const override {
    return program.source + c_entry(program, kEntry);
  }

  std::unique_ptr<Executable> compile(const Program& program) override {
    check_target(program);
    return load(program, compiler_.compile(compiled_source(program), program.name));
  }

  std::unique_ptr<Executable> load(const Program& program, std::string_view binary) override {
    check_target(program);
    TemporaryFolder folder(compiler_.temporary_folder());
    return std::make_unique<ClangExecutable>(program, std::string(binary), folder.file("kernel.so"));
  }

 private:
  void check_target(const Program& program) const {
    if (!accepts(*program.target))
      throw DeviceError("device CLANG runs C, and " + program.name + " is for target " + program.target->name);
  }

  CCompiler compiler_;
};

}  // namespace

std::shared_ptr<Device> make_clang_device(const Settings& settings) { return std::make_shared<ClangDevice>(settings); }

}  // namespace quern
