#include "runtime/interp/interp.h"

#include <cstring>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/error.h"

#include "runtime/interp/bytecode.h"

namespace quern {
namespace {

using ::testing::HasSubstr;

/// A linear program under construction, with float buffers.
struct Builder {
  Graph graph;
  std::vector<UOp> uops;

  UOp put(UOp u) {
    uops.push_back(u);
    return u;
  }
  UOp global(int64_t number, Scalar type = Scalar::Float) {
    return put(graph.node(Op::DefineGlobal, DType(type).ptr(), {}, number));
  }
  UOp local(int64_t size) {
    return put(
        graph.node(Op::DefineLocal, DType(Scalar::Float).ptr(Space::Local), {}, graph.intern(LocalArg{"temp1", size})));
  }
  UOp special(const char* name, int64_t size) {
    return put(graph.node(Op::Special, Scalar::Int32, {}, graph.intern(SpecialArg{name, size})));
  }
  UOp number(int64_t value) { return put(graph.const_int(Scalar::Int32, value)); }
  UOp real(double value) { return put(graph.const_float(Scalar::Float, value)); }
  UOp index(UOp buffer, UOp i) { return put(graph.node(Op::Index, buffer.dtype(), {buffer, i})); }
  UOp load(UOp address) { return put(graph.node(Op::Load, address.dtype().base(), {address})); }
  UOp store(UOp address, UOp value) { return put(graph.node(Op::Store, Scalar::Void, {address, value})); }
  UOp op(Op o, UOp a, UOp b) { return put(a.alu(o, b)); }

