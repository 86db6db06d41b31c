// The tools that give kernels to compilers and GPUs, where this machine has them.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/command.h"

namespace quern::test {
namespace {

using ::testing::HasSubstr;

TEST(Tools, check_that_compilers_take_conformance_kernels_without_a_warning) {
  if (!std::filesystem::exists(QUERN_CONFORMANCE_DIR "/kernels.jsonl.gz"))
    GTEST_SKIP() << "no conformance kernels in " QUERN_CONFORMANCE_DIR;
  Result r =
      run(QUERN_SOURCE_DIR "/tools/check_targets --quern " QUERN_COMMAND
                           " --sample 15 --tc-sample 12 --targets cuda:sm_80,ptx:sm_80,hip:gfx1100,metal,opencl,dsp",
          "QUERN_CONFORMANCE_DIR=" QUERN_CONFORMANCE_DIR);
  std::cout << r.out;  // says what was skipped
  EXPECT_EQ(r.status, 0);
  EXPECT_THAT(r.out, HasSubstr("metal        "));
}

TEST(Tools, say_that_there_is_no_gpu) {
  Result r = run(QUERN_SOURCE_DIR "/tools/gpu_check", "CUDA_VISIBLE_DEVICES=-1");
  EXPECT_EQ(r.status, 0) << r.out;
  EXPECT_EQ(r.out, "skipped: no CUDA device\n");
}

}  // namespace
}  // namespace quern::test
