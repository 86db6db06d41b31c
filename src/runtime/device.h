#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "render/program.h"

namespace quern {

/// Memory of `size` elements on the host (CPU, CLANG and INTERP share it), aligned to 64 bytes.
class Buffer {
 public:
  Buffer(Scalar dtype, int64_t size);
  Scalar dtype() const { return dtype_; }
  int64_t size() const { return size_; }
  size_t bytes() const;
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  Scalar dtype_;
  int64_t size_;
  std::unique_ptr<std::byte, Free> data_;
};

/// Values of a program's variables, by name.
using VarValues = std::map<std::string, int64_t>;

/// A compiled program.
class Executable {
 public:
  virtual ~Executable() = default;
  /// Runs once and returns seconds. `buffers` in order of Program::globals. Throws DeviceError for a wrong count, dtype, size
  /// or alignment, and for a variable that is missing or out of its range.
  virtual double run(std::span<Buffer* const> buffers, const VarValues& vars) = 0;
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
};

struct DeviceInfo {
  std::string name;
  bool available;
  std::string note;   ///< what it is, or why it is absent
};
std::vector<DeviceInfo> devices();
/// Throws DeviceError that says what is missing, or lists the known names.
std::shared_ptr<Device> open_device(std::string_view name);

/// Elements each global buffer of a program must have: one past the largest index it may touch (images: height * width * 4).
std::map<int, int64_t> buffer_sizes(const Program& program);

/// Shared checks of Executable::run.
void check_launch(const Program& program, std::span<Buffer* const> buffers, const VarValues& vars);
/// Launch dims for values of the variables.
std::array<int64_t, 3> launch_dims(const std::array<SInt, 3>& dims, const VarValues& vars);

}  // namespace quern
