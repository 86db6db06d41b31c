#include <filesystem>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <quern/quern.h>

namespace quern {
namespace {

/// out[m] = sum over n of a[m, n] * b[n].
KernelGraph matvec() {
  KernelBuilder k;
  Value a = k.load(1, DataType::Float, {64, 64}), b = k.load(2, DataType::Float, {64, 64}, {.strides = {0, 1}});
  k.store(0, sum(a * b, {1}));
  return k.build();
}

class Tune : public testing::Test {
 protected:
  void SetUp() override {
    try {
      compile(matvec());
    } catch (const DeviceError& e) {
      GTEST_SKIP() << e.what();
    }
  }
};

TEST_F(Tune, finds_opts_that_compile_takes) {
  int64_t calls = 0;
  TuneOptions options{.beam = 2, .seconds = 10};
  options.progress = [&](const TuneProgress& p) {
    EXPECT_EQ(p.candidates, ++calls);
    return calls < 8;
  };
  const TuneResult r = tune(matvec(), options);
  EXPECT_LE(r.candidates, 8);
  EXPECT_EQ(r.candidates, calls);
  EXPECT_GT(r.seconds, 0);
  EXPECT_FALSE(r.known);
  std::vector<float> a(64 * 64), b(64), out(64);
  std::iota(a.begin(), a.end(), 0.F);
  b[3] = 1;
  CompiledKernel compiled = compile(matvec(), {.opts = r.opts});
  compiled.run({array(out), array(a), array(b)});
  for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], a[64 * i + 3]);
}

TEST_F(Tune, keeps_results_in_a_file_where_one_is_named) {
  const std::string file =
      std::filesystem::temp_directory_path() / ("quern_api_tuned_" + std::to_string(getpid()) + ".db");
  TuneOptions options{.beam = 1, .seconds = 5, .database = file};
  const TuneResult first = tune(matvec(), options), second = tune(matvec(), options);
  EXPECT_FALSE(first.known);
  EXPECT_TRUE(second.known);
  EXPECT_EQ(first.opts, second.opts);
  EXPECT_EQ(first.seconds, second.seconds);
  options.search_again = true;
  EXPECT_FALSE(tune(matvec(), options).known);
  for (const char* part : {"", "-wal", "-shm"}) std::filesystem::remove(file + part);
}

TEST_F(Tune, refuses_what_cannot_be_tuned) {
  EXPECT_THROW(tune(matvec(), {.device = "NONE"}), DeviceError);
  EXPECT_THROW(tune(matvec(), {.target = "metal"}), DeviceError);
  EXPECT_THROW(tune(matvec(), {.beam = 0}), Error);
  EXPECT_THROW(tune(matvec(), {.seconds = -1}), Error);
  EXPECT_THROW(tune(matvec(), {.seconds = std::numeric_limits<double>::quiet_NaN()}), Error);
  EXPECT_THROW(tune(matvec(), {.database = std::string("a\0b", 3)}), Error);
  EXPECT_THROW(tune(matvec(), {.database = "/dev/null/tuned.db"}), Error);
}

}  // namespace
}  // namespace quern
