#pragma once
#include <memory>

#include "quern/compiled_kernel.h"

#include "render/program.h"
#include "runtime/device.h"

namespace quern {

/// What a public CompiledKernel holds.
struct CompiledKernel::Impl {
  std::shared_ptr<Graph> graph;  ///< the program's nodes live as long as this
  std::shared_ptr<Device> device;
  Program program;
  std::unique_ptr<Executable> executable;
  std::string opts;
  std::vector<BufferArgument> buffers;
  std::vector<VariableArgument> variables;
};

/// A program's arguments in the public API's words.
std::vector<BufferArgument> buffer_arguments(const Program& program);
std::vector<VariableArgument> variable_arguments(const Program& program);

/// Compiles a program, whose nodes are of `graph`, for a device. Throws DeviceError if it does not run programs of the target.
CompiledKernel compile_for(std::shared_ptr<Device> device, std::shared_ptr<Graph> graph, Program program,
                           std::string opts);

}  // namespace quern
