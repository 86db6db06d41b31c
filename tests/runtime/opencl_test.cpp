// The OpenCL device with sources written by hand: memory, launches, errors, binaries, two LLVMs in one process.

#include <array>
#include <cstring>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/error.h"

#include "base/child.h"
#include "linear_programs.h"
#include "run_program.h"
#ifdef QUERN_HAVE_OPENCL
#include "runtime/opencl/platforms.h"
#endif

namespace quern {
namespace {

using test::ProgramBuilder;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using Dims = std::array<SInt, 3>;

/// A program with this source. Its nodes only say which buffers and variables there are: buffer 0 is written.
struct ByHand {
  ProgramBuilder b;
  Program program;

  ByHand(const std::string& source, const std::vector<DType>& buffers, int64_t elements, Dims global,
         std::optional<Dims> local = std::nullopt) {
    for (size_t i = 0; i < buffers.size(); ++i) b.add(Op::DefineGlobal, buffers[i], {}, int64_t(i));
    program = describe("hand", b.linear(), find_target("opencl"));
    program.source = source;
    program.outs = {0};
    program.global_size = global;
    program.local_size = local;
    for (int number : program.globals) program.buffer_sizes[number] = elements;
  }
  void variable(const char* name, Scalar s) {
    program.vars.push_back(b.graph().variable(name, -100, int64_t{1} << 40, s));
  }
};

DType floats() { return DType(Scalar::Float).ptr(); }

/// data0[i] = data1[i] * 2 + 1 for 64 values, 8 work items a group.
ByHand twice_and_one() {
  return {R"(__kernel void hand(__global float* data0, __global const float* data1) {
  int i = get_group_id(0) * 8 + get_local_id(0);
  data0[i] = data1[i] * 2.0f + 1.0f;
})",
          {floats(), floats()},
          64,
          Dims{8, 1, 1},
          Dims{8, 1, 1}};
}

std::vector<double> counted(int64_t n, double step = 1) {
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>(i) * step);
  return values;
}

template <class E = DeviceError, class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "no such error";
}

class OpenCl : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const DeviceInfo& info : devices(settings()))
      if (info.name == "OPENCL" && !info.available) GTEST_SKIP() << "no OPENCL: " << info.note;
    device = open_device("OPENCL", settings());
  }
  static Settings settings() {
    Settings s;
    s.set("QUERN_OPENCL_DEVICE", "");
    return s;
  }
  std::vector<double> run_twice_and_one(Executable& executable, std::vector<double> in = counted(64)) {
    auto a = test::buffer_of(Scalar::Float, std::vector<double>(64, -1)), b = test::buffer_of(Scalar::Float, in);
    std::vector<Buffer*> raw{a.get(), b.get()};
    EXPECT_GE(executable.run(raw, {}), 0);
    return test::values_of(*a);
  }
  static std::vector<double> wanted(double step = 1) {
    std::vector<double> values;
    for (double v : counted(64, step)) values.push_back(v * 2 + 1);
    return values;
  }
  std::shared_ptr<Device> device;
};

TEST_F(OpenCl, runs_kernels_with_groups) {
  ByHand p = twice_and_one();
  EXPECT_EQ(run_twice_and_one(*device->compile(p.program)), wanted());
}

TEST_F(OpenCl, runs_kernels_without_groups_and_passes_variables_by_their_width) {
  ByHand p(R"(__kernel void hand(__global float* data0, const int n, const long m) {
  data0[get_global_id(0)] = get_global_id(0) + n + (m >> 32);
})",
           {floats()}, 5, Dims{5, 1, 1});
  p.variable("n", Scalar::Int32);
  p.variable("wide", Scalar::Int64);
  auto a = test::buffer_of(Scalar::Float, std::vector<double>(5, 0));
  std::vector<Buffer*> raw{a.get()};
  device->compile(p.program)->run(raw, {{"n", -3}, {"wide", int64_t{7} << 32}});
  EXPECT_EQ(test::values_of(*a), (std::vector<double>{4, 5, 6, 7, 8}));
}

TEST_F(OpenCl, local_memory_and_barriers_work) {
  ByHand p(R"(__kernel void hand(__global float* data0, __global const float* data1) {
  __local float temp[8];
  int g = get_group_id(0), l = get_local_id(0);
  temp[l] = data1[g * 8 + l];
  barrier(CLK_LOCAL_MEM_FENCE);
  data0[g * 8 + l] = temp[7 - l];
})",
           {floats(), floats()}, 16, Dims{2, 1, 1}, Dims{8, 1, 1});
  auto a = test::buffer_of(Scalar::Float, std::vector<double>(16, 0)), b = test::buffer_of(Scalar::Float, counted(16));
  std::vector<Buffer*> raw{a.get(), b.get()};
  device->compile(p.program)->run(raw, {});
  EXPECT_EQ(test::values_of(*a), (std::vector<double>{7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8}));
}

