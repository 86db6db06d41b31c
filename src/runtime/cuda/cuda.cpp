#include "runtime/cuda/cuda.h"

#include <algorithm>
#include <charconv>
#include <mutex>
#include <vector>

#include "quern/error.h"

#include "runtime/cuda/driver.h"
#include "runtime/cuda/nvrtc.h"

namespace quern {

namespace {

using namespace cuda;

/// The first GPU with its context; programs and streams share it.
class Gpu {
 public:
  explicit Gpu(std::shared_ptr<const Driver> loaded) : driver_(std::move(loaded)) {
    const Driver& d = *driver_;
    d.check(d.device_get(&device_, 0), "cannot open device CUDA");
    capability_ = d.attribute(device_, kComputeMajor) * 10 + d.attribute(device_, kComputeMinor);
    d.check(d.context_retain(&context_, device_), "cannot open device CUDA");
  }
  ~Gpu() { driver_->context_release(device_); }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  /// The driver, once the calling thread uses this GPU.
  const Driver& use() const {
    driver_->check(driver_->context_set(context_), "cannot use device CUDA");
    return *driver_;
  }
  int capability() const { return capability_; }
  std::string name() const {
    char text[256] = {};
    driver_->check(driver_->device_name(text, sizeof text - 1, device_), "cannot name device CUDA");
    return text;
  }
  int driver_version() const {
    int version = 0;
    driver_->check(driver_->driver_version(&version), "cannot ask for the driver's version");
    return version;
  }
  int attribute(int which) const { return driver_->attribute(device_, which); }

 private:
  std::shared_ptr<const Driver> driver_;
  DeviceNumber device_ = 0;
  ContextObject* context_ = nullptr;
  int capability_ = 0;
};

class CudaExecutable final : public Executable {
 public:
  /// `code` is machine code, or PTX, which the driver compiles.
  CudaExecutable(std::shared_ptr<const Gpu> gpu, const Program& program, std::string code)
      : gpu_(std::move(gpu)), program_(program), code_(std::move(code)), memory_(program.globals.size()) {
    try {
      load();
    } catch (...) {
      release();
      throw;
    }
  }
  ~CudaExecutable() override { release(); }

  std::string binary() override { return code_; }

  double run(std::span<Buffer* const> buffers, const VarValues& vars) override {
    check_launch(program_, buffers, vars);
    Dims dims = dims_of(vars);
    std::lock_guard lock(mutex_);
    const Driver& d = gpu_->use();
    for (size_t i = 0; i < buffers.size(); ++i) {
      reserve(d, i, buffers[i]->bytes());
      if (buffers[i]->bytes() != 0)
        d.check(d.to_device(memory_[i].address, buffers[i]->data(), buffers[i]->bytes(), stream_),
                "cannot copy buffer " + std::to_string(program_.globals[i]) + " of " + program_.name + " to the GPU");
    }
    double seconds = launch(d, dims, vars);
    for (size_t i = 0; i < buffers.size(); ++i)
      if (is_output(i) && buffers[i]->bytes() != 0)
        d.check(d.from_device(buffers[i]->data(), memory_[i].address, buffers[i]->bytes(), stream_),
                "cannot copy buffer " + std::to_string(program_.globals[i]) + " of " + program_.name + " from the GPU");
    d.check(d.stream_wait(stream_), "the run of " + program_.name + " failed");
    return seconds;
  }

 private:
  struct Memory {
    Address address = 0;
    size_t bytes = 0;
  };
  struct Dims {
    std::array<unsigned, 3> grid, block;
    bool empty = false;
  };

  void load() {
    const Driver& d = gpu_->use();
    std::string log(8192, '\0');
    int options[] = {kErrorLog, kErrorLogBytes};
    // The driver takes a number where a pointer stands.
    void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};  // NOLINT(performance-no-int-to-ptr)
    if (Result code = d.module_load(&module_, code_.c_str(), 2, options, values); code != 0) {
      log.resize(log.find_last_not_of(std::string("\0\n", 2)) + 1);
      if (log.empty()) d.check(code, "cannot load " + program_.name);
      const char* name = nullptr;
      d.error_name(code, &name);
      throw CompileError("NVIDIA's driver refused kernel " + program_.name + " (" + (name ? name : "unknown") + "):\n" +
                             log + "\nthe source is\n" + program_.source,
                         log);
    }
    d.check(d.module_function(&function_, module_, program_.name.c_str()), "cannot find kernel " + program_.name);
    d.check(d.stream_create(&stream_, 0), "cannot make a stream for " + program_.name);
    d.check(d.event_create(&start_, 0), "cannot make an event for " + program_.name);
    d.check(d.event_create(&end_, 0), "cannot make an event for " + program_.name);
  }

