#include "quern/kernel_plan.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "quern/error.h"

#include "base/shown.h"
#include "engine/compile.h"
#include "engine/compiled_kernel.h"
#include "engine/device_handle.h"
#include "engine/records.h"
#include "ir/spec.h"
#include "ir/text.h"

namespace quern {

// A graph is used by one thread at a time, and copies of a plan share theirs: whoever touches it holds its mutex. The first program
// that is made of them is lowered there too; each further one has a graph of its own, which goes when it does.
struct SharedGraph {
  std::mutex mutex;
  Graph graph;
  std::string text;      ///< of the kernel
  bool lowered = false;  ///< there is a program in it
};

struct KernelPlan::Impl {
  std::shared_ptr<SharedGraph> shared;
  TensorCoreUse use;
  std::optional<Kernel> kernel;  ///< empty only while it is made
};

struct KernelProgram::Impl {
  std::shared_ptr<SharedGraph> shared;
  TensorCoreUse use;
  Program program;
  std::vector<Opt> opts;
  std::string opts_text;
  std::optional<std::array<Size, 3>> global_size, local_size;
  std::vector<VariableArgument> variables;
  std::vector<BufferArgument> buffers;
  RunEstimates estimates;
};

namespace {

Size size_of(const SInt& number) {
  if (number.is_int()) return {number.value(), std::to_string(number.value()), {}};
  const SInt simple = simplified(number);
  if (simple.is_int()) return size_of(simple);
  return {std::nullopt, print(simple), reference_node_text(simple.expr(), TextStyle::Flat)};
}

std::optional<std::array<Size, 3>> sizes_of(const std::optional<std::array<SInt, 3>>& dims) {
  if (!dims) return std::nullopt;
  return std::array<Size, 3>{size_of((*dims)[0]), size_of((*dims)[1]), size_of((*dims)[2])};
}

TensorCoreUse tensor_core_use(int number) {
  if (number < 0 || number > 3)
    throw OptError("tensor cores are used in way 0, 1, 2 or 3, not " + std::to_string(number));
  return static_cast<TensorCoreUse>(number);
}

PlanOpt public_opt(const Opt& opt) { return {std::string(to_string(opt.op)), opt.axis, opt.amount}; }

void expect_function_name(const std::string& name) {
  constexpr size_t kLongest = 128;  // compilers and drivers make file names of it
  const auto fits = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  if (name.empty() || name.size() > kLongest || !std::ranges::all_of(name, fits) || (name[0] >= '0' && name[0] <= '9'))
    throw InvalidKernel("a function's name has up to 128 letters, digits and _, and starts with no digit: not " +
                        in_quotes(name));
}

}  // namespace

// ---- plans ----

KernelPlan::KernelPlan(const KernelGraph& kernel, const std::string& target, const PlanOptions& options)
    : KernelPlan(kernel.text(), target, options) {}

KernelPlan::KernelPlan(std::string text, const std::string& target, const PlanOptions& options)
    : impl_(std::make_unique<Impl>()) {
  const Target& on = options.allow_tf32 ? with_tf32(find_target(target)) : find_target(target);
  impl_->use = tensor_core_use(options.tensor_cores);
  impl_->shared = std::make_shared<SharedGraph>();
  impl_->shared->text = std::move(text);
  const UOp root = parse(impl_->shared->graph, impl_->shared->text);
  verify(root, Spec::KernelAst);
  impl_->kernel.emplace(root, on, impl_->use);
}

KernelPlan::KernelPlan(const KernelPlan& other) {
  const std::lock_guard lock(other.impl_->shared->mutex);
  impl_ = std::make_unique<Impl>(*other.impl_);
}
KernelPlan& KernelPlan::operator=(const KernelPlan& other) {
  if (this != &other) impl_ = std::move(KernelPlan(other).impl_);
  return *this;
}
KernelPlan::~KernelPlan() = default;

std::optional<std::string> KernelPlan::try_apply(const std::string& opt) {
  const Opt parsed = parse_opt(opt);
  const std::lock_guard lock(impl_->shared->mutex);
  return impl_->kernel->try_apply(parsed);
}

void KernelPlan::apply(const std::string& opts) {
  const std::vector<Opt> parsed = parse_opts(opts);
  const std::lock_guard lock(impl_->shared->mutex);
  impl_->kernel->apply(parsed);
}

void KernelPlan::optimize(const std::string& opts) {
  const std::lock_guard lock(impl_->shared->mutex);
  Kernel& kernel = *impl_->kernel;
  if (!kernel.applied_opts().empty())
    throw OptError("a plan that has opts is not optimized again: " + to_string(kernel.applied_opts()));
  kernel = quern::optimize(kernel.ast(), kernel.target(), {.opts = opts, .tensor_cores = impl_->use});
}

void KernelPlan::apply_required() {
  const std::lock_guard lock(impl_->shared->mutex);
  impl_->kernel->required_optimizations();
}

void KernelPlan::apply_hand_coded() {
  const std::lock_guard lock(impl_->shared->mutex);
  impl_->kernel->hand_coded_optimizations();
}

bool KernelPlan::apply_tensor_cores(int amount, int axis, const std::optional<std::string>& extra) {
  std::optional<std::vector<Opt>> opts;
  if (extra) opts = parse_opts(*extra);
  const std::lock_guard lock(impl_->shared->mutex);
  return impl_->kernel->apply_tensor_cores(amount, axis, opts ? &*opts : nullptr);
}

std::string KernelPlan::name() const {
  const std::lock_guard lock(impl_->shared->mutex);
  return impl_->kernel->name();
}

const std::string& KernelPlan::target() const { return impl_->kernel->target().name; }

std::vector<PlanOpt> KernelPlan::applied_opts() const {
  const std::lock_guard lock(impl_->shared->mutex);
  std::vector<PlanOpt> all;
  for (const Opt& opt : impl_->kernel->applied_opts()) all.push_back(public_opt(opt));
  return all;
}

std::string KernelPlan::applied_text() const {
  const std::lock_guard lock(impl_->shared->mutex);
  return to_string(impl_->kernel->applied_opts());
}

std::vector<PlanAxis> KernelPlan::axes() const {
  const std::lock_guard lock(impl_->shared->mutex);
  const Kernel& kernel = *impl_->kernel;
  std::vector<PlanAxis> all;
  for (const Axis& axis : kernel.axes())
    all.push_back({size_of(axis.size), std::string(to_string(axis.kind)),
                   std::string(color_of(axis.kind, kernel.dont_use_locals()))});
  return all;
}

std::string KernelPlan::tensor_core() const {
  const std::lock_guard lock(impl_->shared->mutex);
  const TensorCore* core = impl_->kernel->tensor_core();
  return core ? core->name() : "";
}

std::vector<std::pair<int, PlanOpt>> KernelPlan::legal_opts(int64_t max_lanes, int64_t max_threads) const {
  const std::lock_guard lock(impl_->shared->mutex);
  std::vector<std::pair<int, PlanOpt>> all;
  for (int number : legal_actions(*impl_->kernel, {max_lanes, max_threads}))
    all.emplace_back(number, public_opt(actions_for(impl_->kernel->target()).at(static_cast<size_t>(number) - 1)));
  return all;
}

std::string KernelPlan::kernel_text() const { return impl_->shared->text; }

std::string KernelPlan::optimized_text() const {
  const std::lock_guard lock(impl_->shared->mutex);
  return print(impl_->kernel->optimized_ast());
}

namespace {

void describe(KernelProgram::Impl& p) {
  p.opts_text = to_string(p.opts);
  p.global_size = sizes_of(p.program.global_size);
  p.local_size = sizes_of(p.program.local_size);
  p.variables = variable_arguments(p.program);
  p.buffers = buffer_arguments(p.program);
  const Estimates& e = p.program.estimates;
  p.estimates = {size_of(e.ops), size_of(e.load_store_bytes), size_of(e.buffer_bytes)};
}

/// The same kernel in another graph.
Kernel again(Graph& graph, const std::string& text, const Target& target, TensorCoreUse use,
             const std::vector<Opt>& opts) {
  Kernel kernel(parse(graph, text), target, use);
  kernel.apply(opts);
  return kernel;
}

}  // namespace

KernelProgram KernelPlan::compile(const std::string& function_name) const {
  if (!function_name.empty()) expect_function_name(function_name);
  auto p = std::make_shared<KernelProgram::Impl>();
  p->use = impl_->use;
  std::unique_lock lock(impl_->shared->mutex);
  std::optional<Kernel> kernel = impl_->kernel;
  p->opts = kernel->applied_opts();
  p->shared = impl_->shared;
  if (std::exchange(impl_->shared->lowered, true)) {
    lock.unlock();
    p->shared = std::make_shared<SharedGraph>();
    p->shared->text = impl_->shared->text;
    kernel = again(p->shared->graph, p->shared->text, kernel->target(), p->use, p->opts);
  }
  p->program = quern::compile(*kernel, function_name.empty() ? kernel->name() : function_name);
  describe(*p);
  return KernelProgram(std::move(p));
}

// ---- programs ----

const std::string& KernelProgram::name() const { return impl_->program.name; }
const std::string& KernelProgram::source() const { return impl_->program.source; }
const std::string& KernelProgram::target() const { return impl_->program.target->name; }
const std::string& KernelProgram::opts() const { return impl_->opts_text; }
const std::optional<std::array<Size, 3>>& KernelProgram::global_size() const { return impl_->global_size; }
const std::optional<std::array<Size, 3>>& KernelProgram::local_size() const { return impl_->local_size; }
const std::vector<VariableArgument>& KernelProgram::variables() const { return impl_->variables; }
const std::vector<BufferArgument>& KernelProgram::buffers() const { return impl_->buffers; }
const std::vector<int>& KernelProgram::outputs() const { return impl_->program.outs; }
const RunEstimates& KernelProgram::estimates() const { return impl_->estimates; }
int64_t KernelProgram::num_uops() const { return static_cast<int64_t>(impl_->program.linear.uops.size()); }
std::string KernelProgram::linear_text() const {
  const std::lock_guard lock(impl_->shared->mutex);
  return print_linear(impl_->program.linear);
}
std::string KernelProgram::linear_notation() const {
  const std::lock_guard lock(impl_->shared->mutex);
  return print(impl_->shared->graph.node(Op::Noop, Scalar::Void, impl_->program.linear.uops));
}

CompiledKernel KernelProgram::compile(const std::string& device) const { return compile(DeviceHandle(device)); }

CompiledKernel KernelProgram::compile(const DeviceHandle& device) const {
  if (!device.impl().device->accepts(*impl_->program.target))
    throw DeviceError("device " + device.name() + " cannot run programs for " + target());
  // What runs looks at its program's nodes, in any thread: they are in a graph that nobody else has.
  auto graph = std::make_shared<Graph>();
  const Kernel kernel = again(*graph, impl_->shared->text, *impl_->program.target, impl_->use, impl_->opts);
  return compile_for(device.impl().device, graph, quern::compile(kernel, name()), impl_->opts_text);
}

}  // namespace quern
