#include "target/target.h"

#include <fmt/format.h>

#include "quern/error.h"

#include "base/shown.h"
#include "target/tensor_cores.h"

namespace quern {
namespace {

// MAX is in none of these: the dialects' own maximum drops NaN, so it is lowered to a compare and a select.
// All divide exactly: a quotient by way of a reciprocal would round twice.
constexpr OpSet kArithmetic = {Op::Sqrt, Op::Recip, Op::Fdiv, Op::Neg, Op::Add, Op::Sub,   Op::Mul,   Op::Idiv, Op::Mod,
                               Op::And,  Op::Or,    Op::Xor,  Op::Shl, Op::Shr, Op::Cmplt, Op::Cmpne, Op::Where};
constexpr OpSet kTranscendental = {Op::Exp2, Op::Log2, Op::Sin};
constexpr OpSet kCOps = kArithmetic;
constexpr OpSet kGpuOps = kArithmetic | kTranscendental;
constexpr OpSet kLlvmOps = kArithmetic;
// ex2, lg2 and sin are approximations, and of float alone.
constexpr OpSet kPtxOps = kArithmetic | OpSet{Op::Mulacc};

Target clang() {
  Target t;
  t.name = "clang";
  t.device = "CLANG";
  t.dialect = Dialect::C;
  t.has_local = false;
  t.global_max = std::nullopt;
  t.native_ops = kCOps;
  // C computes half in float with excess precision, so the rounding of each step is made explicit.
  t.emulated = {Scalar::Half, Scalar::BFloat16};
  return t;
}

Target clang_amx() {
  Target t = clang();
  t.name = "clang:amx";
  t.amx = true;
  t.tensor_cores = amx_tensor_cores();
  return t;
}

Target dsp() {
  Target t = clang();
  t.name = "dsp";
  t.device = "DSP";
  t.dialect = Dialect::Dsp;
  t.has_float4 = false;
  return t;  // without a mathematical library
}

Target llvm() {
  Target t;
  t.name = "llvm";
  t.device = "LLVM";
  t.dialect = Dialect::Llvm;
  t.has_local = false;
  t.has_shared = false;
  t.has_float4 = false;
  t.global_max = std::nullopt;
  t.native_ops = kLlvmOps;
  t.emulated = {Scalar::BFloat16};
  return t;
}

/// A CPU by its vectors: 64 bytes and 32 registers with AVX-512, 32 and 16 with AVX2, else 16 and 16.
Target cpu(std::string name, int vector_bytes, int vector_registers) {
  Target t = llvm();
  t.name = std::move(name);
  t.device = "CPU";
  t.vector_bytes = vector_bytes;
  t.vector_registers = vector_registers;
  t.has_threads = true;
  return t;
}

/// AVX-512 with instructions for products of 8-bit integers (VNNI), and of bfloat16 as well: no CPU has those alone.
Target cpu_with_dots(std::string name, bool bfloat16) {
  Target t = cpu(std::move(name), 64, 32);
  t.dots.push_back({Scalar::Int8, Scalar::Int32, 4});
  if (bfloat16) t.dots.push_back({Scalar::BFloat16, Scalar::Float, 2});
  return t;
}

Target opencl() {
  Target t;
  t.name = "opencl";
  t.device = "GPU";
  t.dialect = Dialect::OpenCl;
  t.has_images = true;
  t.native_ops = kGpuOps;
  // Not every device computes in half; all of them load and store it.
  t.emulated = {Scalar::Half, Scalar::BFloat16};
  t.compiler_flags = "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt";
  return t;
}

Target intel() {
  Target t = opencl();
  t.name = "intel";
  t.emulated = {Scalar::BFloat16};
  t.tensor_cores = intel_tensor_cores();
  return t;
}

Target qcom() {
  Target t = opencl();
  t.name = "qcom";
  t.emulated = {Scalar::BFloat16};
  t.device = "QCOM";
  return t;
}

Target cuda(int sm) {
  Target t;
  t.name = fmt::format("cuda:sm_{}", sm);
  t.device = "CUDA";
  t.dialect = Dialect::Cuda;
  t.global_max = {2147483647, 65535, 65535};
  t.local_max = {1024, 1024, 64};
  t.shared_max = 49152;
  t.native_ops = kGpuOps;
  if (sm >= 80) t.tensor_cores = cuda_tensor_cores();
  if (sm < 80) t.emulated = {Scalar::BFloat16};
  t.compiler_flags = "-fmad=false";
  return t;
}

Target ptx(int sm) {
  Target t = cuda(sm);
  t.name = fmt::format("ptx:sm_{}", sm);
  t.dialect = Dialect::Ptx;
  t.tensor_cores = sm >= 80 ? ptx_tensor_cores() : std::vector<TensorCore>{};
  t.native_ops = kPtxOps;
  // PTX has only some operations on halfs; in float, rounded after each, they give the same values.
  t.emulated = {Scalar::Half, Scalar::BFloat16};
  return t;
}

Target nv() {
  Target t = cuda(80);
  t.name = "nv";
  t.device = "NV";
  return t;
}

Target metal() {
  Target t;
  t.name = "metal";
  t.device = "METAL";
  t.dialect = Dialect::Metal;
  t.tensor_cores = metal_tensor_cores();
  t.native_ops = kGpuOps;
  t.compiler_flags = "-fno-fast-math";
  return t;
}

Target hip() {
  Target t;
  t.name = "hip:gfx1100";
  t.device = "AMD";
  t.dialect = Dialect::Hip;
  t.shared_max = 65536;
  t.tensor_cores = amd_tensor_cores();
  t.native_ops = kArithmetic;  // the instructions for the rest are approximate, and there is no library to rely on
  t.emulated = {Scalar::BFloat16};
  t.compiler_flags = "-ffp-contract=off";
  return t;
}

const std::vector<Target>& all_targets() {
  static const std::vector<Target> targets = {cpu("cpu:avx512", 64, 32),
                                              cpu_with_dots("cpu:avx512vnni", false),
                                              cpu_with_dots("cpu:avx512bf16", true),
                                              cpu("cpu:avx2", 32, 16),
                                              cpu("cpu:128", 16, 16),
                                              clang(),
                                              clang_amx(),
                                              dsp(),
                                              llvm(),
                                              opencl(),
                                              intel(),
                                              qcom(),
                                              cuda(75),
                                              cuda(80),
                                              cuda(90),
                                              ptx(75),
                                              ptx(80),
                                              ptx(90),
                                              nv(),
                                              metal(),
                                              hip()};
  return targets;
}

std::vector<Target> tf32_targets() {
  std::vector<Target> all;
  for (Target t : all_targets()) {
    const bool is_cuda = t.dialect == Dialect::Cuda || t.dialect == Dialect::Ptx;
    if (!is_cuda || t.tensor_cores.empty()) continue;
    t.tensor_cores.push_back(tf32_tensor_core());
    all.push_back(std::move(t));
  }
  return all;
}

}  // namespace

const Target& with_tf32(const Target& target) {
  static const std::vector<Target> targets = tf32_targets();
  for (const Target& t : targets)
    if (t.name == target.name) return t;
  return target;  // NOLINT(bugprone-return-const-ref-from-parameter): targets live as long as the process
}

const Target& find_target(std::string_view name) {
  for (const Target& t : all_targets())
    if (t.name == name) return t;
  throw DeviceError(
      fmt::format("no target is called {}; there are: {}", in_quotes(name), fmt::join(target_names(), ", ")));
}

const Target& own_cpu_target() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    if (!__builtin_cpu_supports("avx512vnni")) return find_target("cpu:avx512");
    return find_target(__builtin_cpu_supports("avx512bf16") ? "cpu:avx512bf16" : "cpu:avx512vnni");
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return find_target("cpu:avx2");
#endif
  return find_target("cpu:128");
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const Target& t : all_targets()) names.push_back(t.name);
  return names;
}

}  // namespace quern
