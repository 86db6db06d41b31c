#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings.h"
#include "render/program.h"

namespace quern {

/// Memory of `size` elements on the host (CPU, CLANG and INTERP share it), aligned to 64 bytes, zero at first.
/// Throws DeviceError where there is not enough memory.
class Buffer {
 public:
  static constexpr size_t kAlignment = 64;
  Buffer(Scalar dtype, int64_t size);
  /// Borrows memory that outlives it.
  Buffer(Scalar dtype, int64_t size, std::byte* memory) : dtype_(dtype), size_(size), data_(memory, Free{false}) {}
  Scalar dtype() const { return dtype_; }
  int64_t size() const { return size_; }
  size_t bytes() const;
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    bool owned = true;
    void operator()(std::byte* p) const {
      if (owned) std::free(p);  // NOLINT: aligned_alloc'ed
    }
  };
  Scalar dtype_;
  int64_t size_;
  std::unique_ptr<std::byte, Free> data_;
};

using Buffers = std::vector<std::unique_ptr<Buffer>>;
std::vector<Buffer*> pointers_to(const Buffers& buffers);

/// Values of a program's variables, by name.
using VarValues = std::map<std::string, int64_t>;

/// A compiled program. The graph of the program's nodes must outlive it.
class Executable {
 public:
  virtual ~Executable() = default;
  /// Runs once and returns seconds. `buffers` in order of Program::globals. Throws DeviceError for a wrong count, dtype, size
  /// or alignment, and for a variable that is missing or out of its range.
  virtual double run(std::span<Buffer* const> buffers, const VarValues& vars) = 0;
  /// What Device::load makes it from again without a compiler; empty where there is no such thing.
  virtual std::string binary() { return {}; }
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  /// The target its programs are made for when the user names none.
  virtual const Target& default_target() const = 0;
  /// True if it can run programs of this target.
  virtual bool accepts(const Target& target) const = 0;
  virtual std::unique_ptr<Executable> compile(const Program& program) = 0;
  /// Compiler, version, flags and hardware: a binary made under one identity means nothing under another. Empty: no binaries.
  virtual std::string identity() const { return {}; }
  /// All that its compiler gets to read for a program.
  virtual std::string compiled_source(const Program& program) const { return program.source; }
  /// From the binary of the same program's executable. Throws CompileError for one that the driver does not take.
  virtual std::unique_ptr<Executable> load(const Program& program, std::string_view binary);
  /// True if a child process, forked at any time, can run its executables: the code is the host's and asks no driver.
  virtual bool survives_fork() const { return false; }
  /// Called before a fork whose child runs executables: ends threads that the child would miss.
  virtual void before_fork() {}
  /// Compiler and hardware that the time of a program depends on; empty where nothing can be told.
  virtual std::string tuning_identity() const { return identity(); }
};

struct DeviceInfo {
  std::string name;
  bool available;
  std::string note;  ///< what it is, or why it is absent
};
/// The default device first.
std::vector<DeviceInfo> devices(const Settings& settings = {});
/// Throws DeviceError that says what is missing, or lists the known names.
std::shared_ptr<Device> open_device(std::string_view name, const Settings& settings = {});

/// The target that is called so, or for an empty name the device's own. Throws DeviceError if the device cannot run its programs.
const Target& target_for(const Device& device, std::string_view name);

/// The element type a buffer for this pointer or image type has: half for imageh, float for imagef.
Scalar storage_type(const DType& type);
/// Elements each global buffer of a program must have: Program::buffer_sizes where it is filled; else one past the largest
/// index of an access without a gate (images: height * width * 4).
std::map<int, int64_t> buffer_sizes(const Program& program);

/// The variables a launch needs values of: the program's arguments, then those that only its launch dims have.
std::vector<UOp> launch_variables(const Program& program);
/// Shared checks of Executable::run: count, dtype, size and alignment of the buffers, a written buffer given twice, variables
/// missing or out of their range. Throws DeviceError.
void check_launch(const Program& program, std::span<Buffer* const> buffers, const VarValues& vars);
/// Values of a program's variables in its order; they must have passed check_launch.
std::vector<int64_t> variable_values(const Program& program, const VarValues& vars);
/// Launch dims for values of the variables.
std::array<int64_t, 3> launch_dims(const std::array<SInt, 3>& dims, const VarValues& vars);

}  // namespace quern
