#pragma once
// Linear programs by hand: what the lowering stages would give, in order.

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "ir/eval.h"
#include "ir/graph.h"
#include "render/program.h"

namespace quern::test {

/// Appends nodes to a linear program as it makes them.
class ProgramBuilder {
 public:
  Graph& graph() { return *graph_; }

  UOp add(UOp u) {
    if (std::find(uops_.begin(), uops_.end(), u) == uops_.end()) uops_.push_back(u);
    return u;
  }
  UOp add(Op op, DType dtype, std::initializer_list<UOp> src = {}, Arg arg = {}) {
    return add(graph_->node(op, dtype, src, arg));
  }

  UOp buffer(Scalar s, int number) { return add(Op::DefineGlobal, DType(s).ptr(), {}, int64_t{number}); }
  UOp variable(const char* name, int64_t min, int64_t max, Scalar s = Scalar::Int32) {
    return add(graph_->variable(name, min, max, s));
  }
  UOp number(Scalar s, int64_t value) { return add(graph_->constant(s, value)); }
  UOp number(int64_t value) { return number(Scalar::Int32, value); }
  UOp real(Scalar s, double value) { return add(graph_->const_float(s, value)); }

  UOp range(UOp start, UOp end, int axis, bool reduce = false) {
    return add(Op::Range, start.dtype(), {start, end}, RangeArg{axis, reduce});
  }
  UOp range(int64_t end, int axis, bool reduce = false) {
    UOp start = number(0);
    return range(start, number(end), axis, reduce);
  }
  void end(UOp range) { add(Op::Endrange, Scalar::Void, {range}); }

  UOp at(UOp buffer, UOp index) { return add(Op::Index, buffer.dtype(), {buffer, index}); }
  /// The same place as `lanes` values.
  UOp wide(UOp address, int lanes) {
    return add(Op::Cast, address.dtype().base().vec(lanes).ptr(address.dtype().space), {address});
  }
  UOp load(UOp address) { return add(Op::Load, address.dtype().base(), {address}); }
  UOp load(UOp address, UOp otherwise, UOp gate) {
    return add(Op::Load, address.dtype().base(), {address, otherwise, gate});
  }
  void store(UOp address, UOp value) { add(Op::Store, Scalar::Void, {address, value}); }
  UOp lane(UOp vector, int lane) {
    return add(Op::Gep, vector.dtype().scalar_type(), {vector}, graph_->intern(Lanes{lane}));
  }
  UOp vector(const std::vector<UOp>& lanes) { return add(graph_->vectorize(lanes)); }
  UOp accumulator(UOp initial, const std::vector<UOp>& ranges) {
    std::vector<UOp> src{initial};
    src.insert(src.end(), ranges.begin(), ranges.end());
    return graph_->node(Op::DefineAcc, initial.dtype(), src, graph_->intern(Lanes{accumulators_++}));
  }
  UOp assign(UOp acc, UOp value) { return add(Op::Assign, acc.dtype(), {acc, value}); }
  UOp alu(Op op, UOp a, UOp b) {
    bool compares = op == Op::Cmplt || op == Op::Cmpne;
    return add(op, compares ? DType(Scalar::Bool) : a.dtype(), {a, b});
  }

  LinearProgram linear() const { return {uops_}; }
  Program program(std::string_view target, std::string name = "kernel") const {
    return render(std::move(name), linear(), find_target(target));
  }

 private:
  std::shared_ptr<Graph> graph_ = std::make_shared<Graph>();
  std::vector<UOp> uops_;
  int accumulators_ = 0;
};

inline const std::vector<Scalar>& value_scalars() {
  static const std::vector<Scalar> all = {
      Scalar::Bool,  Scalar::Int8,   Scalar::UInt8, Scalar::Int16,    Scalar::UInt16, Scalar::Int32, Scalar::UInt32,
      Scalar::Int64, Scalar::UInt64, Scalar::Half,  Scalar::BFloat16, Scalar::Float,  Scalar::Double};
  return all;
}

/// Values of a dtype at which operations go wrong.
inline std::vector<ConstBits> edge_values(Scalar s) {
  std::vector<ConstBits> values;
  if (s == Scalar::Bool) return {{0}, {1}};
  if (scalar_bit(s) & kFloats) {
    const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
    for (double v : {0.0,
                     -0.0,
                     1.0,
                     -1.5,
                     2.5,
                     0.1,
                     -3.999,
                     255.0,
                     300.7,
                     -128.5,
                     32768.0,
                     65504.0,
                     65519.0,
                     -65520.0,
                     2147483648.0,
                     -2147483649.0,
                     4294967296.5,
                     9007199254740993.0,
                     9223372036854775808.0,
                     -9223372036854775808.0,
                     1.3e19,
                     1.9e19,
                     3.4e38,
                     -1e300,
                     6e-8,
                     1e-40,
                     -1e-310,
                     1.0009765625,
                     1.00048828126,
                     1.00390625,
                     1.001953126,
                     inf,
                     -inf,
                     nan})
      values.push_back(const_of_float(s, v));
    return values;
  }
  const Int128 tie = (Int128{1} << 60) + (Int128{1} << 52);  // between two bfloat16s
  for (Int128 v :
       {Int128{0},    Int128{1},        Int128{2},        Int128{-1},       Int128{-2},  Int128{7},    Int128{-7},
        Int128{31},   Int128{32},       Int128{63},       Int128{64},       Int128{100}, min_value(s), min_value(s) + 1,
        max_value(s), max_value(s) - 1, max_value(s) / 3, Int128{16777217}, tie + 1,     -tie - 1,     tie})
    if (ConstBits c = const_of_int(s, v); std::find(values.begin(), values.end(), c) == values.end())
      values.push_back(c);
  return values;
}

}  // namespace quern::test