TEST_F(OpenCl, takes_buffers_of_any_alignment_and_leaves_alone_what_is_not_written) {
  ByHand p(R"(__kernel void hand(__global float* data0, __global const float* data1) {
  if (get_global_id(0) % 2 == 0) data0[get_global_id(0)] = data1[get_global_id(0)];
})",
           {floats(), floats()}, 6, Dims{6, 1, 1});
  std::unique_ptr<Executable> executable = device->compile(p.program);
  for (size_t shift : {size_t{0}, size_t{4}, size_t{32}}) {
    alignas(64) std::array<std::byte, 128> out{}, in{};
    Buffer a(Scalar::Float, 6, out.data() + shift), b(Scalar::Float, 6, in.data() + shift);
    for (size_t i = 0; i < 6; ++i) {
      test::put(a, i, const_of_float(Scalar::Float, -1));
      test::put(b, i, const_of_float(Scalar::Float, static_cast<double>(i)));
    }
    std::vector<Buffer*> raw{&a, &b};
    for (int repeat = 0; repeat < 2; ++repeat) executable->run(raw, {});
    EXPECT_EQ(test::values_of(a), (std::vector<double>{0, -1, 2, -1, 4, -1})) << "moved by " << shift;
    EXPECT_THAT(std::vector(out.begin() + 24 + static_cast<std::ptrdiff_t>(shift), out.end()), Each(std::byte{0}));
  }
}

TEST_F(OpenCl, an_executable_takes_other_buffers_each_time) {
  ByHand p = twice_and_one();
  std::unique_ptr<Executable> executable = device->compile(p.program);
  for (double step : {1.0, 0.5, -3.0}) EXPECT_EQ(run_twice_and_one(*executable, counted(64, step)), wanted(step));
}

TEST_F(OpenCl, images_are_read_and_written_in_half_and_float) {
  DType out = image_type(true, 3, 2), in = image_type(false, 3, 2);
  ByHand p(R"(__constant sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
__kernel void hand(write_only image2d_t data0, read_only image2d_t data1) {
  int x = get_global_id(0), y = get_global_id(1);
  write_imagef(data0, (int2)(x, y), read_imagef(data1, nearest, (int2)(1 - x, y)) * 2.0f);
})",
           {out, in}, 24, Dims{2, 3, 1});
  auto a = test::buffer_of(Scalar::Half, std::vector<double>(24, 0)), b = test::buffer_of(Scalar::Float, counted(24));
  std::vector<Buffer*> raw{a.get(), b.get()};
  std::unique_ptr<Executable> executable = device->compile(p.program);
  for (int repeat = 0; repeat < 2; ++repeat) executable->run(raw, {});
  std::vector<double> want;
  for (int y = 0; y < 3; ++y)
    for (int x = 0; x < 2; ++x)
      for (int c = 0; c < 4; ++c) want.push_back(2 * (y * 8 + (1 - x) * 4 + c));
  EXPECT_EQ(test::values_of(*a), want);
}

TEST_F(OpenCl, an_image_that_is_too_large_is_refused_by_its_size) {
  DType huge = image_type(false, 2, 1 << 24);
  ByHand p("__kernel void hand(write_only image2d_t data0) { write_imagef(data0, (int2)(0, 0), (float4)(0)); }", {huge},
           4, Dims{1, 1, 1});
  std::unique_ptr<Executable> executable = device->compile(p.program);
  Buffer small(Scalar::Float, 4);
  std::vector<Buffer*> raw{&small};
  EXPECT_THAT(error_of([&] { executable->run(raw, {}); }),
              AllOf(HasSubstr("cannot make the image"), HasSubstr("of hand"), HasSubstr("texels")));
}

TEST_F(OpenCl, a_source_that_does_not_compile_is_refused_with_log_and_source) {
  ByHand p = twice_and_one();
  p.program.source = "__kernel void hand(__global float* data0) { data0[0] = no_such_thing; }";
  try {
    device->compile(p.program);
    FAIL() << "it was compiled";
  } catch (const CompileError& e) {
    EXPECT_THAT(e.log(), HasSubstr("no_such_thing"));
    EXPECT_THAT(e.what(), AllOf(HasSubstr("refused kernel hand"), HasSubstr(e.log()), HasSubstr(p.program.source)));
  }
  EXPECT_EQ(run_twice_and_one(*device->compile(twice_and_one().program)), wanted());
}

