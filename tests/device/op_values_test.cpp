// Every op on every type at edge values through the whole pipeline, on every device and opts, against scalar evaluation.

#include <cmath>

#include <gtest/gtest.h>

#include "everywhere.h"
#include "linear_programs.h"
#include "run_program.h"
#include "shape/shapetracker.h"

namespace quern {
namespace {

using namespace test;

/// One output of a kernel: an op over the inputs, or a conversion of the first.
struct Output {
  Op op;
  Scalar type;
};

std::vector<Output> outputs_of(Scalar s, std::initializer_list<Op> ops) {
  std::vector<Output> all;
  for (Op op : ops) all.push_back({op, op == Op::Cmplt || op == Op::Cmpne ? Scalar::Bool : s});
  return all;
}

std::vector<Output> exact_outputs(Scalar s) {
  std::vector<Output> all =
      outputs_of(s, {Op::Add, Op::Sub, Op::Mul, Op::Max, Op::Neg, Op::Cmplt, Op::Cmpne, Op::Where, Op::Mulacc});
  auto more = DType(s).is_float() ? outputs_of(s, {Op::Fdiv, Op::Recip, Op::Sqrt})
              : s == Scalar::Bool ? outputs_of(s, {Op::And, Op::Or, Op::Xor})
                                  : outputs_of(s, {Op::And, Op::Or, Op::Xor, Op::Idiv, Op::Mod, Op::Shl, Op::Shr});
  all.insert(all.end(), more.begin(), more.end());
  if (s == Scalar::UInt64) all.push_back({Op::Threefry, s});
  return all;
}

std::vector<Output> conversions(Scalar s) {
  std::vector<Output> all;
  for (Scalar to : value_scalars()) all.push_back({Op::Cast, to});
  for (Scalar to : value_scalars())
    if (bytes_of(to) == bytes_of(s) && to != s) all.push_back({Op::Bitcast, to});
  return all;
}

UOp make(Graph& g, Output o, UOp x, UOp y, UOp z) {
  if (o.op == Op::Where) return x.lt(z).where(x, y);
  switch (info(o.op).arity) {
    case 1: return g.node(o.op, o.type, {x});
    case 2: return g.node(o.op, o.type, {x, y});
    default: return g.node(o.op, o.type, {x, y, z});
  }
}

ConstBits expected(Output o, Scalar s, ConstBits x, ConstBits y, ConstBits z) {
  if (o.op == Op::Cast) return eval_cast(s, o.type, x);
  if (o.op == Op::Bitcast) return eval_bitcast(s, o.type, x);
  ConstBits all[] = {x, y, z};
  if (o.op == Op::Where) {
    ConstBits less[] = {x, z};
    ConstBits choice[] = {eval_alu(Op::Cmplt, s, less), x, y};
    return eval_alu(o.op, s, choice);
  }
  return eval_alu(o.op, s, std::span<const ConstBits>(all, static_cast<size_t>(info(o.op).arity)));
}

/// All pairs of edge values and a third, as many as a multiple of 8.
struct Operands {
  Elements x, y, z;
};
Operands operands_of(Scalar s) {
  const std::vector<ConstBits> edges = edge_values(s);
  const size_t n = edges.size(), count = (n * n + 7) / 8 * 8;
  Operands all{{data_type_of(s), {}}, {data_type_of(s), {}}, {data_type_of(s), {}}};
  for (size_t j = 0; j < count; ++j) {
    all.x.values.push_back(edges[j / n % n]);
    all.y.values.push_back(edges[j % n]);
    all.z.values.push_back(edges[(j * 7 + 3) % n]);
  }
  return all;
}

constexpr int kX = 80, kY = 81, kZ = 82;

void expect_evaluated(Scalar s, const std::vector<Output>& outputs, const How& how) {
  const Operands in = operands_of(s);
  const auto count = static_cast<int64_t>(in.x.size());
  Graph g;
  const ShapeTracker st = tracker({count});
  UOp x = load(g, kX, s, st), y = load(g, kY, s, st), z = load(g, kZ, s, st);
  std::vector<UOp> stores;
  Filled want;
  for (const Output& o : outputs) {
    const int number = static_cast<int>(stores.size());
    stores.push_back(store(g, number, st, make(g, o, x, y, z)));
    Elements e{data_type_of(o.type), {}};
    for (size_t j = 0; j < in.x.size(); ++j)
      e.values.push_back(expected(o, s, in.x.values[j], in.y.values[j], in.z.values[j]));
    want.emplace(number, std::move(e));
  }
  expect_everywhere(kernel_of(stores), {{kX, in.x}, {kY, in.y}, {kZ, in.z}}, want, how);
}

class PipelineValues : public ::testing::TestWithParam<Scalar> {};

const How kFew = {.opts = {"UPCAST(0,4)", "UPCAST(0,8)", "LOCAL(0,8)"}, .signed_zeros = true, .few_opts = true};

TEST_P(PipelineValues, agree_with_scalar_evaluation) {
  How how = kFew;
  how.signed_zeros = false;  // of MAX's zeros either may come out
  expect_evaluated(GetParam(), exact_outputs(GetParam()), how);
}

TEST_P(PipelineValues, of_conversions_agree_with_scalar_evaluation) {
  expect_evaluated(GetParam(), conversions(GetParam()), kFew);
}

TEST_P(PipelineValues, of_functions_are_within_an_ulp_or_two) {
  const Scalar s = GetParam();
  if (!DType(s).is_float()) return;
  How how = kFew;
  how.tolerance = std::ldexp(1, 1 - float_format(s).mantissa_bits);
  expect_evaluated(s, outputs_of(s, {Op::Exp2, Op::Log2, Op::Sin}), how);
}

TEST_P(PipelineValues, with_a_constant_on_one_side_agree_with_scalar_evaluation) {
  const Scalar s = GetParam();
  const std::vector<ConstBits> edges = edge_values(s);
  const auto n = static_cast<int64_t>(edges.size());
  for (const Output& o : exact_outputs(s)) {
    if (info(o.op).arity != 2) continue;
    for (bool constant_first : {false, true}) {
      SCOPED_TRACE(std::string(to_string(o.op)) +
                   (constant_first ? " of a constant and a value" : " of a value and a constant"));
      Graph g;
      const ShapeTracker st = tracker({n});
      UOp x = load(g, kX, s, st);
      std::vector<UOp> stores;
      Filled want;
      for (ConstBits c : edges) {
        const int number = static_cast<int>(stores.size());
        UOp known = g.const_bits(s, c);
        stores.push_back(store(g, number, st, constant_first ? make(g, o, known, x, x) : make(g, o, x, known, x)));
        Elements e{data_type_of(o.type), {}};
        for (ConstBits v : edges)
          e.values.push_back(constant_first ? expected(o, s, c, v, v) : expected(o, s, v, c, v));
        want.emplace(number, std::move(e));
      }
      expect_everywhere(
          kernel_of(stores), {{kX, {data_type_of(s), edges}}}, want,
          {.opts = {"UPCAST(0,0)"}, .signed_zeros = o.op != Op::Max, .few_opts = true, .in_process_only = true});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, PipelineValues, ::testing::ValuesIn(value_scalars()),
                         [](const auto& one) { return std::string(to_string(one.param)); });

}  // namespace
}  // namespace quern
