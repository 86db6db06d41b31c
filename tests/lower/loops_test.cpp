#include "lower/loops.h"

#include <gtest/gtest.h>

#include "ir/spec.h"
#include "lower/kernels.h"

namespace quern {
namespace {

using namespace test;

UOp machine_range(Graph& g, int64_t end, int axis) {
  return g.node(Op::Range, Scalar::Int32, {g.constant(Scalar::Int32, 0), g.constant(Scalar::Int32, end)},
                RangeArg{axis, true});
}
UOp at(UOp buffer, UOp index) { return buffer.graph().node(Op::Index, buffer.dtype(), {buffer, index}); }
UOp load_at(UOp buffer, UOp index) { return buffer.graph().node(Op::Load, buffer.dtype().base(), {at(buffer, index)}); }
/// The sum of `value` over the loops.
UOp sum(UOp value, std::vector<UOp> loops, int number) {
  Graph& g = value.graph();
  std::vector<UOp> src{g.constant(value.dtype(), 0)};
  src.insert(src.end(), loops.begin(), loops.end());
  UOp acc = g.node(Op::DefineAcc, value.dtype(), src, g.intern(Lanes{number}));
  return g.node(Op::Assign, value.dtype(), {acc, acc + value});
}
UOp sink_of(UOp value) {
  Graph& g = value.graph();
  return g.node(
      Op::Sink, Scalar::Void,
      {g.node(Op::Store, Scalar::Void, {at(buffer(g, 0, value.dtype()), g.constant(Scalar::Int32, 0)), value})});
}

TEST(SeparateLoops, leaves_a_graph_alone_where_nothing_clashes) {
  Graph g;
  UOp r = machine_range(g, 8, 0), x = buffer(g, 1, Scalar::Float);
  UOp sink = sink_of(sum(load_at(x, r), {r}, 0) * sum(load_at(x, r) * load_at(x, r), {r}, 1));
  EXPECT_EQ(separate_loops(sink), sink);
  EXPECT_EQ(outline(linearize(sink)), "acc acc for load endfor store");
}

TEST(SeparateLoops, ends_a_loop_before_its_result_is_used_in_another_over_the_same_axis) {
  Graph g;
  UOp r = machine_range(g, 8, 0), x = buffer(g, 1, Scalar::Float);
  UOp total = sum(load_at(x, r), {r}, 0);
  UOp sink = separate_loops(sink_of(sum(load_at(x, r) * total, {r}, 1)));
  LinearProgram program = linearize(sink);
  verify(program.uops, Spec::Linear);
  EXPECT_EQ(outline(program), "acc for load endfor acc for load endfor store");
  EXPECT_EQ(all(program, Op::Range).size(), 2u);
}

TEST(SeparateLoops, gives_sums_over_different_sets_of_loops_their_own) {
  Graph g;
  UOp r = machine_range(g, 8, 0), s = machine_range(g, 4, 1), x = buffer(g, 1, Scalar::Float);
  UOp both = sum(load_at(x, r * 4 + s), {r, s}, 0), inner = sum(load_at(x, s), {s}, 1);
  LinearProgram program = linearize(separate_loops(sink_of(both + inner)));
  verify(program.uops, Spec::Linear);
  EXPECT_EQ(all(program, Op::Range).size(), 3u);
}

TEST(SeparateLoops, keeps_lanes_that_clash_alike_in_one_loop) {
  Graph g;
  UOp r = machine_range(g, 8, 0), x = buffer(g, 1, Scalar::Float);
  UOp total = sum(load_at(x, r), {r}, 0);
  UOp lane0 = sum(load_at(x, r) * total, {r}, 1), lane1 = sum(load_at(x, r) + total, {r}, 2);
  LinearProgram program = linearize(separate_loops(sink_of(lane0 + lane1)));
  EXPECT_EQ(outline(program), "acc for load endfor acc acc for load endfor store");
}

TEST(Linearize, keeps_out_of_a_loop_what_does_not_change_in_it) {
  Graph g;
  UOp r = machine_range(g, 8, 0), x = buffer(g, 1, Scalar::Float), first = load_at(x, g.constant(Scalar::Int32, 3));
  LinearProgram program = linearize(sink_of(sum(load_at(x, r) * (first * first), {r}, 0)));
  EXPECT_EQ(outline(program), "load acc for load endfor store");
}

TEST(Linearize, changes_an_accumulator_after_all_that_read_it) {
  Graph g;
  UOp r = machine_range(g, 8, 0), x = buffer(g, 1, Scalar::Float);
  UOp zero = g.constant(Scalar::Float, 0);
  std::array<UOp, 2> src = {zero, r};
  UOp a = g.node(Op::DefineAcc, Scalar::Float, src, g.intern(Lanes{0})),
      b = g.node(Op::DefineAcc, Scalar::Float, src, g.intern(Lanes{1}));
  UOp next_a = g.node(Op::Assign, Scalar::Float, {a, a + load_at(x, r)});
  UOp next_b = g.node(Op::Assign, Scalar::Float, {b, b + a * a});  // of the old a
  LinearProgram program = linearize(sink_of(next_a * next_b));
  auto place = [&](UOp u) { return std::find(program.uops.begin(), program.uops.end(), u) - program.uops.begin(); };
  EXPECT_LT(place(a * a), place(next_a));
}

TEST(Linearize, puts_stores_that_share_a_condition_under_one_if) {
  Graph g;
  UOp r = g.node(Op::Range, Scalar::Int32, {g.constant(Scalar::Int32, 0), g.constant(Scalar::Int32, 8)},
                 RangeArg{0, false});
  UOp out = buffer(g, 0, Scalar::Float), x = buffer(g, 1, Scalar::Float);
  UOp condition = g.node(Op::If, Scalar::Void, {r.lt(g.constant(Scalar::Int32, 5))});
  std::vector<UOp> stores;
  for (int i = 0; i < 3; ++i)
    stores.push_back(g.node(Op::Store, Scalar::Void, {at(out, r + i * 8), load_at(x, r + i), condition}));
  LinearProgram program = linearize(g.node(Op::Sink, Scalar::Void, stores));
  verify(program.uops, Spec::Linear);
  EXPECT_EQ(outline(program), "for load load load if store store store endif endfor");
}

}  // namespace
}  // namespace quern
