#include "runtime/opencl/opencl.h"

#include <algorithm>

#include "quern/error.h"

#include "runtime/opencl/executable.h"

namespace quern {

namespace {

using namespace opencl;

constexpr std::string_view kIntelMatrices = "cl_intel_subgroup_matrix_multiply_accumulate";

class OpenClDevice final : public Device {
 public:
  explicit OpenClDevice(const Found& found) : session_(std::make_shared<Session>(found)) {}
  std::string name() const override { return "OPENCL"; }
  const Target& default_target() const override { return find_target("opencl"); }
  bool accepts(const Target& target) const override { return target.dialect == Dialect::OpenCl; }

  std::unique_ptr<Executable> compile(const Program& program) override {
    session_->expect_own_process();
    expect_runnable(program);
    const char* source = program.source.c_str();
    size_t length = program.source.size();
    cl_int code = CL_SUCCESS;
    ProgramHandle handle(clCreateProgramWithSource(session_->context.get(), 1, &source, &length, &code));
    check(code, "cannot make program " + program.name, &session_->log);
    build(program, handle.get(), "refused");
    return std::make_unique<OpenClExecutable>(session_, program, std::move(handle));
  }

  std::string identity() const override {
    const Found& f = session_->found;
    return f.platform_name + "\n" + f.version + "\n" + f.device_name + "\n" + device_text(f.device, CL_DRIVER_VERSION) +
           "\n" + session_->options;
  }

  std::unique_ptr<Executable> load(const Program& program, std::string_view binary) override {
    session_->expect_own_process();
    expect_runnable(program);
    const auto* bytes = reinterpret_cast<const unsigned char*>(binary.data());
    size_t length = binary.size();
    cl_int code = CL_INVALID_BINARY, status = CL_SUCCESS;
    ProgramHandle handle;
    if (length != 0)
      handle.reset(clCreateProgramWithBinary(session_->context.get(), 1, &session_->found.device, &length, &bytes,
                                             &status, &code));
    if (code == CL_SUCCESS) code = status;
    if (code == CL_INVALID_BINARY || code == CL_INVALID_VALUE)
      throw CompileError("the driver does not take the binary of " + program.name + " (" + error_name(code) + ")");
    check(code, "cannot load the binary of " + program.name, &session_->log);
    build(program, handle.get(), "does not take the binary of");
    return std::make_unique<OpenClExecutable>(session_, program, std::move(handle));
  }

 private:
  void expect_runnable(const Program& program) const {
    if (!accepts(*program.target))
      throw DeviceError("device OPENCL runs OpenCL C, and " + program.name + " is for target " + program.target->name);
    bool matrices =
        std::any_of(program.linear.uops.begin(), program.linear.uops.end(), [](UOp u) { return u.is(Op::Wmma); });
    if (matrices) expect_extension(program, kIntelMatrices);
    for (std::string_view name : {"cl_khr_fp16", "cl_khr_fp64"})
      if (program.source.find(name) != std::string::npos) expect_extension(program, name);
  }

  void expect_extension(const Program& program, std::string_view name) const {
    if (!session_->has_extension(name))
      throw DeviceError("kernel " + program.name + " for " + program.target->name + " needs the extension " +
                        std::string(name) + ", which " + session_->found.device_name + " lacks");
  }

  void build(const Program& program, cl_program handle, const std::string& verdict) const {
    cl_device_id device = session_->found.device;
    cl_int code = clBuildProgram(handle, 1, &device, session_->options.c_str(), nullptr, nullptr);
    if (code == CL_SUCCESS) return;
    if (code == CL_OUT_OF_RESOURCES || code == CL_OUT_OF_HOST_MEMORY || code == CL_DEVICE_NOT_AVAILABLE)
      check(code, "cannot build " + program.name, &session_->log);
    std::string log = text_of([&](size_t bytes, void* value, size_t* needed) {
      return clGetProgramBuildInfo(handle, device, CL_PROGRAM_BUILD_LOG, bytes, value, needed);
    });
    if (std::string said = session_->log.take(); !said.empty()) log += "\n" + said;
    throw CompileError(session_->found.platform_name + " " + verdict + " kernel " + program.name + " (" +
                           error_name(code) + "):\n" + log + "\nthe source is\n" + program.source,
                       log);
  }

  std::shared_ptr<Session> session_;
};

}  // namespace

DeviceInfo describe_opencl(const Settings& settings) {
  std::vector<Found> all = find_devices();
  std::string why;
  std::optional<Found> chosen = choose(all, settings.text("QUERN_OPENCL_DEVICE"), why);
  if (!chosen) return {"OPENCL", false, why};
  std::string note = chosen->text() + ", " + chosen->version, others;
  for (const Found& f : all)
    if (f.place != chosen->place) others += (others.empty() ? "; also " : ", ") + f.text();
  return {"OPENCL", true, note + others};
}

std::shared_ptr<Device> make_opencl_device(const Settings& settings) {
  std::string why;
  std::optional<Found> chosen = choose(find_devices(), settings.text("QUERN_OPENCL_DEVICE"), why);
  if (!chosen) throw DeviceError("device OPENCL is not here: " + why);
  return std::make_shared<OpenClDevice>(*chosen);
}

}  // namespace quern
