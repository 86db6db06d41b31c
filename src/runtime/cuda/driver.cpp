#include "runtime/cuda/driver.h"

#include "quern/error.h"

namespace quern::cuda {

std::shared_ptr<const Driver> Driver::load(std::string& why) {
  auto d = std::make_shared<Driver>();
  d->library = Library::load({"libcuda.so.1"}, why);
  if (!d->library) {
    why = "NVIDIA's driver is missing: " + why;
    return nullptr;
  }
  const Library& from = *d->library;
  std::string missing;
  bind(from, "cuInit", d->init, missing);
  bind(from, "cuGetErrorName", d->error_name, missing);
  bind(from, "cuGetErrorString", d->error_string, missing);
  bind(from, "cuDriverGetVersion", d->driver_version, missing);
  bind(from, "cuDeviceGetCount", d->device_count, missing);
  bind(from, "cuDeviceGet", d->device_get, missing);
  bind(from, "cuDeviceGetName", d->device_name, missing);
  bind(from, "cuDeviceGetAttribute", d->device_attribute, missing);
  bind(from, "cuDevicePrimaryCtxRetain", d->context_retain, missing);
  bind(from, "cuDevicePrimaryCtxRelease_v2", d->context_release, missing);
  bind(from, "cuCtxSetCurrent", d->context_set, missing);
  bind(from, "cuModuleLoadDataEx", d->module_load, missing);
  bind(from, "cuModuleUnload", d->module_unload, missing);
  bind(from, "cuModuleGetFunction", d->module_function, missing);
  bind(from, "cuMemAlloc_v2", d->memory_get, missing);
  bind(from, "cuMemFree_v2", d->memory_free, missing);
  bind(from, "cuMemcpyHtoDAsync_v2", d->to_device, missing);
  bind(from, "cuMemcpyDtoHAsync_v2", d->from_device, missing);
  bind(from, "cuStreamCreate", d->stream_create, missing);
  bind(from, "cuStreamDestroy_v2", d->stream_destroy, missing);
  bind(from, "cuStreamSynchronize", d->stream_wait, missing);
  bind(from, "cuEventCreate", d->event_create, missing);
  bind(from, "cuEventDestroy_v2", d->event_destroy, missing);
  bind(from, "cuEventRecord", d->event_record, missing);
  bind(from, "cuEventElapsedTime", d->event_milliseconds, missing);
  bind(from, "cuLaunchKernel", d->launch, missing);
  if (missing.empty()) return d;
  why = "NVIDIA's driver is too old: it lacks " + missing;
  return nullptr;
}

void Driver::check(Result code, const std::string& what) const {
  if (code == 0) return;
  const char *name = nullptr, *meaning = nullptr;
  if (error_name(code, &name) != 0 || name == nullptr) name = "unknown";
  if (error_string(code, &meaning) != 0 || meaning == nullptr) meaning = "error";
  throw DeviceError(what + ": " + meaning + " (" + name + ", " + std::to_string(code) + ")");
}

int Driver::attribute(DeviceNumber device, int which) const {
  int value = 0;
  check(device_attribute(&value, which, device), "cannot ask the CUDA device what it can do");
  return value;
}

}  // namespace quern::cuda
