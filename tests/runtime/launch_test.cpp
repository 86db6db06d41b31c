// What a launch or a device is refused for, by type and message; launch dims; settings of devices.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/error.h"

#include "linear_programs.h"
#include "run_program.h"

namespace quern {
namespace {

using test::ProgramBuilder;
using ::testing::HasSubstr;

template <class F>
std::string device_error(F&& f) {
  try {
    f();
  } catch (const DeviceError& e) {
    return e.what();
  }
  return "no DeviceError";
}

/// data0[i] = data1[i] + n for 4 values
struct Launch {
  ProgramBuilder b;
  Program program;
  Buffer out{Scalar::Float, 4}, in{Scalar::Float, 4};
  Launch() {
    UOp data0 = b.buffer(Scalar::Float, 0), data1 = b.buffer(Scalar::Float, 1), n = b.variable("n", 1, 8);
    UOp i = b.range(4, 0);
    b.store(b.at(data0, i), b.alu(Op::Add, b.load(b.at(data1, i)), b.add(Op::Cast, Scalar::Float, {n})));
    b.end(i);
    program = b.program("llvm", "E_4");
  }
  std::string refusal(std::vector<Buffer*> buffers, const VarValues& vars = {{"n", 2}}) {
    return device_error([&] { check_launch(program, buffers, vars); });
  }
};

TEST(Launch, is_accepted_with_what_the_program_asks_for) {
  Launch l;
  EXPECT_EQ(l.refusal({&l.out, &l.in}), "no DeviceError");
  EXPECT_EQ(l.refusal({&l.out, &l.in}, {{"n", 8}, {"other", 3}}), "no DeviceError");
}

TEST(Launch, says_what_is_wrong_with_its_buffers) {
  Launch l;
  Buffer small(Scalar::Float, 3), ints(Scalar::Int32, 4);
  EXPECT_EQ(l.refusal({&l.out}), "cannot launch E_4: 1 buffers given, and it takes 2");
  EXPECT_EQ(l.refusal({&l.out, nullptr}), "cannot launch E_4: buffer 1 (argument 1) is missing");
  EXPECT_EQ(l.refusal({&l.out, &small}),
            "cannot launch E_4: buffer 1 (argument 1) has 3 elements, and the kernel needs 4");
  EXPECT_EQ(l.refusal({&ints, &l.in}), "cannot launch E_4: buffer 0 (argument 0) holds int, not float");
  EXPECT_THAT(l.refusal({&l.out, &l.out}),
              HasSubstr("buffer 0 (argument 0) is written and shares memory with buffer 1"));
  alignas(16) std::byte memory[32];
  Buffer crooked(Scalar::Float, 4, memory + 2);
  EXPECT_THAT(l.refusal({&l.out, &crooked}), HasSubstr("is not aligned to the 4 bytes of its elements"));
}

TEST(Launch, says_what_is_wrong_with_its_variables) {
  Launch l;
  EXPECT_EQ(l.refusal({&l.out, &l.in}, {}), "cannot launch E_4: variable n has no value");
  EXPECT_EQ(l.refusal({&l.out, &l.in}, {{"n", 9}}), "cannot launch E_4: variable n is 9, outside 1 to 8");
  EXPECT_EQ(l.refusal({&l.out, &l.in}, {{"n", 0}}), "cannot launch E_4: variable n is 0, outside 1 to 8");
}

TEST(Launch, sizes_come_from_the_views_where_they_are_known) {
  Launch l;
  EXPECT_EQ(buffer_sizes(l.program), (std::map<int, int64_t>{{0, 4}, {1, 4}}));
  l.program.buffer_sizes = {{0, 4}, {1, 2}};
  Buffer two(Scalar::Float, 2);
  EXPECT_EQ(l.refusal({&l.out, &two}), "no DeviceError");
}

TEST(LaunchDims, follow_the_variables) {
  Graph g;
  UOp n = g.variable("n", 1, 100);
  std::array<SInt, 3> dims{SInt((n + 3).idiv(g.const_index(4))), 2, SInt(n * 2)};
  EXPECT_EQ(launch_dims(dims, {{"n", 10}}), (std::array<int64_t, 3>{3, 2, 20}));
  EXPECT_EQ(device_error([&] { launch_dims(dims, {}); }), "variable n has no value");
}

TEST(LaunchVariables, are_those_of_the_arguments_and_of_the_dims) {
  Graph g;
  UOp n = g.variable("n", 1, 100), m = g.variable("m", 1, 9);
  Program program;
  program.name = "E_n";
  program.vars = {m};
  EXPECT_EQ(launch_variables(program), (std::vector<UOp>{m}));
  program.global_size = {SInt(n), SInt(m), SInt(n * 2)};
  EXPECT_EQ(launch_variables(program), (std::vector<UOp>{m, n}));
  EXPECT_EQ(device_error([&] { check_launch(program, {}, {{"m", 1}}); }), "cannot launch E_n: variable n has no value");
  EXPECT_EQ(device_error([&] { check_launch(program, {}, {{"m", 1}, {"n", 101}}); }),
            "cannot launch E_n: variable n is 101, outside 1 to 100");
}

TEST(Buffers, cannot_be_of_absurd_sizes_or_types) {
  EXPECT_THAT(device_error([] { Buffer(Scalar::Float, -1); }), HasSubstr("a buffer of -1 floats cannot be made"));
  EXPECT_THAT(device_error([] { Buffer(Scalar::Double, std::numeric_limits<int64_t>::max()); }),
              HasSubstr("cannot be made"));
  EXPECT_THAT(device_error([] { Buffer(Scalar::Int8, int64_t{1} << 60); }), HasSubstr("out of memory"));
  EXPECT_THAT(device_error([] { Buffer(Scalar::Index, 1); }), HasSubstr("no buffer holds values of dtypes.index"));
}

TEST(Devices, are_listed_and_found_by_name) {
  std::vector<std::string> names;
  for (const DeviceInfo& d : devices()) names.push_back(d.name);
  EXPECT_EQ(names, (std::vector<std::string>{"CPU", "CLANG", "OPENCL", "CUDA", "INTERP"}));
  EXPECT_EQ(open_device("interp")->name(), "INTERP");
  EXPECT_EQ(device_error([] { open_device("TPU"); }),
            "no device is called 'TPU': there are CPU, CLANG, OPENCL, CUDA, INTERP");
}

TEST(Devices, say_that_the_c_compiler_is_missing) {
  Settings settings;
  settings.set("CC", "no-such-compiler");
  EXPECT_EQ(device_error([&] { open_device("CLANG", settings); }),
            "device CLANG is not here: no compiler 'no-such-compiler' (setting CC) is found");
  settings.set("CC", "");
  settings.set("PATH", "/nowhere");
  EXPECT_EQ(device_error([&] { open_device("CLANG", settings); }),
            "device CLANG is not here: no clang or cc is on the PATH");
}

TEST(Devices, refuse_programs_of_other_targets) {
  Launch l;
  l.program = l.b.program("cuda:sm_80", "E_4");
  for (const test::DeviceCase& which : test::compiling_devices())
    if (std::shared_ptr<Device> device = test::open_case(which)) {
      EXPECT_THAT(device_error([&] { device->compile(l.program); }), HasSubstr("E_4 is for target cuda:sm_80"));
      EXPECT_FALSE(device->accepts(find_target("cuda:sm_80")));
    }
}

}  // namespace
}  // namespace quern
