#include "runtime/opencl/api.h"

#include <algorithm>

#include "quern/error.h"

namespace quern::opencl {

namespace {

struct Row {
  cl_int code;
  const char* name;
  const char* meaning;  ///< null: the name says it
};

constexpr Row kErrors[] = {
    {CL_DEVICE_NOT_FOUND, "CL_DEVICE_NOT_FOUND", "there is no device"},
    {CL_DEVICE_NOT_AVAILABLE, "CL_DEVICE_NOT_AVAILABLE", "the device is lost"},
    {CL_COMPILER_NOT_AVAILABLE, "CL_COMPILER_NOT_AVAILABLE", "the driver has no compiler"},
    {CL_MEM_OBJECT_ALLOCATION_FAILURE, "CL_MEM_OBJECT_ALLOCATION_FAILURE", "out of memory"},
    {CL_OUT_OF_RESOURCES, "CL_OUT_OF_RESOURCES", "out of resources"},
    {CL_OUT_OF_HOST_MEMORY, "CL_OUT_OF_HOST_MEMORY", "out of host memory"},
    {CL_PROFILING_INFO_NOT_AVAILABLE, "CL_PROFILING_INFO_NOT_AVAILABLE", nullptr},
    {CL_IMAGE_FORMAT_NOT_SUPPORTED, "CL_IMAGE_FORMAT_NOT_SUPPORTED", "no images of this format"},
    {CL_BUILD_PROGRAM_FAILURE, "CL_BUILD_PROGRAM_FAILURE", "the driver's compiler failed"},
    {CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST", "the run failed"},
    {CL_INVALID_VALUE, "CL_INVALID_VALUE", nullptr},
    {CL_INVALID_DEVICE, "CL_INVALID_DEVICE", "the device is lost"},
    {CL_INVALID_CONTEXT, "CL_INVALID_CONTEXT", "the device's context is lost"},
    {CL_INVALID_COMMAND_QUEUE, "CL_INVALID_COMMAND_QUEUE", "the device's context is lost"},
    {CL_INVALID_HOST_PTR, "CL_INVALID_HOST_PTR", nullptr},
    {CL_INVALID_MEM_OBJECT, "CL_INVALID_MEM_OBJECT", nullptr},
    {CL_INVALID_IMAGE_FORMAT_DESCRIPTOR, "CL_INVALID_IMAGE_FORMAT_DESCRIPTOR", nullptr},
    {CL_INVALID_IMAGE_SIZE, "CL_INVALID_IMAGE_SIZE", "the image is larger than the device takes"},
    {CL_INVALID_BINARY, "CL_INVALID_BINARY", "the binary is not of this driver"},
    {CL_INVALID_BUILD_OPTIONS, "CL_INVALID_BUILD_OPTIONS", nullptr},
    {CL_INVALID_PROGRAM, "CL_INVALID_PROGRAM", nullptr},
    {CL_INVALID_PROGRAM_EXECUTABLE, "CL_INVALID_PROGRAM_EXECUTABLE", nullptr},
    {CL_INVALID_KERNEL_NAME, "CL_INVALID_KERNEL_NAME", "the source has no kernel of this name"},
    {CL_INVALID_KERNEL_DEFINITION, "CL_INVALID_KERNEL_DEFINITION", nullptr},
    {CL_INVALID_ARG_INDEX, "CL_INVALID_ARG_INDEX", nullptr},
    {CL_INVALID_ARG_VALUE, "CL_INVALID_ARG_VALUE", nullptr},
    {CL_INVALID_ARG_SIZE, "CL_INVALID_ARG_SIZE", nullptr},
    {CL_INVALID_KERNEL_ARGS, "CL_INVALID_KERNEL_ARGS", nullptr},
    {CL_INVALID_WORK_DIMENSION, "CL_INVALID_WORK_DIMENSION", nullptr},
    {CL_INVALID_WORK_GROUP_SIZE, "CL_INVALID_WORK_GROUP_SIZE", "the device does not take groups of this size"},
    {CL_INVALID_WORK_ITEM_SIZE, "CL_INVALID_WORK_ITEM_SIZE", "the device does not take groups of this size"},
    {CL_INVALID_GLOBAL_OFFSET, "CL_INVALID_GLOBAL_OFFSET", nullptr},
    {CL_INVALID_OPERATION, "CL_INVALID_OPERATION", nullptr},
    {CL_INVALID_BUFFER_SIZE, "CL_INVALID_BUFFER_SIZE", "the buffer is larger than the device takes"},
    {CL_INVALID_GLOBAL_WORK_SIZE, "CL_INVALID_GLOBAL_WORK_SIZE", nullptr},
    {-1001, "CL_PLATFORM_NOT_FOUND_KHR", "no driver is installed"},
};

const Row* find(cl_int code) {
  auto row = std::find_if(std::begin(kErrors), std::end(kErrors), [&](const Row& r) { return r.code == code; });
  return row == std::end(kErrors) ? nullptr : row;
}

}  // namespace

std::string error_name(cl_int code) {
  const Row* row = find(code);
  return row ? row->name : "OpenCL error " + std::to_string(code);
}

void DriverLog::add(const char* text) {
  constexpr size_t kMost = 4096;
  std::lock_guard lock(mutex_);
  if (text != nullptr && text_.size() < kMost) text_ += (text_.empty() ? "" : "\n") + std::string(text);
}

std::string DriverLog::take() {
  std::lock_guard lock(mutex_);
  return std::exchange(text_, {});
}

void check(cl_int code, const std::string& what, DriverLog* log) {
  if (code == CL_SUCCESS) return;
  const Row* row = find(code);
  std::string message = what + ": " + (row && row->meaning ? std::string(row->meaning) + " (" : "") + error_name(code) +
                        (row && row->meaning ? ")" : "");
  if (std::string said = log ? log->take() : std::string(); !said.empty()) message += "\nthe driver says: " + said;
  throw DeviceError(message);
}

}  // namespace quern::opencl