TEST_F(OpenCl, a_source_without_the_kernel_is_refused) {
  ByHand p = twice_and_one();
  p.program.source = "__kernel void other(__global float* data0) { data0[0] = 1; }";
  EXPECT_THAT(error_of([&] { device->compile(p.program); }), HasSubstr("CL_INVALID_KERNEL_NAME"));
}

TEST_F(OpenCl, a_group_that_is_too_large_is_refused_by_its_size) {
  ByHand p = twice_and_one();
  p.program.local_size = Dims{1 << 20, 1, 1};
  EXPECT_THAT(error_of([&] { run_twice_and_one(*device->compile(p.program)); }),
              HasSubstr("cannot launch hand: groups of 1048576 x 1 x 1 work items"));
}

TEST_F(OpenCl, programs_of_other_languages_are_refused) {
  ByHand p = twice_and_one();
  p.program.target = &find_target("metal");
  EXPECT_EQ(error_of([&] { device->compile(p.program); }), "device OPENCL runs OpenCL C, and hand is for target metal");
  for (const char* name : {"opencl", "intel", "qcom"}) EXPECT_TRUE(device->accepts(find_target(name))) << name;
}

TEST_F(OpenCl, a_kernel_that_needs_an_extension_the_device_lacks_is_refused_by_its_name) {
  ByHand p = twice_and_one();
  p.b.add(p.b.graph().node(Op::Wmma, DType(Scalar::Float, 8), {}));
  p.program.linear = p.b.linear();
  std::string told = error_of([&] { device->compile(p.program); });
  if (told == "no such error") GTEST_SKIP() << "this device has matrix instructions";
  EXPECT_THAT(told,
              HasSubstr("kernel hand for opencl needs the extension cl_intel_subgroup_matrix_multiply_accumulate"));
}

TEST_F(OpenCl, a_kernel_starts_from_its_binary) {
  ByHand p = twice_and_one();
  std::string binary = device->compile(p.program)->binary();
  ASSERT_FALSE(binary.empty());
  p.program.source = "not needed any more";
  EXPECT_EQ(run_twice_and_one(*device->load(p.program, binary)), wanted());
  EXPECT_EQ(run_twice_and_one(*open_device("OPENCL", settings())->load(p.program, binary)), wanted());
}

TEST_F(OpenCl, a_spoilt_binary_is_refused) {
  ByHand p = twice_and_one();
  for (const char* bytes : {"", "x", "this is no program of any driver at all"})
    EXPECT_THAT(error_of<CompileError>([&] { device->load(p.program, bytes); }),
                HasSubstr("the driver does not take the binary of hand"))
        << bytes;
}

TEST_F(OpenCl, its_identity_names_driver_device_and_flags) {
  EXPECT_THAT(device->identity(), AllOf(HasSubstr("OpenCL"), HasSubstr("-cl-std=")));
}

TEST_F(OpenCl, threads_may_compile_and_run_at_the_same_time) {
  std::unique_ptr<Executable> shared = device->compile(twice_and_one().program);
  std::array<std::vector<double>, 4> results, own;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < results.size(); ++t)
    threads.emplace_back([&, t] {
      ByHand p = twice_and_one();
      p.program.source += "\n// " + std::to_string(t);
      own[t] = run_twice_and_one(*device->compile(p.program));
      for (int repeat = 0; repeat < 20; ++repeat)
        results[t] = run_twice_and_one(*shared, counted(64, static_cast<double>(t)));
    });
  for (std::thread& t : threads) t.join();
  for (size_t t = 0; t < results.size(); ++t) {
    EXPECT_EQ(results[t], wanted(static_cast<double>(t)));
    EXPECT_EQ(own[t], wanted());
  }
}

TEST_F(OpenCl, the_drivers_llvm_and_ours_live_in_one_process) {
  ProgramBuilder b;
  UOp out = b.buffer(Scalar::Float, 0), in = b.buffer(Scalar::Float, 1);
  UOp i = b.range(64, 0);
  UOp two = b.real(Scalar::Float, 2), one = b.real(Scalar::Float, 1);
  b.store(b.at(out, i), b.alu(Op::Add, b.alu(Op::Mul, b.load(b.at(in, i)), two), one));
  b.end(i);
  Program ours = b.program("llvm", "E_64");
  ByHand theirs = twice_and_one();
  for (const DeviceInfo& info : devices())
    if (info.name == "CPU" && !info.available) GTEST_SKIP() << "no CPU: " << info.note;
  std::shared_ptr<Device> cpu = open_device("CPU");
  for (int round = 0; round < 3; ++round) {
    theirs.program.source += "\n";
    std::unique_ptr<Executable> a = cpu->compile(ours), c = device->compile(theirs.program), d = cpu->compile(ours);
    EXPECT_EQ(run_twice_and_one(*a), wanted());
    EXPECT_EQ(run_twice_and_one(*c), wanted());
    EXPECT_EQ(run_twice_and_one(*d), wanted());
  }
}

