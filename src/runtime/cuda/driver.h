#pragma once
// The functions of CUDA's driver API that the device calls, declared here: neither its headers nor its library are needed to build.
#include <cstddef>
#include <memory>
#include <string>

#include "runtime/cuda/library.h"

namespace quern::cuda {

using Result = int;  // 0: success
using DeviceNumber = int;
using Address = unsigned long long;
struct ContextObject;
struct ModuleObject;
struct FunctionObject;
struct StreamObject;
struct EventObject;

enum Attribute : int {
  kMaxThreadsPerBlock = 1,
  kMaxBlockX = 2,
  kMaxGridX = 5,
  kComputeMajor = 75,
  kComputeMinor = 76,
};
enum ModuleOption : int { kErrorLog = 5, kErrorLogBytes = 6 };

/// NVIDIA's driver, loaded.
struct Driver {
  /// Null where it is not installed or too old; `why` says so.
  static std::shared_ptr<const Driver> load(std::string& why);

  /// Throws DeviceError "<what>: <meaning> (CUDA_ERROR_...)" unless `code` is success.
  void check(Result code, const std::string& what) const;
  int attribute(DeviceNumber device, int which) const;

  std::shared_ptr<Library> library;
  Result (*init)(unsigned flags);
  Result (*error_name)(Result code, const char** text);
  Result (*error_string)(Result code, const char** text);
  Result (*driver_version)(int* version);
  Result (*device_count)(int* count);
  Result (*device_get)(DeviceNumber* device, int ordinal);
  Result (*device_name)(char* text, int bytes, DeviceNumber device);
  Result (*device_attribute)(int* value, int which, DeviceNumber device);
  Result (*context_retain)(ContextObject** context, DeviceNumber device);
  Result (*context_release)(DeviceNumber device);
  Result (*context_set)(ContextObject* context);
  Result (*module_load)(ModuleObject** module, const void* image, unsigned count, int* options, void** values);
  Result (*module_unload)(ModuleObject* module);
  Result (*module_function)(FunctionObject** function, ModuleObject* module, const char* name);
  Result (*memory_get)(Address* memory, size_t bytes);
  Result (*memory_free)(Address memory);
  Result (*to_device)(Address to, const void* from, size_t bytes, StreamObject* stream);
  Result (*from_device)(void* to, Address from, size_t bytes, StreamObject* stream);
  Result (*stream_create)(StreamObject** stream, unsigned flags);
  Result (*stream_destroy)(StreamObject* stream);
  Result (*stream_wait)(StreamObject* stream);
  Result (*event_create)(EventObject** event, unsigned flags);
  Result (*event_destroy)(EventObject* event);
  Result (*event_record)(EventObject* event, StreamObject* stream);
  Result (*event_milliseconds)(float* milliseconds, EventObject* start, EventObject* end);
  Result (*launch)(FunctionObject* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, StreamObject* stream, void** arguments,
                   void** extra);
};

}  // namespace quern::cuda
