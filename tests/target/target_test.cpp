#include "target/target.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/error.h"

namespace quern {
namespace {

TEST(Targets, are_found_by_name) {
  EXPECT_THAT(target_names(),
              testing::ElementsAre("cpu:avx512", "cpu:avx512vnni", "cpu:avx512bf16", "cpu:avx2", "cpu:128", "clang",
                                   "clang:amx", "dsp", "llvm", "opencl", "intel", "qcom", "cuda:sm_75", "cuda:sm_80",
                                   "cuda:sm_90", "ptx:sm_75", "ptx:sm_80", "ptx:sm_90", "nv", "metal", "hip:gfx1100"));
  for (const std::string& name : target_names()) EXPECT_EQ(find_target(name).name, name);
  try {
    find_target("vulkan");
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::AllOf(testing::HasSubstr("no target is called 'vulkan'"),
                                         testing::HasSubstr("clang, clang:amx")));
  }
}

TEST(Targets, have_the_limits_of_the_references_renderers) {
  struct Case {
    const char* name;
    const char* device;
    bool locals, shared, float4;
    int64_t shared_max;
    size_t cores;
  };
  for (const Case& c : std::vector<Case>{{"clang", "CLANG", false, true, true, 32768, 0},
                                         {"clang:amx", "CLANG", false, true, true, 32768, 1},
                                         {"dsp", "DSP", false, true, false, 32768, 0},
                                         {"llvm", "LLVM", false, false, false, 32768, 0},
                                         {"opencl", "GPU", true, true, true, 32768, 0},
                                         {"intel", "GPU", true, true, true, 32768, 2},
                                         {"qcom", "QCOM", true, true, true, 32768, 0},
                                         {"cuda:sm_75", "CUDA", true, true, true, 49152, 0},
                                         {"cuda:sm_80", "CUDA", true, true, true, 49152, 2},
                                         {"ptx:sm_75", "CUDA", true, true, true, 49152, 0},
                                         {"ptx:sm_90", "CUDA", true, true, true, 49152, 1},
                                         {"nv", "NV", true, true, true, 49152, 2},
                                         {"metal", "METAL", true, true, true, 32768, 3},
                                         {"hip:gfx1100", "AMD", true, true, true, 65536, 2}}) {
    const Target& t = find_target(c.name);
    EXPECT_EQ(t.device, c.device) << c.name;
    EXPECT_EQ(t.has_local, c.locals) << c.name;
    EXPECT_EQ(t.has_shared, c.shared) << c.name;
    EXPECT_EQ(t.has_float4, c.float4) << c.name;
    EXPECT_EQ(t.shared_max, c.shared_max) << c.name;
    EXPECT_EQ(t.tensor_cores.size(), c.cores) << c.name;
    EXPECT_EQ(t.global_max.has_value(), c.locals) << c.name;
  }
}

TEST(Targets, have_no_native_maximum_as_dialects_drop_nan) {
  for (const std::string& name : target_names()) {
    const Target& t = find_target(name);
    EXPECT_FALSE(t.native_ops.contains(Op::Max)) << name;
    EXPECT_TRUE(t.native_ops.contains_all({Op::Add, Op::Mul, Op::Cmplt, Op::Cmpne, Op::Where, Op::Sqrt})) << name;
  }
  EXPECT_FALSE(find_target("clang").native_ops.contains(Op::Exp2));
  EXPECT_TRUE(find_target("opencl").native_ops.contains(Op::Exp2));
  EXPECT_TRUE(find_target("ptx:sm_80").native_ops.contains(Op::Mulacc));
}

// What one instruction does adds up: N and M are split between threads and lanes, the operands' lanes times the threads hold
// the operands (some twice), the result's lanes hold each element once.
TEST(TensorCores, cover_their_dimensions) {
  for (const std::string& name : target_names()) {
    for (const TensorCore& core : find_target(name).tensor_cores) {
      const auto product = [](const auto& axes) {
        int64_t size = 1;
        for (const AxisSize& a : axes) size *= a.size;
        return size;
      };
      const int64_t threads = product(core.threads);
      EXPECT_EQ(product(core.reduce_axes), core.dims[2]) << name << " " << core.name();
      EXPECT_EQ(product(core.early_upcast_axes()) * threads, int64_t{core.dims[0]} * core.dims[1])
          << name << " " << core.name();
      EXPECT_EQ(product(core.upcast_axes[2]) * threads, int64_t{core.dims[0]} * core.dims[1])
          << name << " " << core.name();
      EXPECT_EQ(product(core.upcast_axes[0]) * threads % (int64_t{core.dims[1]} * core.dims[2]), 0) << name;
      EXPECT_EQ(product(core.upcast_axes[1]) * threads % (int64_t{core.dims[0]} * core.dims[2]), 0) << name;
      // A swizzle permutes the warp's axes and the expanded ones.
      for (const auto& swizzle : {core.swizzle_a, core.swizzle_b}) {
        if (!swizzle) continue;
        TensorCore::Pattern all = swizzle->warp;
        all.insert(all.end(), swizzle->expanded.begin(), swizzle->expanded.end());
        EXPECT_EQ(std::set(all.begin(), all.end()).size(), core.threads.size() + core.expanded_shape.size()) << name;
      }
    }
  }
}

}  // namespace
}  // namespace quern