  /// Errors are of no use here: after a fault in a kernel every call gives one.
  void release() noexcept {
    try {
      const Driver& d = gpu_->use();
      for (Memory& m : memory_)
        if (m.address != 0) d.memory_free(m.address);
      if (start_) d.event_destroy(start_);
      if (end_) d.event_destroy(end_);
      if (stream_) d.stream_destroy(stream_);
      if (module_) d.module_unload(module_);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the context is gone, and all of these with it
    }
  }

  bool is_output(size_t position) const {
    return std::find(program_.outs.begin(), program_.outs.end(), program_.globals[position]) != program_.outs.end();
  }

  void reserve(const Driver& d, size_t position, size_t bytes) {
    Memory& m = memory_[position];
    bytes = std::max<size_t>(bytes, 1);
    if (m.address != 0 && m.bytes == bytes) return;
    if (m.address != 0) d.memory_free(m.address);
    m = {};
    d.check(d.memory_get(&m.address, bytes), "cannot get " + std::to_string(bytes) +
                                                 " bytes of the GPU's memory for buffer " +
                                                 std::to_string(program_.globals[position]) + " of " + program_.name);
    m.bytes = bytes;
  }

  Dims dims_of(const VarValues& vars) const {
    Dims dims{{1, 1, 1}, {1, 1, 1}};
    int64_t threads = 1;
    bool fits = true;
    auto fill = [&](std::array<unsigned, 3>& to, const std::optional<std::array<SInt, 3>>& from, int limits) {
      if (!from) return;
      std::array<int64_t, 3> sizes = launch_dims(*from, vars);
      for (size_t i = 0; i < 3; ++i) {
        fits &= sizes[i] <= gpu_->attribute(limits + static_cast<int>(i));
        dims.empty |= sizes[i] == 0;
        to[i] = static_cast<unsigned>(sizes[i]);
      }
    };
    fill(dims.grid, program_.global_size, kMaxGridX);
    fill(dims.block, program_.local_size, kMaxBlockX);
    for (unsigned n : dims.block) threads *= n;
    if (!fits || threads > gpu_->attribute(kMaxThreadsPerBlock)) {
      auto text = [](const std::array<unsigned, 3>& v) {
        return std::to_string(v[0]) + " x " + std::to_string(v[1]) + " x " + std::to_string(v[2]);
      };
      throw DeviceError("cannot launch " + program_.name + ": a grid of " + text(dims.grid) + " blocks of " +
                        text(dims.block) + " threads is more than the GPU takes");
    }
    return dims;
  }

  double launch(const Driver& d, const Dims& dims, const VarValues& vars) {
    if (dims.empty) return 0;
    std::vector<int64_t> values = variable_values(program_, vars);  // little endian: an int's bytes come first
    std::vector<void*> arguments;
    for (Memory& m : memory_) arguments.push_back(&m.address);
    for (int64_t& v : values) arguments.push_back(&v);
    std::string failed = "the run of " + program_.name + " failed";
    d.check(d.event_record(start_, stream_), failed);
    d.check(d.launch(function_, dims.grid[0], dims.grid[1], dims.grid[2], dims.block[0], dims.block[1], dims.block[2],
                     0, stream_, arguments.data(), nullptr),
            "cannot launch " + program_.name);
    d.check(d.event_record(end_, stream_), failed);
    d.check(d.stream_wait(stream_), failed);
    float milliseconds = 0;
    d.check(d.event_milliseconds(&milliseconds, start_, end_), "cannot time a run");
    return static_cast<double>(milliseconds) * 1e-3;
  }

