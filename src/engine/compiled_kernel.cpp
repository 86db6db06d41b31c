#include "quern/compiled_kernel.h"

#include <algorithm>

#include "quern/error.h"

#include "engine/compile.h"
#include "engine/kernel_graph.h"
#include "ir/text.h"
#include "runtime/device.h"

namespace quern {

struct CompiledKernel::Impl {
  Graph graph;  // of its own: a graph belongs to one thread, and the program's nodes live as long as this
  std::shared_ptr<Device> device;
  Program program;
  std::unique_ptr<Executable> executable;
  std::string opts;
  std::vector<BufferArgument> buffers;
  std::vector<VariableArgument> variables;
};

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

void describe_arguments(CompiledKernel::Impl& k) {
  const Program& p = k.program;
  for (int number : p.globals)
    k.buffers.push_back({number, public_type(p.buffer_types.at(number)), p.buffer_sizes.at(number),
                         std::find(p.outs.begin(), p.outs.end(), number) != p.outs.end()});
  for (UOp v : p.vars) {
    const VarArg& arg = *std::get<const VarArg*>(v.arg());
    k.variables.push_back({arg.name, arg.min, arg.max});
  }
}

}  // namespace

CompiledKernel compile(const KernelGraph& kernel, const CompileOptions& options) {
  auto k = std::make_shared<CompiledKernel::Impl>();
  k->device = open_device(options.device);
  const Target& target = target_for(*k->device, options.target);
  Kernel optimized = optimize(parse(k->graph, kernel.text()), target, {.opts = options.opts});
  k->opts = to_string(optimized.applied_opts());
  k->program = compile(optimized);
  k->executable = k->device->compile(k->program);
  describe_arguments(*k);
  return CompiledKernel(std::move(k));
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