TEST_F(OpenCl, a_process_forked_from_the_one_that_opened_it_is_refused) {
  ByHand p = twice_and_one();
  std::unique_ptr<Executable> executable = device->compile(p.program);
  EXPECT_EQ(run_twice_and_one(*executable), wanted());
  Child child([&](MessageLine& line) {
    line.send(error_of([&] { run_twice_and_one(*executable); }));
    line.send(error_of([&] { device->compile(p.program); }));
  });
  for (int i = 0; i < 2; ++i) {
    std::string said;
    ASSERT_EQ(child.line().receive(said, MessageLine::Clock::now() + std::chrono::seconds(20)),
              MessageLine::Reading::Message);
    EXPECT_THAT(said, AllOf(HasSubstr("device OPENCL was opened by process"), HasSubstr("has to be opened here")));
  }
}

TEST_F(OpenCl, a_device_is_chosen_by_the_setting) {
  Settings s;
  s.set("QUERN_OPENCL_DEVICE", "no such platform");
  EXPECT_THAT(error_of([&] { open_device("OPENCL", s); }),
              AllOf(HasSubstr("no device that can be used matches 'no such platform' (setting QUERN_OPENCL_DEVICE)"),
                    HasSubstr("0:0")));
  for (const char* first : {"0", "0:", "0:0", ":0"}) {
    s.set("QUERN_OPENCL_DEVICE", first);
    EXPECT_EQ(open_device("OPENCL", s)->name(), "OPENCL") << first;
  }
}

#ifdef QUERN_HAVE_OPENCL
TEST(OpenClChoice, goes_by_numbers_and_parts_of_names) {
  std::vector<opencl::Found> all(3);
  all[0] = {nullptr, nullptr, "0:0", "Portable Computing Language", "pthread-x", "OpenCL 3.0", "not available"};
  all[1] = {nullptr, nullptr, "0:1", "Portable Computing Language", "pthread-y", "OpenCL 3.0", ""};
  all[2] = {nullptr, nullptr, "1:0", "NVIDIA CUDA", "H200", "OpenCL 3.0", ""};
  for (const auto& [wanted, place] : std::vector<std::pair<std::string, std::string>>{{"", "0:1"},
                                                                                      {"0", "0:1"},
                                                                                      {"0:0", ""},
                                                                                      {"1", "1:0"},
                                                                                      {"nvidia", "1:0"},
                                                                                      {"NVIDIA:h2", "1:0"},
                                                                                      {":0", "1:0"},
                                                                                      {"portable:1", "0:1"},
                                                                                      {"2", ""},
                                                                                      {":pthread-y", "0:1"},
                                                                                      {"intel", ""}}) {
    std::string why;
    std::optional<opencl::Found> found = opencl::choose(all, wanted, why);
    EXPECT_EQ(found ? found->place : "", place) << wanted << ": " << why;
    EXPECT_EQ(found.has_value(), why.empty()) << wanted;
  }
  std::string why;
  EXPECT_FALSE(opencl::choose({}, "", why));
  EXPECT_EQ(why, "no OpenCL driver is installed");
}

TEST(OpenClErrors, carry_their_meaning_and_name) {
  EXPECT_EQ(error_of([] { opencl::check(CL_MEM_OBJECT_ALLOCATION_FAILURE, "cannot get 8 bytes"); }),
            "cannot get 8 bytes: out of memory (CL_MEM_OBJECT_ALLOCATION_FAILURE)");
  opencl::DriverLog log;
  log.add("cable unplugged");
  EXPECT_EQ(error_of([&] { opencl::check(CL_DEVICE_NOT_AVAILABLE, "cannot launch k", &log); }),
            "cannot launch k: the device is lost (CL_DEVICE_NOT_AVAILABLE)\nthe driver says: cable unplugged");
  EXPECT_EQ(error_of([] { opencl::check(-9999, "cannot launch k"); }), "cannot launch k: OpenCL error -9999");
  EXPECT_EQ(error_of([] { opencl::check(CL_SUCCESS, "cannot launch k"); }), "no such error");
}
#endif

}  // namespace
}  // namespace quern
