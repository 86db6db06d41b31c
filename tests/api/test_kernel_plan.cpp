#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <quern/quern.h>

namespace quern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// out[m, n] = sum over k of a[m, k] * b[k, n], all 64.
KernelGraph matmul() {
  KernelBuilder k;
  Value a = k.load(1, DataType::Float, {64, 1, 64}),
        b = k.load(2, DataType::Float, {1, 64, 64}, {.strides = {0, 1, 64}});
  k.store(0, sum(a * b, {2}));
  return k.build();
}

/// out[i] = 2 * a[i] for i < n, with n up to 100.
constexpr const char* kSymbolic =
    "UOp(Ops.SINK,dtypes.void,arg=None,src=(UOp(Ops.STORE,dtypes.void,arg=None,src=("
    "UOp(Ops.DEFINE_GLOBAL,dtypes.float.ptr(),arg=0,src=()),x1:=UOp(Ops.VIEW,dtypes.void,arg=ShapeTracker(views=(View("
    "shape=(UOp(Ops.DEFINE_VAR,dtypes.int,arg=('n',1,100),src=()),),strides=(1,),offset=0,mask=None,contiguous=True),))"
    ",src=()),"
    "UOp(Ops.ADD,dtypes.float,arg=None,src=(x2:=UOp(Ops.LOAD,dtypes.float,arg=None,src=("
    "UOp(Ops.DEFINE_GLOBAL,dtypes.float.ptr(),arg=1,src=()),x1,)),x2,)),)),))";

std::vector<std::string> texts(const std::vector<PlanAxis>& axes) {
  std::vector<std::string> all;
  for (const PlanAxis& a : axes) all.push_back(a.size.text + " " + a.kind + " " + a.color);
  return all;
}

TEST(KernelPlan, opts_change_its_axes_and_name) {
  KernelPlan plan(matmul(), "cuda:sm_80");
  EXPECT_THAT(texts(plan.axes()), ElementsAre("64 global blue", "64 global blue", "64 reduce red"));
  EXPECT_EQ(plan.name(), "r_64_64_64");
  plan.apply("UPCAST(0,4) LOCAL(1,8)");
  EXPECT_EQ(plan.try_apply("UNROLL(0,4)"), std::nullopt);
  EXPECT_THAT(texts(plan.axes()), ElementsAre("16 global blue", "8 global blue", "8 local cyan", "16 reduce red",
                                              "4 upcast yellow", "4 unroll magenta"));
  EXPECT_EQ(plan.name(), "r_16_8_8_16_4_4");
  EXPECT_EQ(plan.applied_text(), "UPCAST(0,4) LOCAL(1,8) UNROLL(0,4)");
  ASSERT_EQ(plan.applied_opts().size(), 3);
  EXPECT_EQ(plan.applied_opts()[1].op, "LOCAL");
  EXPECT_EQ(plan.applied_opts()[1].axis, 1);
  EXPECT_EQ(plan.applied_opts()[1].amount, 8);
}

TEST(KernelPlan, an_opt_that_does_not_apply_leaves_it_as_it_was) {
  KernelPlan plan(matmul(), "clang");
  EXPECT_THAT(plan.try_apply("UPCAST(0,5)"), testing::Optional(testing::Not(testing::IsEmpty())));
  EXPECT_THROW(plan.try_apply("UPCAST(0"), OptError);
  EXPECT_THROW(plan.apply("UPCAST(0,4) UPCAST(0,5)"), OptError);
  EXPECT_EQ(plan.applied_text(), "UPCAST(0,4)");
  EXPECT_THROW(plan.optimize(), OptError);
}

TEST(KernelPlan, copies_go_their_own_ways) {
  KernelPlan plan(matmul(), "clang");
  KernelPlan copy = plan;
  copy.apply("UPCAST(1,4)");
  EXPECT_EQ(plan.applied_text(), "");
  EXPECT_EQ(copy.applied_text(), "UPCAST(1,4)");
  plan = copy;
  EXPECT_EQ(plan.compile().source(), copy.compile().source());
}

TEST(KernelPlan, its_heuristics_are_those_of_compile) {
  for (const std::string target : {"clang", "opencl", "cuda:sm_80", "hip:gfx1100"}) {
    KernelPlan plan(matmul(), target);
    plan.optimize();
    EXPECT_EQ(plan.compile().source(), render_source(matmul(), target)) << target;
    KernelPlan by_hand(matmul(), target);
    by_hand.apply_required();
    by_hand.apply_hand_coded();
    EXPECT_EQ(by_hand.applied_text(), plan.applied_text()) << target;
  }
}

