// The CUDA device: which targets it takes; its compiler where NVRTC is installed; kernels where there is a GPU.

#include "runtime/cuda/cuda.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/error.h"

#include "linear_programs.h"
#include "run_program.h"
#include "runtime/cuda/nvrtc.h"

namespace quern {
namespace {

using test::ProgramBuilder;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kSource = R"(
extern "C" __global__ void __launch_bounds__(8) hand(float* data0, const float* data1, const int n) {
  int i = blockIdx.x * 8 + threadIdx.x;
  data0[i] = data1[i] * 2.0f + n;
})";

Settings from_environment() { return Settings::from_environment(environ); }

std::shared_ptr<const cuda::Nvrtc> nvrtc(std::string& why) { return cuda::Nvrtc::load(from_environment(), why); }

TEST(CudaTargets, are_chosen_by_compute_capability) {
  for (const auto& [capability, name] : std::vector<std::pair<int, std::string>>{{60, ""},
                                                                                 {75, "cuda:sm_75"},
                                                                                 {79, "cuda:sm_75"},
                                                                                 {80, "cuda:sm_80"},
                                                                                 {89, "cuda:sm_80"},
                                                                                 {90, "cuda:sm_90"},
                                                                                 {120, "cuda:sm_90"}}) {
    const Target* found = cuda_target("cuda", capability);
    EXPECT_EQ(found ? found->name : "", name) << capability;
  }
  EXPECT_EQ(cuda_target("ptx", 90)->name, "ptx:sm_90");
  EXPECT_EQ(compute_capability(find_target("ptx:sm_75")), 75);
  for (const char* other : {"clang", "opencl", "hip:gfx1100"}) EXPECT_EQ(compute_capability(find_target(other)), 0);
}

TEST(CudaDevice, says_what_is_missing) {
  DeviceInfo about = describe_cuda(from_environment());
  EXPECT_EQ(about.name, "CUDA");
  EXPECT_FALSE(about.note.empty());
  if (about.available) GTEST_SKIP() << "nothing is: " << about.note;
  try {
    make_cuda_device(from_environment());
    FAIL() << "it was opened";
  } catch (const DeviceError& e) {
    EXPECT_EQ(e.what(), "device CUDA is not here: " + about.note);
  }
}

TEST(CudaDevice, says_that_nvrtc_is_not_where_it_was_looked_for) {
  Settings settings;
  settings.set("CUDA_PATH", "/no/such/toolkit");
  std::string why;
  EXPECT_EQ(cuda::Nvrtc::load(settings, why), nullptr);
  EXPECT_THAT(why, AllOf(HasSubstr("NVRTC is missing"), HasSubstr("/no/such/toolkit")));
}

TEST(Nvrtc, compiles_to_machine_code_of_the_architecture) {
  std::string why;
  auto compiler = nvrtc(why);
  if (!compiler) GTEST_SKIP() << why;
  for (int sm : {80, 90}) EXPECT_THAT(compiler->compile(kSource, "hand", sm), HasSubstr("ELF")) << sm;
  EXPECT_THAT(compiler->options(80), ::testing::Contains("--fmad=false"));
}

TEST(Nvrtc, gives_ptx_for_architectures_it_does_not_know) {
  std::string why;
  auto compiler = nvrtc(why);
  if (!compiler) GTEST_SKIP() << why;
  EXPECT_THAT(compiler->compile(kSource, "hand", 9999), HasSubstr(".entry hand"));
}

TEST(Nvrtc, refuses_with_log_and_source) {
  std::string why;
  auto compiler = nvrtc(why);
  if (!compiler) GTEST_SKIP() << why;
  try {
    compiler->compile("extern \"C\" __global__ void hand(float* a) { a[0] = no_such_thing; }", "hand", 80);
    FAIL() << "it was compiled";
  } catch (const CompileError& e) {
    EXPECT_THAT(e.log(), HasSubstr("no_such_thing"));
    EXPECT_THAT(e.what(), AllOf(HasSubstr("refused kernel hand"), HasSubstr("__global__")));
  }
}

class Cuda : public ::testing::Test {
 protected:
  void SetUp() override {
    DeviceInfo about = describe_cuda(from_environment());
    if (!about.available) GTEST_SKIP() << "no CUDA: " << about.note;
    device = make_cuda_device(from_environment());
    for (int64_t i : {0, 1}) b.add(Op::DefineGlobal, DType(Scalar::Float).ptr(), {}, i);
    program = describe("hand", b.linear(), device->default_target());
    program.source = kSource;
    program.outs = {0};
    program.vars = {b.graph().variable("n", 0, 9)};
    program.global_size = std::array<SInt, 3>{2, 1, 1};
    program.local_size = std::array<SInt, 3>{8, 1, 1};
    program.buffer_sizes = {{0, 16}, {1, 16}};
  }
  void expect_right(Executable& executable) {
    std::vector<double> in, want;
    for (int i = 0; i < 16; ++i) {
      in.push_back(i);
      want.push_back(2 * i + 3);
    }
    auto out = test::buffer_of(Scalar::Float, std::vector<double>(16, -1)), from = test::buffer_of(Scalar::Float, in);
    std::vector<Buffer*> raw{out.get(), from.get()};
    for (int repeat = 0; repeat < 2; ++repeat) EXPECT_GE(executable.run(raw, {{"n", 3}}), 0);
    EXPECT_EQ(test::values_of(*out), want);
  }
  ProgramBuilder b;
  Program program;
  std::shared_ptr<Device> device;
};

TEST_F(Cuda, runs_kernels_with_variables) { expect_right(*device->compile(program)); }

TEST_F(Cuda, a_kernel_starts_from_its_binary) {
  std::string binary = device->compile(program)->binary();
  program.source = "not needed any more";
  expect_right(*device->load(program, binary));
}

TEST_F(Cuda, a_spoilt_binary_is_refused) { EXPECT_THROW(device->load(program, "no machine code"), CompileError); }

TEST_F(Cuda, blocks_that_are_too_large_are_refused) {
  program.local_size = std::array<SInt, 3>{1 << 20, 1, 1};
  EXPECT_THROW(expect_right(*device->compile(program)), DeviceError);
}

}  // namespace
}  // namespace quern
