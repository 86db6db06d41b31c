#include "runtime/cpu/cpu.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <vector>

#include "quern/error.h"

#include "runtime/cpu/jit.h"
#include "runtime/cpu/threads.h"
#include "runtime/host.h"

namespace quern {

namespace {

bool has_vectors(const Program& program) {
  return std::any_of(program.linear.uops.begin(), program.linear.uops.end(),
                     [](UOp u) { return u.is(kAluOps | OpSet{Op::Wmma}) && u.dtype().count > 1; });
}

/// Quick for programs that are over in some microseconds anyway.
Effort effort_for(const Program& program) {
  if (has_vectors(program)) return Effort::Explicit;
  auto most = [](const SInt& s) { return s.is_int() ? Int128{s.value()} : s.expr().vmax(); };
  return most(program.estimates.ops) + most(program.estimates.load_store_bytes) / 4 < 50'000 ? Effort::Quick
                                                                                             : Effort::Full;
}

/// A target's other vectors are split where the machine has none as wide; instructions for dot products are there or not.
void check_instructions(const Program& program) {
  const std::vector<DotProduct>& there = own_cpu_target().dots;
  for (UOp u : program.linear.uops) {
    if (!u.is(Op::Wmma)) continue;
    const WmmaArg& arg = *std::get<const WmmaArg*>(u.arg());
    const DotProduct needed{arg.dtype_in, arg.dtype_out, arg.dims[2]};
    if (std::find(there.begin(), there.end(), needed) == there.end())
      throw DeviceError("this CPU lacks the instruction for " + arg.name + ", which " + program.name + " for target " +
                        program.target->name + " uses; its own target is " + own_cpu_target().name);
  }
}

/// The calling thread's own, kept for its next kernel.
std::byte* scratch_of_thread(int64_t bytes) {
  thread_local std::unique_ptr<Buffer> scratch;
  if (!scratch || scratch->size() < bytes) scratch = std::make_unique<Buffer>(Scalar::UInt8, bytes);
  return scratch->data();
}

class CpuExecutable final : public Executable {
 public:
  CpuExecutable(const Program& program, std::shared_ptr<Jit> jit, std::shared_ptr<Threads> threads)
      : program_(program),
        jit_(std::move(jit)),
        threads_(std::move(threads)),
        scratch_bytes_(scratch_bytes(program.linear)),
        code_(compiled(program.source)) {}

  double run(std::span<Buffer* const> buffers, const VarValues& vars) override {
    check_launch(program_, buffers, vars);
    std::vector<void*> addresses;
    for (Buffer* b : buffers) addresses.push_back(b->data());
    std::vector<int64_t> values = variable_values(program_, vars);
    const auto entry = code_for(addresses).entry();
    const auto parts = program_.global_size ? static_cast<int32_t>(launch_dims(*program_.global_size, vars)[0]) : 1;
    auto start = std::chrono::steady_clock::now();
    const auto run_part = [&](int32_t part) {
      entry(addresses.data(), values.data(), part, scratch_bytes_ == 0 ? nullptr : scratch_of_thread(scratch_bytes_));
    };
    if (parts == 1)
      run_part(0);
    else
      threads_->run(parts, run_part);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  std::unique_ptr<Jit::Code> compiled(const std::string& source) const {
    const std::string entry = "quern_entry";
    return jit_->compile(source + llvm_entry(program_, entry), entry, effort_for(program_));
  }

  /// The code for buffers that stand where these do: memory that others lend may be aligned to its elements only.
  const Jit::Code& code_for(const std::vector<void*>& addresses) {
    const auto is_aligned = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % Buffer::kAlignment == 0; };
    if (std::ranges::all_of(addresses, is_aligned)) return *code_;
    std::call_once(unaligned_once_, [this] {
      if (const std::optional<std::string> plain = without_streaming(program_.source)) unaligned_ = compiled(*plain);
    });
    return unaligned_ ? *unaligned_ : *code_;
  }

  Program program_;
  std::shared_ptr<Jit> jit_;
  std::shared_ptr<Threads> threads_;
  int64_t scratch_bytes_;
  std::unique_ptr<Jit::Code> code_, unaligned_;
  std::once_flag unaligned_once_;
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const Settings& settings)
      : jit_(Jit::create()), threads_(Threads::create(settings.number("QUERN_THREADS"))) {}
  std::string name() const override { return "CPU"; }
  const Target& default_target() const override { return own_cpu_target(); }
  bool accepts(const Target& target) const override { return target.dialect == Dialect::Llvm; }
  bool survives_fork() const override { return true; }
  void before_fork() override { threads_->stop(); }
  std::string tuning_identity() const override {
    return jit_->compiler() + "\n" + host_processor() + "\n" + std::to_string(threads_->count()) + " threads";
  }

  std::unique_ptr<Executable> compile(const Program& program) override {
    if (!accepts(*program.target))
      throw DeviceError("device CPU runs LLVM IR, and " + program.name + " is for target " + program.target->name);
    check_instructions(program);
    return std::make_unique<CpuExecutable>(program, jit_, threads_);
  }

 private:
  std::shared_ptr<Jit> jit_;
  std::shared_ptr<Threads> threads_;
};

}  // namespace

std::shared_ptr<Device> make_cpu_device(const Settings& settings) { return std::make_shared<CpuDevice>(settings); }

}  // namespace quern
