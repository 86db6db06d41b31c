#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "quern/data_type.h"
#include "quern/kernel_graph.h"

namespace quern {

/// A kernel's buffer: which number it has, and what it must hold.
struct BufferArgument {
  int number;
  DataType type;
  int64_t elements;  ///< at least so many
  bool is_output;    ///< the kernel writes it
};

/// A number to give when the kernel runs, and its inclusive bounds.
struct VariableArgument {
  std::string name;
  int64_t min;
  int64_t max;
};

/// The user's own memory for a buffer. It is not copied; `data` must be aligned for its type.
struct Array {
  DataType type;
  void* data;
  int64_t elements;
  bool writable = true;
};

template <class T>
constexpr DataType data_type_of() {
  if constexpr (std::is_same_v<T, bool>)
    return DataType::Bool;
  else if constexpr (std::is_same_v<T, float>)
    return DataType::Float;
  else if constexpr (std::is_same_v<T, double>)
    return DataType::Double;
  else {
    static_assert(std::is_integral_v<T>, "no DataType for this type: make the Array by hand");
    constexpr DataType kSigned[] = {DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64};
    constexpr DataType kUnsigned[] = {DataType::UInt8, DataType::UInt16, DataType::UInt32, DataType::UInt64};
    constexpr int kAt = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return std::is_signed_v<T> ? kSigned[kAt] : kUnsigned[kAt];
  }
}

/// Memory of a container such as std::vector<float>; of a const one for inputs only.
template <class Container>
Array array(Container& container) {
  using T = std::remove_pointer_t<decltype(container.data())>;
  return {data_type_of<std::remove_const_t<T>>(), const_cast<std::remove_const_t<T>*>(container.data()),
          static_cast<int64_t>(container.size()), !std::is_const_v<T>};
}

struct CompileOptions {
  std::string device = "CPU";      ///< CPU, CLANG, OPENCL, CUDA or INTERP (quern devices)
  std::string target;              ///< what to compile for; empty: the device's own
  std::string opts = "heuristic";  ///< heuristic, reference, none, or a list: "UPCAST(0,4) LOCAL(1,8)"
};

/// A compiled kernel, ready to run any number of times. Copies share it. It may be run from several threads at once on buffers
/// of their own.
class CompiledKernel {
 public:
  const std::string& name() const;
  /// In the target's language: C, LLVM IR, OpenCL C, CUDA, ...
  const std::string& source() const;
  const std::string& target() const;
  /// The opts that were applied, as CompileOptions::opts takes them.
  const std::string& opts() const;
  const std::vector<BufferArgument>& buffers() const;
  const std::vector<VariableArgument>& variables() const;

  /// Runs once on `arrays`, in the order of buffers(), and returns the seconds it took. Throws DeviceError for a wrong number of
  /// arrays, a type, size or alignment that does not fit, an output that is not writable, a variable missing or out of bounds.
  double run(std::span<const Array> arrays, const std::map<std::string, int64_t>& variables = {}) const;
  double run(std::initializer_list<Array> arrays, const std::map<std::string, int64_t>& variables = {}) const {
    return run(std::span<const Array>(arrays.begin(), arrays.size()), variables);
  }

  struct Impl;
  explicit CompiledKernel(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Compiles for a device of this process. Throws InvalidKernel, OptError, CompileError or DeviceError.
CompiledKernel compile(const KernelGraph& kernel, const CompileOptions& options = {});

/// The source for a target, without a device. Throws as compile.
std::string render_source(const KernelGraph& kernel, const std::string& target, const std::string& opts = "heuristic");

}  // namespace quern
