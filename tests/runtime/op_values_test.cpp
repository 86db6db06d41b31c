// Every op on every dtype at edge values, on every compiled device, against ir/eval: loaded, nothing folded.

#include <gtest/gtest.h>

#include "linear_programs.h"
#include "run_program.h"

namespace quern {
namespace {

using test::DeviceCase;
using test::edge_values;
using test::get;
using test::ProgramBuilder;
using test::put;
using test::value_scalars;

bool same_value(Scalar s, ConstBits a, ConstBits b) {
  if (!(scalar_bit(s) & kFloats)) return a == b;
  return a == b || (std::isnan(float_of_const(a)) && std::isnan(float_of_const(b)));
}

std::string text(Scalar s, ConstBits c) {
  if (scalar_bit(s) & kFloats) return ::testing::PrintToString(float_of_const(c));
  return to_string(int_of_const(s, c));
}

/// One output of a kernel: an op over the two or three inputs, or a conversion of the first.
struct Output {
  Op op;
  Scalar type;
};

std::vector<Output> alu_outputs(Scalar s) {
  std::vector<Output> all;
  auto add = [&](std::initializer_list<Op> ops) {
    for (Op op : ops) all.push_back({op, op == Op::Cmplt || op == Op::Cmpne ? Scalar::Bool : s});
  };
  add({Op::Add, Op::Sub, Op::Mul, Op::Max, Op::Neg, Op::Cmplt, Op::Cmpne, Op::Where, Op::Mulacc});
  if (scalar_bit(s) & kFloats) {
    add({Op::Fdiv, Op::Recip, Op::Sqrt});
  } else {
    add({Op::And, Op::Or, Op::Xor, Op::Idiv, Op::Mod, Op::Shl, Op::Shr});
  }
  return all;
}

std::vector<Output> conversion_outputs(Scalar s) {
  std::vector<Output> all;
  for (Scalar to : value_scalars()) all.push_back({Op::Cast, to});
  for (Scalar to : value_scalars())
    if (bytes_of(to) == bytes_of(s)) all.push_back({Op::Bitcast, to});
  return all;
}

UOp make(ProgramBuilder& b, Output o, UOp x, UOp y, UOp z) {
  int arity = info(o.op).arity;
  if (o.op == Op::Where) return b.add(o.op, o.type, {b.add(Op::Cmplt, Scalar::Bool, {x, z}), x, y});
  if (arity == 1) return b.add(o.op, o.type, {x});
  if (arity == 2) return b.add(o.op, o.type, {x, y});
  return b.add(o.op, o.type, {x, y, z});
}

ConstBits expected(Output o, Scalar s, ConstBits x, ConstBits y, ConstBits z) {
  if (o.op == Op::Cast) return eval_cast(s, o.type, x);
  if (o.op == Op::Bitcast) return eval_bitcast(s, o.type, x);
  ConstBits all[] = {x, y, z};
  if (o.op == Op::Where) {
    ConstBits less[] = {x, z};
    ConstBits where[] = {eval_alu(Op::Cmplt, s, less), x, y};
    return eval_alu(o.op, s, where);
  }
  return eval_alu(o.op, s, std::span<const ConstBits>(all, static_cast<size_t>(info(o.op).arity)));
}

/// `work`: how many operations the device is told there are: compilers take more trouble over more.
void check(Device& device, Scalar s, const std::vector<Output>& outputs, int64_t work) {
  std::vector<ConstBits> edges = edge_values(s);
  size_t n = edges.size(), count = n * n;
  int number = 0;
  ProgramBuilder b;
  std::vector<UOp> results, inputs;
  for (const Output& o : outputs) results.push_back(b.buffer(o.type, number++));
  for (int i = 0; i < 3; ++i) inputs.push_back(b.buffer(s, number++));
  UOp i = b.range(static_cast<int64_t>(count), 0);
  UOp x = b.load(b.at(inputs[0], i)), y = b.load(b.at(inputs[1], i)), z = b.load(b.at(inputs[2], i));
  for (size_t k = 0; k < outputs.size(); ++k) b.store(b.at(results[k], i), make(b, outputs[k], x, y, z));
  b.end(i);

  std::vector<std::unique_ptr<Buffer>> owned;
  std::vector<Buffer*> buffers;
  for (const Output& o : outputs) owned.push_back(std::make_unique<Buffer>(o.type, count));
  for (int k = 0; k < 3; ++k) owned.push_back(std::make_unique<Buffer>(s, count));
  for (auto& o : owned) buffers.push_back(o.get());
  auto input = [&](size_t which, size_t j) {
    return which == 0 ? edges[j / n] : which == 1 ? edges[j % n] : edges[(j * 7 + 3) % n];
  };
  for (size_t j = 0; j < count; ++j)
    for (size_t k = 0; k < 3; ++k) put(*buffers[outputs.size() + k], j, input(k, j));

  Program program = b.program(device.default_target().name);
  program.estimates.ops = work;
  device.compile(program)->run(buffers, {});
  for (size_t k = 0; k < outputs.size(); ++k) {
    int wrong = 0;
    for (size_t j = 0; j < count && wrong < 5; ++j) {
      ConstBits want = expected(outputs[k], s, input(0, j), input(1, j), input(2, j)), got = get(*buffers[k], j);
      if (same_value(outputs[k].type, want, got)) continue;
      ++wrong;
      ADD_FAILURE() << to_string(outputs[k].op) << " " << to_string(s) << " to " << to_string(outputs[k].type) << " of "
                    << text(s, input(0, j)) << ", " << text(s, input(1, j)) << ", " << text(s, input(2, j)) << " gives "
                    << text(outputs[k].type, got) << ", not " << text(outputs[k].type, want);
    }
  }
}

class OpValues : public ::testing::TestWithParam<std::tuple<DeviceCase, Scalar>> {};

TEST_P(OpValues, agree_with_scalar_evaluation) {
  auto [which, s] = GetParam();
  std::shared_ptr<Device> device = test::open_case(which);
  if (!device) GTEST_SKIP() << which.text() << " is not on this machine";
  for (int64_t work : {int64_t{1}, int64_t{1} << 40}) {
    check(*device, s, alu_outputs(s), work);
    check(*device, s, conversion_outputs(s), work);
    if (which.name != "CPU") break;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, OpValues,
                         ::testing::Combine(::testing::ValuesIn(test::compiling_devices()),
                                            ::testing::ValuesIn(value_scalars())),
                         [](const auto& one) {
                           std::string scalar(to_string(std::get<1>(one.param)));
                           return test::test_name(std::get<0>(one.param).text() + "_" + scalar);
                         });

}  // namespace
}  // namespace quern