  Program program(std::array<int64_t, 3> global, std::array<int64_t, 3> local, std::vector<int> globals,
                  std::vector<int64_t> sizes) {
    Program p;
    p.name = "test";
    p.target = &find_target("opencl");
    p.linear.uops = uops;
    p.global_size = std::array<SInt, 3>{global[0], global[1], global[2]};
    p.local_size = std::array<SInt, 3>{local[0], local[1], local[2]};
    p.globals = globals;
    p.outs = {0};
    for (size_t i = 0; i < globals.size(); ++i) {
      p.buffer_sizes[globals[i]] = sizes[i];
      p.buffer_types[globals[i]] = DType(Scalar::Float).ptr();
    }
    return p;
  }
};

std::vector<float> run(const Program& p, std::vector<std::vector<float>> contents) {
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<Buffer*> pointers;
  for (const auto& c : contents) {
    buffers.push_back(std::make_unique<Buffer>(Scalar::Float, static_cast<int64_t>(c.size())));
    std::memcpy(buffers.back()->data(), c.data(), c.size() * sizeof(float));
    pointers.push_back(buffers.back().get());
  }
  make_interp_device()->compile(p)->run(pointers, {});
  std::vector<float> out(contents[0].size());
  std::memcpy(out.data(), buffers[0]->data(), out.size() * sizeof(float));
  return out;
}

std::string failure(const std::function<void()>& f) {
  try {
    f();
  } catch (const DeviceError& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(Interp, runs_every_thread_of_every_group) {
  Builder b;
  UOp out = b.global(0), in = b.global(1);
  UOp g = b.special("gidx0", 3), l = b.special("lidx0", 4);
  UOp i = b.op(Op::Add, b.op(Op::Mul, g, b.number(4)), l);
  b.store(b.index(out, i), b.op(Op::Add, b.load(b.index(in, i)), b.real(0.5)));
  std::vector<float> x(12), want(12);
  for (size_t n = 0; n < 12; ++n) x[n] = static_cast<float>(n), want[n] = x[n] + 0.5F;
  EXPECT_EQ(run(b.program({3, 1, 1}, {4, 1, 1}, {0, 1}, {12, 12}), {std::vector<float>(12), x}), want);
}

TEST(Interp, sums_in_a_loop) {
  Builder b;
  UOp out = b.global(0), in = b.global(1), zero = b.number(0), ten = b.number(10), start = b.real(0);
  UOp range = b.graph.node(Op::Range, Scalar::Int32, {zero, ten}, RangeArg{0, true});
  UOp acc = b.put(b.graph.node(Op::DefineAcc, Scalar::Float, {start, range}, b.graph.intern(Lanes{0})));
  b.put(range);
  UOp sum = b.op(Op::Add, acc, b.load(b.index(in, range)));
  UOp done = b.put(b.graph.node(Op::Assign, Scalar::Float, {acc, sum}));
  b.put(b.graph.node(Op::Endrange, Scalar::Void, {range}));
  b.store(b.index(out, zero), done);
  EXPECT_EQ(run(b.program({1, 1, 1}, {1, 1, 1}, {0, 1}, {1, 10}), {{0}, std::vector<float>(10, 1.5F)}),
            std::vector<float>{15});
}

TEST(Interp, refuses_an_access_outside_its_buffer) {
  Builder b;
  UOp out = b.global(0), in = b.global(1), g = b.special("gidx0", 5);
  b.store(b.index(out, g), b.load(b.index(in, b.op(Op::Add, g, b.number(1)))));
  Program p = b.program({5, 1, 1}, {1, 1, 1}, {0, 1}, {5, 5});
  EXPECT_THAT(failure([&] { run(p, {std::vector<float>(5), std::vector<float>(5)}); }),
              HasSubstr("LOAD at element 5 of a buffer of 5 (group 4, thread 0)"));
}

TEST(Interp, sees_a_local_value_read_before_a_barrier) {
  for (bool barrier : {false, true}) {
    Builder b;
    UOp out = b.global(0), temp = b.local(4), l = b.special("lidx0", 4), three = b.number(3);
    UOp stored = b.store(b.index(temp, l), b.real(2));
    if (barrier) b.put(b.graph.node(Op::Barrier, Scalar::Void, {stored}));
    UOp other = b.op(Op::Add, three, b.op(Op::Mul, l, b.number(-1)));
    b.store(b.index(out, l), b.load(b.index(temp, other)));
    Program p = b.program({1, 1, 1}, {4, 1, 1}, {0}, {4});
    if (barrier)
      EXPECT_EQ(run(p, {std::vector<float>(4)}), std::vector<float>(4, 2));
    else
      EXPECT_THAT(failure([&] { run(p, {std::vector<float>(4)}); }),
                  HasSubstr("is read before a barrier after thread 3 wrote it"));
  }
}

TEST(Interp, sees_local_memory_read_that_was_never_written) {
  Builder b;
  UOp out = b.global(0), temp = b.local(4), l = b.special("lidx0", 4);
  b.store(b.index(out, l), b.load(b.index(temp, l)));
  Program p = b.program({1, 1, 1}, {4, 1, 1}, {0}, {4});
  EXPECT_THAT(failure([&] { run(p, {std::vector<float>(4)}); }),
              HasSubstr("local element 0 is read but was never written"));
}

TEST(Interp, does_not_touch_memory_behind_a_closed_gate) {
  Builder b;
  UOp out = b.global(0), in = b.global(1), g = b.special("gidx0", 8), minus_one = b.real(-1);
  UOp inside = b.op(Op::Cmplt, g, b.number(4));
  UOp address = b.index(in, g);
  UOp value = b.put(b.graph.node(Op::Load, Scalar::Float, {address, minus_one, inside}));
  b.store(b.index(out, g), value);
  Program p = b.program({8, 1, 1}, {1, 1, 1}, {0, 1}, {8, 4});
  EXPECT_EQ(run(p, {std::vector<float>(8), {1, 2, 3, 4}}), (std::vector<float>{1, 2, 3, 4, -1, -1, -1, -1}));
}

TEST(Interp, stores_only_in_threads_inside_an_if) {
  Builder b;
  UOp out = b.global(0), l = b.special("lidx0", 4), value = b.real(7);
  UOp inside = b.op(Op::Cmplt, l, b.number(2));
  UOp branch = b.put(b.graph.node(Op::If, Scalar::Void, {inside}));
  b.store(b.index(out, l), value);
  b.put(b.graph.node(Op::Endif, Scalar::Void, {branch}));
  EXPECT_EQ(run(b.program({1, 1, 1}, {4, 1, 1}, {0}, {4}), {std::vector<float>(4)}), (std::vector<float>{7, 7, 0, 0}));
}

TEST(Interp, rejects_a_program_whose_scopes_cross) {
  Builder b;
  UOp zero = b.number(0), ten = b.number(10);
  UOp outer = b.put(b.graph.node(Op::Range, Scalar::Int32, {zero, ten}, RangeArg{0, false}));
  b.put(b.graph.node(Op::Range, Scalar::Int32, {zero, ten}, RangeArg{1, false}));
  b.put(b.graph.node(Op::Endrange, Scalar::Void, {outer}));
  Program p = b.program({1, 1, 1}, {1, 1, 1}, {}, {});
  EXPECT_THROW(interp::assemble(p), InternalError);
}

}  // namespace
}  // namespace quern
