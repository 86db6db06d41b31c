#include "engine/check.h"

#include <array>

#include <gtest/gtest.h>

#include "engine/compile.h"
#include "ir/text.h"

namespace quern {
namespace {

// max over 4 of a[r, c] + b[r, c], where b is behind a mask that holds nowhere; that does not show any more where threads share it out.
constexpr const char* kNeverRead =
    "UOp(Ops.SINK, dtypes.void, arg=None, src=(UOp(Ops.STORE, dtypes.void, arg=None, src=("
    "UOp(Ops.DEFINE_GLOBAL, dtypes.float.ptr(), arg=0, src=()),"
    "UOp(Ops.VIEW, dtypes.void, arg=ShapeTracker(views=(View(shape=(1, 1, 4, 5880), strides=(0, 0, 5880, 1), offset=0, "
    "mask=None, contiguous=True),)), src=()),"
    "UOp(Ops.REDUCE_AXIS, dtypes.float, arg=(Ops.MAX, (1,)), src=(UOp(Ops.ADD, dtypes.float, arg=None, src=("
    "UOp(Ops.LOAD, dtypes.float, arg=None, src=(UOp(Ops.DEFINE_GLOBAL, dtypes.float.ptr(), arg=1, src=()),"
    "UOp(Ops.VIEW, dtypes.void, arg=ShapeTracker(views=(View(shape=(1, 16, 4, 5880), strides=(0, 5880, 94080, 1), "
    "offset=0, mask=((0, 1), (0, 16), (0, 4), (0, 4480)), contiguous=False),)), src=()),)),"
    "UOp(Ops.LOAD, dtypes.float, arg=None, src=(UOp(Ops.DEFINE_GLOBAL, dtypes.float.ptr(), arg=2, src=()),"
    "UOp(Ops.VIEW, dtypes.void, arg=ShapeTracker(views=(View(shape=(1, 144, 5880), strides=(0, 4480, 1), "
    "offset=-286720, mask=((0, 1), (64, 144), (0, 4480)), contiguous=False), View(shape=(1, 16, 4, 5880), "
    "strides=(0, 5880, 94080, 1), offset=0, mask=None, contiguous=False))), src=()),)),)),)),)),))";

TEST(KernelCheck, compares_programs_that_take_different_buffers) {
  Graph graph;
  UOp ast = parse(graph, kNeverRead);
  const Target& target = find_target("cpu:avx512");
  const Kernel plain = optimize(ast, target, {.opts = "none"});
  const Kernel shared = optimize(ast, target, {.opts = "PADTO(1,64) UPCAST(0,4) UPCAST(0,64) THREAD(0,2)"});
  ASSERT_NE(compile(plain).globals, compile(shared).globals);
  const std::shared_ptr<Device> device = open_device("INTERP");
  for (const auto& order : {std::array{&plain, &shared}, std::array{&shared, &plain}}) {
    KernelCheck check(*device, 1);
    for (const Kernel* kernel : order) {
      const CheckResult result = check(*kernel);
      EXPECT_EQ(result.kind, CheckResult::Kind::Match) << result.note;
    }
  }
}

}  // namespace
}  // namespace quern
