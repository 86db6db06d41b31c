#include "cli/target_table.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "quern/error.h"

#include "engine/compile.h"
#include "runtime/cuda/cuda.h"
#include "shape/shapetracker.h"

namespace quern::cli {

namespace {

/// What a dialect's sources are, and what compiles and runs them.
struct Ways {
  Dialect dialect;
  std::string_view language, compilers;
  std::string_view device;  // besides INTERP; empty: none
};
constexpr Ways kWays[] = {
    {Dialect::C, "C11", "gcc, clang", "CLANG"},
    {Dialect::Dsp, "Hexagon C", "gcc, clang (tests give it a stand-in for the DSP's runtime)", ""},
    {Dialect::Llvm, "LLVM IR", "LLVM 19, in the process", "CPU"},
    {Dialect::OpenCl, "OpenCL C", "an OpenCL driver", "OPENCL"},
    {Dialect::Cuda, "CUDA C++", "nvcc, NVRTC", "CUDA"},
    {Dialect::Ptx, "PTX", "ptxas, NVIDIA's driver", "CUDA"},
    {Dialect::Metal, "Metal", "a C++ compiler (tests give it a stand-in for Metal's library)", ""},
    {Dialect::Hip, "HIP C++", "clang 19, without ROCm", ""},
};

const Ways& ways_of(const Target& target) {
  const auto* found = std::ranges::find(kWays, target.dialect, &Ways::dialect);
  if (found == std::end(kWays)) throw InternalError("no row tells how target " + target.name + " is compiled");
  return *found;
}

/// Whether a kernel that copies a value of this type has a source.
bool renders(const Target& target, Scalar s) {
  Graph graph;
  const auto buffer = [&](int64_t number) { return graph.node(Op::DefineGlobal, DType(s).ptr(), {}, number); };
  UOp view = graph.view(tracker({16}));
  UOp value = graph.node(Op::Load, s, {buffer(1), view});
  UOp store = graph.node(Op::Store, Scalar::Void, {buffer(0), view, value});
  try {
    return !compile(graph.node(Op::Sink, Scalar::Void, {store}), target).source.empty();
  } catch (const InvalidKernel&) {
    return false;
  }
}

std::string listed(const std::vector<std::string_view>& words) { return fmt::format("{}", fmt::join(words, ", ")); }

std::string dtypes_text(const Target& target) {
  constexpr Scalar kAll[] = {Scalar::Bool,     Scalar::Int8,   Scalar::UInt8, Scalar::Int16,  Scalar::UInt16,
                             Scalar::Int32,    Scalar::UInt32, Scalar::Int64, Scalar::UInt64, Scalar::Half,
                             Scalar::BFloat16, Scalar::Float,  Scalar::Double};
  std::vector<std::string_view> missing, emulated;
  for (const Scalar s : kAll) {
    if (!renders(target, s)) {
      missing.push_back(to_string(s));
    } else if (std::ranges::find(target.emulated, s) != target.emulated.end()) {
      emulated.push_back(to_string(s));
    }
  }
  std::string text = missing.empty() ? "all" : "all but " + listed(missing);
  return emulated.empty() ? text : text + "; " + listed(emulated) + " in float";
}

std::string core_text(const TensorCore& core) {
  return fmt::format("{}x{}x{} {}->{}", core.dims[0], core.dims[1], core.dims[2],
                     core.tf32 ? "tf32" : to_string(core.dtype_in), to_string(core.dtype_out));
}

std::string cores_text(const Target& target) {
  std::string text;
  for (const TensorCore& core : with_tf32(target).tensor_cores) {
    text += (text.empty() ? "" : ", ") + core_text(core);
    if (core.tf32) text += " (`ALLOW_TF32`)";
  }
  for (const DotProduct& dot : target.dots)
    text += fmt::format("{}{}x1x{} {}->{}", text.empty() ? "" : ", ", target.vector_bytes / 4, dot.steps,
                        to_string(dot.in), to_string(dot.out));
  return text.empty() ? "-" : text;
}

constexpr std::string_view kIntroduction =
    "# Targets\n\n"
    "Written by `quern targets --markdown`; `./dev doc` renews it, `./dev doc --check` and a test compare. It tells "
    "what is true on\n"
    "any machine: what source each target gets, what compiles it, and on which devices it runs where they are. `quern "
    "targets` and\n"
    "`quern devices` tell what this machine has.\n\n"
    "- **compiled by**: what takes the source as it is. What is not there is skipped by `tools/check_targets` and the "
    "tests, and said.\n"
    "- **runs on**: devices of `quern run --device`. INTERP runs the linear program that the source was printed from, "
    "for every target.\n"
    "- **tensor cores**: N x M x K and the types of operands and sums. Intel's want a driver with\n"
    "  `cl_intel_subgroup_matrix_multiply_accumulate`; clang:amx's are an outer product written in C. cpu:\n"
    "  targets have instructions for dot products in a vector's lanes, which kernels get without an opt "
    "([opts.md](opts.md#vectors)).\n"
    "- **dtypes**: \"in float\" are types that are loaded and stored but computed in float and rounded after each "
    "operation.\n\n"
    "| target | renders | compiled by | runs on | tensor cores | images | dtypes |\n|---|---|---|---|---|---|---|\n";

}  // namespace

std::vector<std::string_view> devices_for(const Target& target) {
  const std::string_view device = ways_of(target).device;
  if (device.empty() || (device == "CUDA" && compute_capability(target) == 0))
    return {"INTERP"};  // nv: by its own driver
  return {device, "INTERP"};
}

std::string targets_page() {
  std::string page(kIntroduction);
  for (const std::string& name : target_names()) {
    const Target& t = find_target(name);
    const Ways& ways = ways_of(t);
    page += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", name, ways.language, ways.compilers,
                        listed(devices_for(t)), cores_text(t), t.has_images ? "yes" : "-", dtypes_text(t));
  }
  return page;
}

}  // namespace quern::cli
