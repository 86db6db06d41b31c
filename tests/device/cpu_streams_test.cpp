#ifdef QUERN_HAVE_LLVM
// What the CPU device does beyond running a program: stores past the caches.
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/compile.h"
#include "ir/text.h"
#include "runtime/device.h"

namespace quern {
namespace {

// out[i] = in[i] + in[i], for 2^23 floats.
constexpr const char* kDoubled =
    "UOp(Ops.SINK, dtypes.void, arg=None, src=(UOp(Ops.STORE, dtypes.void, arg=None, src=("
    "UOp(Ops.DEFINE_GLOBAL, dtypes.float.ptr(), arg=0, src=()),"
    "x2:=UOp(Ops.VIEW, dtypes.void, arg=ShapeTracker(views=(View(shape=(8388608,), strides=(1,), offset=0, mask=None, "
    "contiguous=True),)), src=()),"
    "UOp(Ops.ADD, dtypes.float, arg=None, src=(x4:=UOp(Ops.LOAD, dtypes.float, arg=None, src=("
    "UOp(Ops.DEFINE_GLOBAL, dtypes.float.ptr(), arg=1, src=()), x2,)), x4,)),)),))";

TEST(CpuStreams, large_results_go_past_the_caches_wherever_they_are) {
  const std::shared_ptr<Device> device = open_device("CPU");
  Graph graph;
  const Program program =
      compile(parse(graph, kDoubled), find_target("cpu:avx512"), {.opts = "UPCAST(0,64) THREAD(0,4)"});
  ASSERT_THAT(program.source, testing::HasSubstr("!nontemporal"));
  ASSERT_THAT(program.source, testing::HasSubstr("fence"));
  const std::unique_ptr<Executable> executable = device->compile(program);
  constexpr int64_t kSize = 1 << 23;
  Buffer in(Scalar::Float, kSize), memory(Scalar::Float, kSize + 16);
  auto* values = reinterpret_cast<float*>(in.data());
  for (int64_t i = 0; i < kSize; ++i) values[i] = static_cast<float>(i % 1000);
  for (int64_t offset : {0, 1, 7}) {
    Buffer out(Scalar::Float, kSize, memory.data() + 4 * offset);
    std::memset(memory.data(), 0, memory.bytes());
    executable->run(std::vector<Buffer*>{&out, &in}, {});
    const auto* got = reinterpret_cast<const float*>(out.data());
    int64_t wrong = 0;
    for (int64_t i = 0; i < kSize; ++i) wrong += got[i] == 2 * values[i] ? 0 : 1;
    EXPECT_EQ(wrong, 0) << "from element " << offset;
  }
}

TEST(CpuStreams, what_caches_hold_stays_there) {
  Graph graph;
  std::string small = kDoubled;
  small.replace(small.find("8388608"), 7, "1048576");
  const Program program = compile(parse(graph, small), find_target("cpu:avx512"), {.opts = "UPCAST(0,64)"});
  EXPECT_THAT(program.source, testing::Not(testing::HasSubstr("nontemporal")));
}

}  // namespace
}  // namespace quern
#endif
