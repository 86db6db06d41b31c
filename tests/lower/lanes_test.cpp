#include "lower/lanes.h"

#include <gtest/gtest.h>

#include "ir/view.h"
#include "lower/kernels.h"

namespace quern {
namespace {

using namespace test;

UOp lanes_of(UOp sink) {
  static const RuleSet none("none", {});
  return build_lanes(sink, none);
}

UOp axis(Graph& g, int32_t number, int32_t size) {
  ConstVector steps(static_cast<size_t>(size));
  for (size_t i = 0; i < steps.size(); ++i) steps[i].bits = i;
  UOp lanes = g.const_vector(DType(Scalar::Index, static_cast<uint16_t>(size)), std::move(steps));
  return g.node(Op::Expand, Scalar::Index, {lanes}, g.intern(Axes{{number, size}}));
}
UOp contract(UOp x, Axes axes) {
  int lanes = 1;
  for (AxisSize a : axes) lanes *= a.size;
  return x.graph().node(Op::Contract, x.dtype().vec(lanes), {x}, x.graph().intern(std::move(axes)));
}
/// Values of constant index arithmetic.
int64_t value(UOp u) {
  if (u.is_const()) return static_cast<int64_t>(u.const_int());
  return u.is(Op::Add) ? value(u.src(0)) + value(u.src(1)) : value(u.src(0)) * value(u.src(1));
}
/// What is stored at 0 by each lane of a STORE, in order.
std::vector<int64_t> stored_lanes(UOp stored) {
  Graph& g = stored.graph();
  UOp out = g.node(Op::DefineGlobal, DType(Scalar::Index).ptr(), {}, int64_t{0});
  UOp store = g.node(Op::Store, Scalar::Void, {g.node(Op::Index, out.dtype(), {out, g.const_index(0)}), stored});
  std::vector<int64_t> lanes;
  for (UOp s : lanes_of(g.node(Op::Sink, Scalar::Void, {store})).src()) lanes.push_back(value(s.src(1)));
  return lanes;
}

TEST(BuildLanes, runs_through_axes_with_the_last_one_fastest) {
  Graph g;
  UOp a = axis(g, 3, 2), b = axis(g, 7, 3);
  EXPECT_EQ(stored_lanes(b + a * 10), (std::vector<int64_t>{0, 1, 2, 10, 11, 12}));
}

TEST(BuildLanes, contracts_in_the_order_of_the_contract) {
  Graph g;
  UOp a = axis(g, 3, 2), b = axis(g, 7, 3), x = a * 10 + b;
  struct Case {
    Axes axes;
    std::vector<int64_t> lanes;
  };
  for (const auto& [axes, lanes] :
       std::vector<Case>{{{{3, 2}, {7, 3}}, {0, 1, 2, 10, 11, 12}}, {{{7, 3}, {3, 2}}, {0, 10, 1, 11, 2, 12}}}) {
    UOp vector = contract(x, axes);
    for (size_t i = 0; i < lanes.size(); ++i)
      EXPECT_EQ(stored_lanes(vector.gep(static_cast<int>(i))), std::vector<int64_t>{lanes[i]});
  }
}

TEST(BuildLanes, keeps_the_axes_a_contract_does_not_take) {
  Graph g;
  UOp a = axis(g, 3, 2), b = axis(g, 7, 3);
  EXPECT_EQ(stored_lanes(contract(a * 10 + b, {{3, 2}}).gep(1)), (std::vector<int64_t>{10, 11, 12}));
}

TEST(BuildLanes, repeats_along_an_axis_the_contracted_value_does_not_have) {
  Graph g;
  UOp vector = contract(axis(g, 7, 2), {{7, 2}, {9, 2}});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(stored_lanes(vector.gep(i)), std::vector<int64_t>{i / 2});
}

TEST(BuildLanes, expands_a_vector_along_several_axes_in_the_order_of_the_expand) {
  Graph g;
  std::vector<UOp> each;
  for (int i = 0; i < 6; ++i) each.push_back(g.const_index(i));
  UOp expanded = g.node(Op::Expand, Scalar::Index, {g.vectorize(each)}, g.intern(Axes{{9, 3}, {8, 2}}));
  EXPECT_EQ(stored_lanes(expanded), (std::vector<int64_t>{0, 2, 4, 1, 3, 5}));  // by axis 8, then 9
}

TEST(BuildLanes, gives_each_lane_an_accumulator_of_its_own) {
  Graph g;
  UOp r = g.range(0, 8, 0, true), lane = axis(g, 1, 4);
  std::array<UOp, 2> src = {g.const_index(0), r};
  UOp acc = g.node(Op::DefineAcc, Scalar::Index, src, g.intern(Lanes{5}));
  UOp assign = g.node(Op::Assign, Scalar::Index, {acc, acc + (r + lane)});
  UOp out = g.node(Op::DefineGlobal, DType(Scalar::Index).ptr(), {}, int64_t{0});
  UOp store = g.node(Op::Store, Scalar::Void, {g.node(Op::Index, out.dtype(), {out, lane}), assign});
  UOp sink = lanes_of(g.node(Op::Sink, Scalar::Void, {store}));
  ASSERT_EQ(sink.num_src(), 4u);
  for (int32_t i = 0; i < 4; ++i) {
    UOp lane_assign = sink.src(static_cast<size_t>(i)).src(1), lane_acc = lane_assign.src(0);
    EXPECT_EQ(*std::get<const Lanes*>(lane_acc.arg()), (Lanes{5, i}));
    EXPECT_EQ(lane_assign.src(1).src(0), lane_acc);
  }
}

TEST(BuildLanes, leaves_a_graph_without_expanded_axes_as_it_is) {
  Graph g;
  UOp out = g.node(Op::DefineGlobal, DType(Scalar::Float).ptr(), {}, int64_t{0}), r = g.range(0, 8, 0);
  UOp store =
      g.node(Op::Store, Scalar::Void, {g.node(Op::Index, out.dtype(), {out, r}), g.const_float(Scalar::Float, 1)});
  UOp sink = g.node(Op::Sink, Scalar::Void, {store});
  EXPECT_EQ(lanes_of(sink), sink);
}

}  // namespace
}  // namespace quern
