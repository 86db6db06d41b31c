// Loops, accumulators, branches and memory accesses of linear programs, on every device that compiles.

#include <thread>

#include <gtest/gtest.h>

#include "quern/error.h"

#include "linear_programs.h"
#include "run_program.h"

namespace quern {
namespace {

using test::buffer_of;
using test::DeviceCase;
using test::ProgramBuilder;
using test::run;
using test::values_of;
using Values = std::vector<double>;

class Programs : public ::testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override {
    device_ = test::open_case(GetParam());
    if (!device_) GTEST_SKIP() << GetParam().text() << " is not on this machine";
  }
  /// Runs over `inputs` after an output of `count` values of the same type; gives the output.
  Values result(const ProgramBuilder& b, Scalar s, size_t count, const std::vector<Values>& inputs,
                const VarValues& vars = {}) {
    std::vector<std::unique_ptr<Buffer>> buffers;
    buffers.push_back(buffer_of(s, Values(count, -77)));
    for (const Values& v : inputs) buffers.push_back(buffer_of(s, v));
    run(*device_, b.program(device_->default_target().name), buffers, vars);
    return values_of(*buffers[0]);
  }
  std::shared_ptr<Device> device_;
};

TEST_P(Programs, sum_rows_with_an_accumulator) {
  ProgramBuilder b;
  UOp out = b.buffer(Scalar::Float, 0), in = b.buffer(Scalar::Float, 1);
  UOp zero = b.real(Scalar::Float, 0), four = b.number(4);
  UOp row = b.range(3, 0);
  UOp col = b.graph().node(Op::Range, Scalar::Int32, {b.number(0), four}, RangeArg{1, true});
  UOp acc = b.add(b.accumulator(zero, {col}));
  b.add(col);
  UOp at = b.alu(Op::Add, b.alu(Op::Mul, row, four), col);
  UOp sum = b.assign(acc, b.alu(Op::Add, acc, b.load(b.at(in, at))));
  b.end(col);
  b.store(b.at(out, row), sum);
  b.end(row);
  EXPECT_EQ(result(b, Scalar::Float, 3, {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}), (Values{10, 26, 42}));
}

TEST_P(Programs, carry_an_accumulator_through_two_loops) {
  ProgramBuilder b;
  UOp out = b.buffer(Scalar::Int32, 0), in = b.buffer(Scalar::Int32, 1);
  UOp zero = b.number(0), three = b.number(3), two = b.number(2);
  UOp outer = b.graph().node(Op::Range, Scalar::Int32, {zero, two}, RangeArg{0, true});
  UOp inner = b.graph().node(Op::Range, Scalar::Int32, {zero, three}, RangeArg{1, true});
  UOp acc = b.add(b.accumulator(b.number(100), {outer, inner}));
  b.add(outer), b.add(inner);
  UOp at = b.alu(Op::Add, b.alu(Op::Mul, outer, three), inner);
  UOp sum = b.assign(acc, b.alu(Op::Add, acc, b.load(b.at(in, at))));
  b.end(inner), b.end(outer);
  b.store(b.at(out, zero), sum);
  EXPECT_EQ(result(b, Scalar::Int32, 1, {{1, 2, 3, 4, 5, 6}}), (Values{121}));
}

TEST_P(Programs, use_an_accumulators_old_value_after_its_assignment) {
  // fibonacci: each step takes both old values
  ProgramBuilder b;
  UOp out = b.buffer(Scalar::Int32, 0);
  UOp zero = b.number(0), one = b.number(1), ten = b.number(10);
  UOp step = b.graph().node(Op::Range, Scalar::Int32, {zero, ten}, RangeArg{0, true});
  UOp low = b.add(b.accumulator(zero, {step})), high = b.add(b.accumulator(one, {step}));
  b.add(step);
  UOp twice = b.alu(Op::Mul, low, b.number(2));  // of the old value, stored at the end
  UOp next = b.alu(Op::Add, low, high);
  UOp new_low = b.assign(low, high), new_high = b.assign(high, next);
  b.store(b.at(out, b.alu(Op::Add, step, b.number(2))), b.alu(Op::Add, twice, low));
  b.end(step);
  b.store(b.at(out, zero), new_low);
  b.store(b.at(out, one), new_high);
  EXPECT_EQ(result(b, Scalar::Int32, 12, {}), (Values{55, 89, 0, 3, 3, 6, 9, 15, 24, 39, 63, 102}));
}

TEST_P(Programs, leave_an_accumulator_as_it_was_where_a_loop_does_not_run) {
  ProgramBuilder b;
  UOp out = b.buffer(Scalar::Int32, 0), n = b.variable("n", 0, 9);
  UOp zero = b.number(0);
  UOp loop = b.graph().node(Op::Range, Scalar::Int32, {zero, n}, RangeArg{0, true});
  UOp acc = b.add(b.accumulator(b.number(5), {loop}));
  b.add(loop);
  UOp sum = b.assign(acc, b.alu(Op::Add, acc, loop));
  b.end(loop);
  b.store(b.at(out, zero), sum);
  EXPECT_EQ(result(b, Scalar::Int32, 1, {}, {{"n", 0}}), Values{5});
  EXPECT_EQ(result(b, Scalar::Int32, 1, {}, {{"n", 4}}), Values{11});
}

TEST_P(Programs, do_not_touch_memory_under_a_false_gate) {
  // the index runs far outside the buffer where the gate is off
  ProgramBuilder b;
  UOp out = b.buffer(Scalar::Float, 0), in = b.buffer(Scalar::Float, 1);
  UOp far = b.number(1000000000), otherwise = b.real(Scalar::Float, -1), limit = b.number(3);
  UOp i = b.range(6, 0);
  UOp gate = b.alu(Op::Cmplt, i, limit);
  UOp outside =
      b.alu(Op::Mul, far, b.add(Op::Cast, Scalar::Int32, {b.alu(Op::Cmpne, gate, b.add(b.graph().const_bool(true)))}));
  b.store(b.at(out, i), b.load(b.at(in, b.alu(Op::Add, i, outside)), otherwise, gate));
  b.end(i);
  EXPECT_EQ(result(b, Scalar::Float, 6, {{1, 2, 3}}), (Values{1, 2, 3, -1, -1, -1}));
}

TEST_P(Programs, store_inside_a_branch_only) {
  ProgramBuilder b;
  UOp out = b.buffer(Scalar::Int16, 0), in = b.buffer(Scalar::Int16, 1);
  UOp i = b.range(5, 0);
  UOp v = b.load(b.at(in, i));
  UOp branch = b.add(Op::If, Scalar::Void, {b.alu(Op::Cmplt, v, b.number(Scalar::Int16, 0))});
  b.add(Op::Store, Scalar::Void, {b.at(out, i), v, branch});
  b.add(Op::Endif, Scalar::Void, {branch});
  b.end(i);
  EXPECT_EQ(result(b, Scalar::Int16, 5, {{1, -2, 3, -4, 5}}), (Values{-77, -2, -77, -4, -77}));
}

TEST_P(Programs, move_vectors_from_and_to_element_aligned_places) {
  for (Scalar s : {Scalar::Bool, Scalar::Int8, Scalar::Half, Scalar::BFloat16, Scalar::Float, Scalar::Int64}) {
    ProgramBuilder b;
    UOp out = b.buffer(s, 0), in = b.buffer(s, 1);
    UOp one = b.number(1), four = b.number(4);
    UOp i = b.range(2, 0);
    UOp start = b.alu(Op::Mul, i, four);
    UOp v = b.load(b.wide(b.at(in, b.alu(Op::Add, start, one)), 4));
    UOp zero = b.number(s, 0);
    UOp gate = b.alu(Op::Cmplt, i, one);
    UOp w = b.load(b.wide(b.at(in, b.alu(Op::Mul, i, b.number(100))), 4), b.vector({zero, zero, zero, b.number(s, 1)}),
                   gate);
    b.store(b.wide(b.at(out, start), 4), b.vector({b.lane(v, 3), b.lane(v, 0), b.lane(w, 1), b.lane(w, 3)}));
    b.end(i);
    Values in_values = s == Scalar::Bool ? Values{0, 1, 0, 1, 0, 0, 1, 1, 1} : Values{0, 1, 2, 3, 4, 5, 6, 7, 8};
    const Values& x = in_values;
    EXPECT_EQ(result(b, s, 8, {in_values}), (Values{x[4], x[1], x[1], x[3], x[8], x[5], 0, 1})) << to_string(s);
  }
}

TEST_P(Programs, compute_long_chains) {
  // deeper than any compiler's nesting limit
  for (int length : {400, 1500}) {
    ProgramBuilder b;
    UOp out = b.buffer(Scalar::Float, 0), in = b.buffer(Scalar::Float, 1);
    UOp zero = b.number(0), factor = b.real(Scalar::Float, 1.0001), one = b.real(Scalar::Float, 1);
    UOp x = b.load(b.at(in, zero));
    float expected = 0.5f;
    for (int i = 0; i < length; ++i) {
      x = i % 2 ? b.alu(Op::Add, x, one) : b.alu(Op::Mul, x, factor);
      expected = i % 2 ? expected + 1.0f : expected * 1.0001f;
    }
    b.store(b.at(out, zero), x);
    EXPECT_EQ(result(b, Scalar::Float, 1, {{0.5}}), Values{expected}) << length;
  }
}

TEST_P(Programs, do_not_fuse_a_product_and_a_sum_outside_reductions) {
  ProgramBuilder b;
  UOp out = b.buffer(Scalar::Float, 0), in = b.buffer(Scalar::Float, 1);
  UOp zero = b.number(0), x = b.load(b.at(in, zero)), y = b.load(b.at(in, b.number(1)));
  b.store(b.at(out, zero), b.alu(Op::Add, b.alu(Op::Mul, x, x), y));
  float v = 1.0f + 0x1p-12f, product = v * v;
  EXPECT_EQ(result(b, Scalar::Float, 1, {{v, -product}}), Values{0});
}

TEST_P(Programs, take_variables_and_constants_of_every_size) {
  ProgramBuilder b;
  UOp out = b.buffer(Scalar::Int64, 0);
  UOp small = b.variable("while", -5, 5), large = b.variable("big", 0, int64_t{1} << 40, Scalar::Int64);
  UOp least = b.number(Scalar::Int64, std::numeric_limits<int64_t>::min());
  b.store(b.at(out, b.number(0)), b.alu(Op::Add, large, b.add(Op::Cast, Scalar::Int64, {small})));
  b.store(b.at(out, b.number(1)), least);
  Values got = result(b, Scalar::Int64, 2, {}, {{"while", -3}, {"big", int64_t{1} << 35}});
  EXPECT_EQ(got, (Values{0x1p35 - 3, -0x1p63}));
}

TEST_P(Programs, keep_denormals) {
  ProgramBuilder b;
  UOp out = b.buffer(Scalar::Float, 0), in = b.buffer(Scalar::Float, 1);
  UOp zero = b.number(0);
  b.store(b.at(out, zero), b.alu(Op::Mul, b.load(b.at(in, zero)), b.real(Scalar::Float, 0.1875)));
  EXPECT_EQ(result(b, Scalar::Float, 1, {{0x1p-124}}), Values{0.1875 * 0x1p-124});
}

TEST_P(Programs, live_side_by_side_under_one_name_and_on_threads) {
  std::vector<std::thread> threads;
  std::vector<Values> got(4);
  for (size_t t = 0; t < got.size(); ++t)
    threads.emplace_back([&, t] {
      ProgramBuilder b;
      UOp out = b.buffer(Scalar::Int32, 0);
      UOp i = b.range(3, 0);
      b.store(b.at(out, i), b.alu(Op::Add, i, b.number(static_cast<int64_t>(10 * t))));
      b.end(i);
      got[t] = result(b, Scalar::Int32, 3, {});
    });
  for (std::thread& t : threads) t.join();
  for (size_t t = 0; t < got.size(); ++t) {
    double base = 10.0 * static_cast<double>(t);
    EXPECT_EQ(got[t], (Values{base, base + 1, base + 2}));
  }
}

TEST_P(Programs, that_are_not_code_are_refused_with_the_compilers_words) {
  ProgramBuilder b;
  UOp out = b.buffer(Scalar::Int32, 0);
  b.store(b.at(out, b.number(0)), b.number(1));
  Program program = b.program(device_->default_target().name);
  program.source += "nonsense here";
  try {
    device_->compile(program);
    FAIL() << "compiled nonsense";
  } catch (const CompileError& e) {
    EXPECT_NE(std::string(e.what()).find("refused"), std::string::npos) << e.what();
    EXPECT_NE(e.log().find("nonsense"), std::string::npos) << e.log();
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Programs, ::testing::ValuesIn(test::compiling_devices()),
                         [](const auto& one) { return test::test_name(one.param.text()); });

}  // namespace
}  // namespace quern
