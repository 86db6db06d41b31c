#include "runtime/opencl/executable.h"

#include <algorithm>
#include <cstring>

#include <unistd.h>

#include "quern/error.h"

namespace quern::opencl {

namespace {

constexpr size_t kHostAlignment = 64;  // of memory used in place: that of the widest vectors

void CL_CALLBACK tell(const char* text, const void*, size_t, void* log) { static_cast<DriverLog*>(log)->add(text); }

std::string triple(const std::array<size_t, 3>& v) {
  return std::to_string(v[0]) + " x " + std::to_string(v[1]) + " x " + std::to_string(v[2]);
}

}  // namespace

Session::Session(const Found& device) : found(device), process(getpid()) {
  cl_device_id id = found.device;
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                              reinterpret_cast<cl_context_properties>(found.platform), 0};
  cl_int code = CL_SUCCESS;
  context.reset(clCreateContext(properties, 1, &id, tell, &log, &code));
  opencl::check(code, "cannot open device OPENCL (" + found.text() + ")", &log);
  shares_memory = (device_value<cl_device_type>(id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0 &&
                  device_value<cl_bool>(id, CL_DEVICE_HOST_UNIFIED_MEMORY);
  has_images = device_value<cl_bool>(id, CL_DEVICE_IMAGE_SUPPORT);
  max_image_width = device_value<size_t>(id, CL_DEVICE_IMAGE2D_MAX_WIDTH);
  max_image_height = device_value<size_t>(id, CL_DEVICE_IMAGE2D_MAX_HEIGHT);
  max_group = device_value<size_t>(id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
  max_items = device_value<std::array<size_t, 3>>(id, CL_DEVICE_MAX_WORK_ITEM_SIZES);
  max_local_bytes = device_value<cl_ulong>(id, CL_DEVICE_LOCAL_MEM_SIZE);
  max_buffer_bytes = device_value<cl_ulong>(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  extensions = " " + device_text(id, CL_DEVICE_EXTENSIONS) + " ";
  options = "-cl-std=CL1.2";
  auto floats = device_value<cl_device_fp_config>(id, CL_DEVICE_SINGLE_FP_CONFIG);
  if ((floats & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0) options += " -cl-fp32-correctly-rounded-divide-sqrt";
}

void Session::expect_own_process() const {
  if (getpid() != process)
    throw DeviceError("device OPENCL was opened by process " + std::to_string(process) +
                      ", which forked this one: it has to be opened here");
}

bool Session::has_extension(std::string_view name) const {
  return extensions.find(" " + std::string(name) + " ") != std::string::npos;
}

OpenClExecutable::OpenClExecutable(std::shared_ptr<Session> session, const Program& program, ProgramHandle handle)
    : session_(std::move(session)), program_(program), handle_(std::move(handle)), arguments_(program.globals.size()) {
  cl_int code = CL_SUCCESS;
  kernel_.reset(clCreateKernel(handle_.get(), program_.name.c_str(), &code));
  check(code, "cannot take kernel " + program_.name + " from its program");
  queue_.reset(clCreateCommandQueue(session_->context.get(), session_->found.device, CL_QUEUE_PROFILING_ENABLE, &code));
  check(code, "cannot make a queue for " + program_.name);
}

void OpenClExecutable::check(cl_int code, const std::string& what) const { opencl::check(code, what, &session_->log); }

std::string OpenClExecutable::binary() {
  std::lock_guard lock(mutex_);
  size_t bytes = 0;
  check(clGetProgramInfo(handle_.get(), CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, nullptr),
        "cannot get the binary of " + program_.name);
  std::string binary(bytes, '\0');
  auto* place = reinterpret_cast<unsigned char*>(binary.data());
  if (bytes != 0)
    check(clGetProgramInfo(handle_.get(), CL_PROGRAM_BINARIES, sizeof(unsigned char*), static_cast<void*>(&place),
                           nullptr),
          "cannot get the binary of " + program_.name);
  return binary;
}

// --- launch dims ---

OpenClExecutable::Dims OpenClExecutable::dims_of(const VarValues& vars) const {
  Dims dims{{1, 1, 1}, std::nullopt};
  if (program_.global_size) {
    std::array<int64_t, 3> global = launch_dims(*program_.global_size, vars);
    std::copy(global.begin(), global.end(), dims.items.begin());
  }
  if (!program_.local_size) return dims;
  std::array<int64_t, 3> local = launch_dims(*program_.local_size, vars);
  dims.group.emplace();
  std::copy(local.begin(), local.end(), dims.group->begin());
  size_t product = 1;
  bool fits = true;
  for (size_t i = 0; i < 3; ++i) {
    dims.items[i] *= (*dims.group)[i];
    product *= (*dims.group)[i];
    fits &= (*dims.group)[i] <= session_->max_items[i];
  }
  if (!fits || product > session_->max_group)
    throw DeviceError("cannot launch " + program_.name + ": groups of " + triple(*dims.group) +
                      " work items are asked for, and the device takes " + triple(session_->max_items) + ", " +
                      std::to_string(session_->max_group) + " in all");
  return dims;
}

// --- memory ---

bool OpenClExecutable::is_output(size_t position) const {
  return std::find(program_.outs.begin(), program_.outs.end(), program_.globals[position]) != program_.outs.end();
}

void OpenClExecutable::make_image(Argument& argument, const DType& type, bool written) {
  auto width = static_cast<size_t>(type.image_width), height = static_cast<size_t>(type.image_height);
  std::string what = "cannot make the image " + to_string(type) + " of " + program_.name;
  if (!session_->has_images) throw DeviceError(what + ": the device has no images");
  if (width > session_->max_image_width || height > session_->max_image_height)
    throw DeviceError(what + ": the device's images have at most " + std::to_string(session_->max_image_width) + " x " +
                      std::to_string(session_->max_image_height) + " texels");
  cl_image_format format{CL_RGBA, static_cast<cl_channel_type>(type.image_half ? CL_HALF_FLOAT : CL_FLOAT)};
  cl_image_desc description{};
  description.image_type = CL_MEM_OBJECT_IMAGE2D;
  description.image_width = width;
  description.image_height = height;
  cl_int code = CL_SUCCESS;
  argument.memory.reset(clCreateImage(session_->context.get(), written ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY, &format,
                                      &description, nullptr, &code));
  check(code, what);
}

void OpenClExecutable::make_argument(size_t position, Buffer& buffer) {
  Argument& argument = arguments_[position];
  bool image = type_of(position).is_image(), written = is_output(position);
  size_t bytes = buffer.bytes();
  if (image) {
    if (!argument.memory) make_image(argument, type_of(position), written);
    argument.bytes = bytes;
    return;
  }
  bool in_place =
      session_->shares_memory && bytes != 0 && reinterpret_cast<uintptr_t>(buffer.data()) % kHostAlignment == 0;
  if (argument.memory && !argument.in_place && !in_place && argument.bytes == bytes) return;
  argument.memory.reset();  // before more is asked for
  cl_mem_flags flags = written ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY;
  if (in_place) flags |= CL_MEM_USE_HOST_PTR;
  cl_int code = CL_SUCCESS;
  argument.memory.reset(clCreateBuffer(session_->context.get(), flags, std::max<size_t>(bytes, 1),
                                       in_place ? buffer.data() : nullptr, &code));
  argument.bytes = bytes;
  argument.in_place = in_place;
  check(code, "cannot get " + std::to_string(bytes) + " bytes of the device's memory for buffer " +
                  std::to_string(program_.globals[position]) + " of " + program_.name);
}

/// Calls part(origin, region, byte offset) for the whole rows of an image that `bytes` hold and for what is left of one more.
template <class Part>
void OpenClExecutable::for_image_parts(size_t position, size_t bytes, Part&& part) {
  const DType& type = type_of(position);
  size_t texel = type.image_half ? 8 : 16, width = static_cast<size_t>(type.image_width);
  size_t texels = std::min(bytes / texel, width * static_cast<size_t>(type.image_height));
  size_t rows = texels / width, rest = texels % width;
  if (rows != 0) part(std::array<size_t, 3>{0, 0, 0}, std::array<size_t, 3>{width, rows, 1}, size_t{0});
  if (rest != 0) part(std::array<size_t, 3>{0, rows, 0}, std::array<size_t, 3>{rest, 1, 1}, rows * width * texel);
}

void OpenClExecutable::upload(size_t position, const Buffer& buffer) {
  Argument& argument = arguments_[position];
  std::string what =
      "cannot copy buffer " + std::to_string(program_.globals[position]) + " of " + program_.name + " to the device";
  if (type_of(position).is_image()) {
    for_image_parts(position, argument.bytes, [&](const auto& origin, const auto& region, size_t offset) {
      check(clEnqueueWriteImage(queue_.get(), argument.memory.get(), CL_TRUE, origin.data(), region.data(), 0, 0,
                                buffer.data() + offset, 0, nullptr, nullptr),
            what);
    });
  } else if (!argument.in_place && argument.bytes != 0) {
    check(clEnqueueWriteBuffer(queue_.get(), argument.memory.get(), CL_TRUE, 0, argument.bytes, buffer.data(), 0,
                               nullptr, nullptr),
          what);
  }
}

void OpenClExecutable::download(size_t position, Buffer& buffer) {
  Argument& argument = arguments_[position];
  std::string what =
      "cannot copy buffer " + std::to_string(program_.globals[position]) + " of " + program_.name + " from the device";
  if (type_of(position).is_image()) {
    for_image_parts(position, argument.bytes, [&](const auto& origin, const auto& region, size_t offset) {
      check(clEnqueueReadImage(queue_.get(), argument.memory.get(), CL_TRUE, origin.data(), region.data(), 0, 0,
                               buffer.data() + offset, 0, nullptr, nullptr),
            what);
    });
  } else if (argument.in_place) {
    // Mapping is what makes the host see what was written to its memory.
    cl_int code = CL_SUCCESS;
    void* mapped = clEnqueueMapBuffer(queue_.get(), argument.memory.get(), CL_TRUE, CL_MAP_READ, 0, argument.bytes, 0,
                                      nullptr, nullptr, &code);
    check(code, what);
    check(clEnqueueUnmapMemObject(queue_.get(), argument.memory.get(), mapped, 0, nullptr, nullptr), what);
  } else if (argument.bytes != 0) {
    check(clEnqueueReadBuffer(queue_.get(), argument.memory.get(), CL_TRUE, 0, argument.bytes, buffer.data(), 0,
                              nullptr, nullptr),
          what);
  }
}

// --- a run ---

void OpenClExecutable::set_variables(const VarValues& vars) {
  std::vector<int64_t> values = variable_values(program_, vars);
  for (size_t i = 0; i < values.size(); ++i) {
    auto bytes = static_cast<size_t>(bytes_of(program_.vars[i].dtype().scalar));
    check(clSetKernelArg(kernel_.get(), static_cast<cl_uint>(arguments_.size() + i), bytes, &values[i]),
          "cannot pass variable " + std::to_string(i) + " to " + program_.name);
  }
}

double OpenClExecutable::launch(const Dims& dims) {
  cl_event raw = nullptr;
  check(clEnqueueNDRangeKernel(queue_.get(), kernel_.get(), 3, nullptr, dims.items.data(),
                               dims.group ? dims.group->data() : nullptr, 0, nullptr, &raw),
        "cannot launch " + program_.name);
  Event event(raw);
  cl_int code = clWaitForEvents(1, &raw), status = CL_COMPLETE;
  if (code != CL_SUCCESS) {
    clGetEventInfo(raw, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
    check(status < 0 ? status : code, "the run of " + program_.name + " failed");
  }
  cl_ulong start = 0, end = 0;
  check(clGetEventProfilingInfo(raw, CL_PROFILING_COMMAND_START, sizeof start, &start, nullptr), "cannot time a run");
  check(clGetEventProfilingInfo(raw, CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr), "cannot time a run");
  return static_cast<double>(end - start) * 1e-9;
}

double OpenClExecutable::run(std::span<Buffer* const> buffers, const VarValues& vars) {
  session_->expect_own_process();
  check_launch(program_, buffers, vars);
  Dims dims = dims_of(vars);
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < buffers.size(); ++i) {
    make_argument(i, *buffers[i]);
    upload(i, *buffers[i]);
    cl_mem memory = arguments_[i].memory.get();
    check(clSetKernelArg(kernel_.get(), static_cast<cl_uint>(i), sizeof(cl_mem), static_cast<const void*>(&memory)),
          "cannot pass buffer " + std::to_string(program_.globals[i]) + " to " + program_.name);
  }
  set_variables(vars);
  bool empty = std::any_of(dims.items.begin(), dims.items.end(), [](size_t n) { return n == 0; });
  double seconds = empty ? 0 : launch(dims);
  for (size_t i = 0; i < buffers.size(); ++i)
    if (is_output(i)) download(i, *buffers[i]);
  check(clFinish(queue_.get()), "the run of " + program_.name + " failed");
  for (Argument& a : arguments_)
    if (a.in_place) a.memory.reset();
  return seconds;
}

}  // namespace quern::opencl
