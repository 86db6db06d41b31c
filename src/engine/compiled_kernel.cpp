#include "engine/compiled_kernel.h"

#include <algorithm>

#include "quern/error.h"

#include "engine/compile.h"
#include "engine/kernel_graph.h"
#include "ir/text.h"

namespace quern {

namespace {

// DataType and Scalar list the same types in the same order, but for void first and index last.
DataType public_type(const DType& t) {
  Scalar s = t.is_image() && t.image_half ? Scalar::Half : t.scalar;
  return static_cast<DataType>(static_cast<int>(s) - 1);
}
Scalar scalar_of(DataType t) { return static_cast<Scalar>(static_cast<int>(t) + 1); }
static_assert(static_cast<int>(DataType::Bool) + 1 == static_cast<int>(Scalar::Bool));
static_assert(static_cast<int>(DataType::UInt64) + 1 == static_cast<int>(Scalar::UInt64));
static_assert(static_cast<int>(DataType::Double) + 1 == static_cast<int>(Scalar::Double));

}  // namespace

std::vector<BufferArgument> buffer_arguments(const Program& program) {
  std::vector<BufferArgument> all;
  for (int number : program.globals)
    all.push_back({number, public_type(program.buffer_types.at(number)), program.buffer_sizes.at(number),
                   std::ranges::find(program.outs, number) != program.outs.end()});
  return all;
}

std::vector<VariableArgument> variable_arguments(const Program& program) {
  std::vector<VariableArgument> all;
  for (UOp v : program.vars) {
    const VarArg& arg = *std::get<const VarArg*>(v.arg());
    all.push_back({arg.name, arg.min, arg.max});
  }
  return all;
}

CompiledKernel compile_for(std::shared_ptr<Device> device, std::shared_ptr<Graph> graph, Program program,
                           std::string opts) {
  if (!device->accepts(*program.target))
    throw DeviceError("device " + device->name() + " cannot run programs for " + program.target->name);
  auto k = std::make_shared<CompiledKernel::Impl>();
  k->graph = std::move(graph);
  k->device = std::move(device);
  k->program = std::move(program);
  k->opts = std::move(opts);
  k->executable = k->device->compile(k->program);
  k->buffers = buffer_arguments(k->program);
  k->variables = variable_arguments(k->program);
  return CompiledKernel(std::move(k));
}

CompiledKernel compile(const KernelGraph& kernel, const CompileOptions& options) {
  std::shared_ptr<Device> device = open_device(options.device);
  const Target& target = target_for(*device, options.target);
  auto graph = std::make_shared<Graph>();
  Kernel optimized = optimize(parse(*graph, kernel.text()), target, {.opts = options.opts});
  return compile_for(std::move(device), std::move(graph), compile(optimized), to_string(optimized.applied_opts()));
}

std::string render_source(const KernelGraph& kernel, const std::string& target, const std::string& opts) {
  Graph graph;
  return compile(parse(graph, kernel.text()), find_target(target), {.opts = opts}).source;
}

const std::string& CompiledKernel::name() const { return impl_->program.name; }
const std::string& CompiledKernel::source() const { return impl_->program.source; }
const std::string& CompiledKernel::target() const { return impl_->program.target->name; }
const std::string& CompiledKernel::opts() const { return impl_->opts; }
const std::vector<BufferArgument>& CompiledKernel::buffers() const { return impl_->buffers; }
const std::vector<VariableArgument>& CompiledKernel::variables() const { return impl_->variables; }

double CompiledKernel::run(std::span<const Array> arrays, const std::map<std::string, int64_t>& variables) const {
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<Buffer*> pointers;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const Array& a = arrays[i];
    if (i < impl_->buffers.size() && impl_->buffers[i].is_output && !a.writable)
      throw DeviceError("buffer " + std::to_string(impl_->buffers[i].number) + " is written, but its array is const");
    if (a.type < DataType::Bool || a.type > DataType::Double)
      throw DeviceError("argument " + std::to_string(i) +
                        " has a type that does not exist: " + std::to_string(static_cast<int>(a.type)));
    buffers.push_back(std::make_unique<Buffer>(scalar_of(a.type), a.elements, static_cast<std::byte*>(a.data)));
    pointers.push_back(buffers.back().get());
  }
  return impl_->executable->run(pointers, variables);
}

}  // namespace quern