TEST(KernelPlan, tells_its_tensor_core_and_what_is_legal) {
  KernelBuilder k;
  Value a = k.load(1, DataType::Half, {64, 1, 64}), b = k.load(2, DataType::Half, {1, 64, 64}, {.strides = {0, 1, 64}});
  k.store(0, sum((a * b).cast(DataType::Float), {2}));
  KernelPlan plan(k.build(), "cuda:sm_80");
  bool offered = false;
  for (const auto& [number, opt] : plan.legal_opts()) offered |= opt.op == "TC";
  EXPECT_TRUE(offered);
  EXPECT_EQ(plan.tensor_core(), "");
  EXPECT_TRUE(plan.apply_tensor_cores(0, 0, ""));
  EXPECT_THAT(plan.tensor_core(), HasSubstr("WMMA"));
  EXPECT_EQ(plan.applied_text(), "TC(0,0)");
  KernelPlan without(k.build(), "cuda:sm_80", {.tensor_cores = 0});
  EXPECT_FALSE(without.apply_tensor_cores());
  EXPECT_THROW(KernelPlan(k.build(), "cuda:sm_80", {.tensor_cores = 4}), OptError);
  EXPECT_THROW(KernelPlan(k.build(), "abacus"), DeviceError);
}

TEST(KernelProgram, tells_what_a_launch_takes) {
  KernelPlan plan(KernelGraph::from_text(kSymbolic), "opencl");
  const KernelProgram p = plan.compile("twice");
  EXPECT_EQ(p.name(), "twice");
  EXPECT_THAT(p.source(), HasSubstr("twice("));
  ASSERT_TRUE(p.global_size());
  const Size& n = (*p.global_size())[0];
  EXPECT_EQ(n.value, std::nullopt);
  EXPECT_EQ(n.text, "n");
  EXPECT_EQ(n.notation, "UOp(Ops.DEFINE_VAR,dtypes.int,arg=('n',1,100),src=())");
  EXPECT_EQ((*p.global_size())[1].value, 1);
  EXPECT_THAT(p.outputs(), ElementsAre(0));
  ASSERT_EQ(p.buffers().size(), 2);
  EXPECT_EQ(p.buffers()[1].number, 1);
  EXPECT_EQ(p.estimates().ops.text, "n");
  EXPECT_GT(p.num_uops(), 4);
  EXPECT_THAT(p.linear_notation(), HasSubstr("UOp(Ops.NOOP,dtypes.void,arg=None,src=("));
  EXPECT_EQ(KernelPlan(matmul(), "clang").compile().global_size(), std::nullopt);
}

TEST(KernelProgram, has_a_name_that_compilers_take) {
  const KernelPlan plan(matmul(), "clang");
  for (const std::string name : {"a b", "1a", "a\"b", "ü", "a\nb"})
    EXPECT_THROW(plan.compile(name), InvalidKernel) << name;
  EXPECT_THROW(plan.compile(std::string(129, 'a')), InvalidKernel);
  EXPECT_EQ(plan.compile("_2").name(), "_2");
}

TEST(KernelProgram, runs_on_a_device) {
  const KernelProgram p = KernelPlan(KernelGraph::from_text(kSymbolic), "clang").compile();
  const DeviceHandle device("INTERP", {{"QUERN_CACHE", "off"}});
  EXPECT_EQ(device.name(), "INTERP");
  EXPECT_TRUE(device.accepts("metal"));
  std::vector<float> in(100, 1.5F), out(100);
  p.compile(device).run({array(out), array(in)}, {{"n", 7}});
  EXPECT_EQ(out[6], 3.F);
  EXPECT_EQ(out[7], 0.F);
  EXPECT_THROW(p.compile("CPU"), DeviceError);  // runs LLVM IR
  EXPECT_THROW(p.compile("NOWHERE"), DeviceError);
}

TEST(KernelPlan, copies_may_be_used_by_several_threads) {
  const KernelPlan plan(matmul(), "cuda:sm_80");
  std::vector<std::string> sources(4);
  std::vector<std::thread> threads;
  for (std::string& source : sources)
    threads.emplace_back([&source, plan] {
      for (int i = 0; i < 10; ++i) {
        KernelPlan mine = plan;
        mine.apply_hand_coded();
        source = mine.compile().source();
      }
    });
  for (std::thread& t : threads) t.join();
  for (const std::string& source : sources) EXPECT_EQ(source, sources[0]);
}

TEST(Devices, are_listed_and_have_settings) {
  bool interpreter = false;
  for (const DeviceSummary& d : list_devices()) interpreter |= d.name == "INTERP" && d.available;
  EXPECT_TRUE(interpreter);
  EXPECT_THAT(list_targets(), testing::Contains("metal"));
  EXPECT_THAT(setting_names(), testing::Contains("QUERN_CACHE"));
  EXPECT_THROW(DeviceHandle("INTERP", {{"QUERN_CASH", "off"}}), Error);
}

}  // namespace
}  // namespace quern