  std::shared_ptr<const Gpu> gpu_;
  Program program_;
  std::string code_;
  std::vector<Memory> memory_;
  ModuleObject* module_ = nullptr;
  FunctionObject* function_ = nullptr;
  StreamObject* stream_ = nullptr;
  EventObject *start_ = nullptr, *end_ = nullptr;
  std::mutex mutex_;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(std::shared_ptr<const Gpu> gpu, std::shared_ptr<const Nvrtc> compiler)
      : gpu_(std::move(gpu)), compiler_(std::move(compiler)), target_(*cuda_target("cuda", gpu_->capability())) {}
  std::string name() const override { return "CUDA"; }
  const Target& default_target() const override { return target_; }
  bool accepts(const Target& target) const override {
    int needs = compute_capability(target);
    return needs != 0 && needs <= gpu_->capability();
  }

  std::unique_ptr<Executable> compile(const Program& program) override {
    expect_accepted(program);
    return std::make_unique<CudaExecutable>(gpu_, program,
                                            program.target->dialect == Dialect::Ptx
                                                ? program.source
                                                : compiler_->compile(program.source, program.name, gpu_->capability()));
  }
  std::string identity() const override {
    std::string text =
        "NVRTC " + compiler_->version() + "\n" + gpu_->name() + "\ndriver " + std::to_string(gpu_->driver_version());
    for (const std::string& option : compiler_->options(gpu_->capability())) text += "\n" + option;
    return text;
  }
  std::unique_ptr<Executable> load(const Program& program, std::string_view binary) override {
    expect_accepted(program);
    return std::make_unique<CudaExecutable>(gpu_, program, std::string(binary));
  }

 private:
  void expect_accepted(const Program& program) const {
    if (!accepts(*program.target))
      throw DeviceError("device CUDA runs CUDA C++ and PTX up to sm_" + std::to_string(gpu_->capability()) + ", and " +
                        program.name + " is for target " + program.target->name);
  }

  std::shared_ptr<const Gpu> gpu_;
  std::shared_ptr<const Nvrtc> compiler_;
  const Target& target_;
};

/// What the device needs; nulls where `why` says what is missing.
struct Parts {
  std::shared_ptr<const Driver> driver;
  std::shared_ptr<const Nvrtc> compiler;
  std::string why;
};

Parts find_parts(const Settings& settings) {
  Parts parts;
  parts.driver = Driver::load(parts.why);
  if (!parts.driver) return parts;
  int count = 0;
  if (Result code = parts.driver->init(0); code != 0 || parts.driver->device_count(&count) != 0 || count == 0) {
    const char* name = nullptr;
    if (code != 0) parts.driver->error_name(code, &name);
    parts.why = "NVIDIA's driver finds no GPU" + (name ? " (" + std::string(name) + ")" : std::string());
    return parts;
  }
  parts.compiler = Nvrtc::load(settings, parts.why);
  return parts;
}

}  // namespace

int compute_capability(const Target& target) {
  if (target.dialect != Dialect::Cuda && target.dialect != Dialect::Ptx) return 0;
  size_t at = target.name.find(":sm_");
  int number = 0;
  if (at != std::string::npos)
    std::from_chars(target.name.data() + at + 4, target.name.data() + target.name.size(), number);
  return number;
}

const Target* cuda_target(std::string_view prefix, int capability) {
  const Target* best = nullptr;
  for (const std::string& name : target_names()) {
    const Target& t = find_target(name);
    int needs = compute_capability(t);
    if (needs == 0 || needs > capability || !name.starts_with(std::string(prefix) + ":")) continue;
    if (best == nullptr || needs > compute_capability(*best)) best = &t;
  }
  return best;
}

DeviceInfo describe_cuda(const Settings& settings) {
  Parts parts = find_parts(settings);
  if (!parts.compiler) return {"CUDA", false, parts.why};
  try {
    Gpu gpu(parts.driver);
    std::string note = gpu.name() + ", sm_" + std::to_string(gpu.capability()) + ", NVRTC " + parts.compiler->version();
    bool old = cuda_target("cuda", gpu.capability()) == nullptr;
    return {"CUDA", !old, old ? note + ": too old for every target" : note};
  } catch (const DeviceError& e) {
    return {"CUDA", false, e.what()};
  }
}

std::shared_ptr<Device> make_cuda_device(const Settings& settings) {
  DeviceInfo about = describe_cuda(settings);
  if (!about.available) throw DeviceError("device CUDA is not here: " + about.note);
  Parts parts = find_parts(settings);
  return std::make_shared<CudaDevice>(std::make_shared<Gpu>(parts.driver), parts.compiler);
}

}  // namespace quern
