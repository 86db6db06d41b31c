#include "runtime/cpu/cpu.h"

#include <chrono>
#include <vector>

#include "quern/error.h"

#include "runtime/cpu/jit.h"
#include "runtime/host.h"

namespace quern {

namespace {

/// Quick for programs that are over in some microseconds anyway.
Effort effort_for(const Program& program) {
  auto most = [](const SInt& s) { return s.is_int() ? Int128{s.value()} : s.expr().vmax(); };
  return most(program.estimates.ops) + most(program.estimates.load_store_bytes) / 4 < 50'000 ? Effort::Quick
                                                                                             : Effort::Full;
}

class CpuExecutable final : public Executable {
 public:
  CpuExecutable(const Program& program, std::unique_ptr<Jit::Code> code) : program_(program), code_(std::move(code)) {}

  double run(std::span<Buffer* const> buffers, const VarValues& vars) override {
    check_launch(program_, buffers, vars);
    std::vector<void*> addresses;
    for (Buffer* b : buffers) addresses.push_back(b->data());
    std::vector<int64_t> values = variable_values(program_, vars);
    auto start = std::chrono::steady_clock::now();
    code_->entry()(addresses.data(), values.data());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  Program program_;
  std::unique_ptr<Jit::Code> code_;
};

class CpuDevice final : public Device {
 public:
  CpuDevice() : jit_(Jit::create()) {}
  std::string name() const override { return "CPU"; }
  const Target& default_target() const override { return find_target("llvm"); }
  bool accepts(const Target& target) const override { return target.dialect == Dialect::Llvm; }
  bool survives_fork() const override { return true; }
  std::string tuning_identity() const override { return jit_->compiler() + "\n" + host_processor(); }

  std::unique_ptr<Executable> compile(const Program& program) override {
    if (!accepts(*program.target))
      throw DeviceError("device CPU runs LLVM IR, and " + program.name + " is for target " + program.target->name);
    const std::string entry = "quern_entry";
    return std::make_unique<CpuExecutable>(
        program, jit_->compile(program.source + llvm_entry(program, entry), entry, effort_for(program)));
  }

 private:
  std::shared_ptr<Jit> jit_;
};

}  // namespace

std::shared_ptr<Device> make_cpu_device() { return std::make_shared<CpuDevice>(); }

}  // namespace quern
