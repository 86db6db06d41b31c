#pragma once
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "runtime/device.h"
#include "runtime/opencl/platforms.h"

namespace quern::opencl {

/// A device's context and what it can do; its programs share it.
struct Session {
  explicit Session(const Found& device);
  Found found;
  DriverLog log;
  Context context;
  bool shares_memory;  ///< the device works on the host's memory in place
  bool has_images;
  size_t max_image_width, max_image_height, max_group, image_row_bytes = 0;
  std::array<size_t, 3> max_items{};
  cl_ulong max_local_bytes, max_buffer_bytes;
  std::string options;     ///< of the compiler
  std::string extensions;  ///< each between spaces
  bool has_extension(std::string_view name) const;

  pid_t process;  ///< that opened it
  /// Drivers have threads, which a forked process does not: there it would wait for them for ever. Throws DeviceError in one.
  void expect_own_process() const;
};

/// Runs one kernel on a queue of its own. Runs of several threads follow each other.
class OpenClExecutable final : public Executable {
 public:
  OpenClExecutable(std::shared_ptr<Session> session, const Program& program, ProgramHandle handle);
  double run(std::span<Buffer* const> buffers, const VarValues& vars) override;
  std::string binary() override;

 private:
  /// Memory of the device behind an argument. An image, or a copy, is kept from run to run; memory that is the host's own lives for
  /// one run.
  struct Argument {
    Memory memory;
    size_t bytes = 0;
    bool in_place = false;
  };
  struct Dims {
    std::array<size_t, 3> items;                 ///< work items in all
    std::optional<std::array<size_t, 3>> group;  ///< nothing: the driver's choice
  };

  void check(cl_int code, const std::string& what) const;
  Dims dims_of(const VarValues& vars) const;
  const DType& type_of(size_t position) const { return program_.buffer_types.at(program_.globals[position]); }
  bool is_output(size_t position) const;
  void make_argument(size_t position, Buffer& buffer);
  void make_image(Argument& argument, const DType& type, bool written);
  void upload(size_t position, const Buffer& buffer);
  void download(size_t position, Buffer& buffer);
  template <class Part>
  void for_image_parts(size_t position, size_t bytes, Part&& part);
  void set_variables(const VarValues& vars);
  double launch(const Dims& dims);

  std::shared_ptr<Session> session_;
  Program program_;
  ProgramHandle handle_;
  Kernel kernel_;
  Queue queue_;
  std::vector<Argument> arguments_;
  std::mutex mutex_;
};

}  // namespace quern::opencl
