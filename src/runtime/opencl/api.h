#pragma once
// OpenCL's objects with owners, and its errors with names.
#define CL_TARGET_OPENCL_VERSION 120
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include <CL/cl.h>

namespace quern::opencl {

/// "CL_OUT_OF_RESOURCES"; the number where it has no name here.
std::string error_name(cl_int code);

/// What a driver told through its context's callback since the last look.
class DriverLog {
 public:
  void add(const char* text);
  std::string take();

 private:
  std::mutex mutex_;
  std::string text_;
};

/// Throws DeviceError "<what>: out of memory (CL_...)" with the driver's words, unless `code` is success.
void check(cl_int code, const std::string& what, DriverLog* log = nullptr);

template <auto Function>
struct Release {
  template <class T>
  void operator()(T* object) const {
    Function(object);
  }
};
template <class Handle, auto Function>
using Owner = std::unique_ptr<std::remove_pointer_t<Handle>, Release<Function>>;

using Context = Owner<cl_context, clReleaseContext>;
using Queue = Owner<cl_command_queue, clReleaseCommandQueue>;
using ProgramHandle = Owner<cl_program, clReleaseProgram>;
using Kernel = Owner<cl_kernel, clReleaseKernel>;
using Memory = Owner<cl_mem, clReleaseMemObject>;
using Event = Owner<cl_event, clReleaseEvent>;

/// A text that OpenCL tells by `get(bytes, value, &bytes needed)`; empty where it has none.
template <class Get>
std::string text_of(Get&& get) {
  size_t bytes = 0;
  if (get(size_t{0}, static_cast<void*>(nullptr), &bytes) != CL_SUCCESS || bytes == 0) return {};
  std::string text(bytes, '\0');
  if (get(bytes, static_cast<void*>(text.data()), static_cast<size_t*>(nullptr)) != CL_SUCCESS) return {};
  text.resize(text.find_last_not_of(std::string("\0 \n", 3)) + 1);
  return text;
}

inline std::string device_text(cl_device_id device, cl_device_info what) {
  return text_of(
      [&](size_t bytes, void* value, size_t* needed) { return clGetDeviceInfo(device, what, bytes, value, needed); });
}

/// A number or another plain value that a device tells of itself; zero where it does not.
template <class T>
T device_value(cl_device_id device, cl_device_info what) {
  T value{};
  return clGetDeviceInfo(device, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : T{};
}

}  // namespace quern::opencl
