#pragma once
#include <cmath>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ir/eval.h"
#include "ir/graph.h"
#include "ir/node_map.h"

namespace quern {

/// The value of a graph of one-lane nodes for given values of its leaves: ALU ops, casts, loads from arrays, and reductions over
/// RANGEs, carried out. Every load that is not gated off has to be inside of its array.
class Evaluator {
 public:
  void set(UOp leaf, ConstBits value) { leaves_[leaf.id()] = value; }
  void set_int(UOp leaf, Int128 value) { set(leaf, const_of_int(leaf.dtype().scalar, value)); }
  void set_float(UOp leaf, double value) { set(leaf, const_of_float(leaf.dtype().scalar, value)); }
  void set_array(int64_t number, std::vector<ConstBits> values) { arrays_[number] = std::move(values); }

  ConstBits operator()(UOp root) {
    known_ = leaves_;
    return value(root);
  }
  int loads() const { return loads_; }

 private:
  using Known = std::map<uint32_t, ConstBits>;

  ConstBits value(UOp u) {
    if (auto at = known_.find(u.id()); at != known_.end()) return at->second;
    ConstBits v = compute(u);
    known_[u.id()] = v;
    return v;
  }

  ConstBits compute(UOp u) {
    const Scalar type = u.dtype().scalar;
    switch (u.op()) {
      case Op::Const:
        return u.dtype().is_float() ? const_of_float(type, u.const_float()) : std::get<ConstBits>(u.arg());
      case Op::Cast: return eval_cast(u.src(0).dtype().scalar, type, value(u.src(0)));
      case Op::Bitcast: return eval_bitcast(u.src(0).dtype().scalar, type, value(u.src(0)));
      case Op::Load: return load(u);
      case Op::Assign: return reduce(u);
      case Op::DefineAcc: return value(u.src(0));
      default: break;
    }
    if (!u.is(kAluOps)) throw std::runtime_error("no value for " + std::string(to_string(u.op())));
    if (u.is(Op::Where)) return value(value(u.src(0)).bits ? u.src(1) : u.src(2));
    std::vector<ConstBits> args;
    for (UOp s : u.src()) args.push_back(value(s));
    const bool compares = u.is({Op::Cmplt, Op::Cmpne});
    return eval_alu(u.op(), compares ? u.src(0).dtype().scalar : type, args);
  }

  ConstBits load(UOp u) {
    UOp index = u.src(0);
    if (index.num_src() > 2 && value(index.src(2)).bits == 0) return const_of_int(u.dtype().scalar, 0);
    const auto& array = arrays_.at(std::get<int64_t>(index.src(0).arg()));
    ++loads_;
    Int128 at = int_of_const(index.src(1).dtype().scalar, value(index.src(1)));
    if (at < 0 || at >= static_cast<Int128>(array.size())) throw std::runtime_error("wild load at " + to_string(at));
    return array[static_cast<size_t>(at)];
  }

  ConstBits reduce(UOp assign) {
    UOp acc = assign.src(0);
    const Known outside = known_;
    ConstBits total = value(acc.src(0));
    std::vector<UOp> ranges(acc.src().begin() + 1, acc.src().end());
    std::vector<Int128> at, start, end;
    auto bound = [&](UOp u) { return int_of_const(u.dtype().scalar, value(u)); };
    for (UOp r : ranges) {
      start.push_back(bound(r.src(0)));
      end.push_back(bound(r.src(1)));
      if (start.back() >= end.back()) return total;
    }
    at = start;
    for (;;) {
      known_ = outside;
      for (size_t i = 0; i < ranges.size(); ++i) known_[ranges[i].id()] = const_of_int(ranges[i].dtype().scalar, at[i]);
      known_[acc.id()] = total;
      total = value(assign.src(1));
      size_t i = ranges.size();
      while (i > 0 && ++at[i - 1] >= end[i - 1]) --i, at[i] = start[i];
      if (i == 0) break;
    }
    known_ = outside;
    return total;
  }

  Known leaves_, known_;
  std::map<int64_t, std::vector<ConstBits>> arrays_;
  int loads_ = 0;
};

/// A graph of one variable, flattened to be evaluated many times.
class Formula {
 public:
  Formula(UOp root, UOp variable) {
    NodeMap<uint32_t> place;
    for (UOp u : toposort(root)) {
      place[u] = static_cast<uint32_t>(steps_.size());
      Step s{u.op(), u.dtype().scalar, u.dtype().scalar, {}, 0};
      for (UOp x : u.src()) s.args[s.count++] = place.get(x);
      if (u.is({Op::Cast, Op::Bitcast, Op::Cmplt, Op::Cmpne})) s.from = u.src(0).dtype().scalar;
      values_.push_back(u.is_const() ? std::get<ConstBits>(u.arg()) : ConstBits{});
      if (u == variable) variable_ = steps_.size();
      steps_.push_back(s);
    }
    for (size_t i = 0; i < steps_.size(); ++i)
      if (steps_[i].op == Op::Const && (scalar_bit(steps_[i].type) & kFloats))
        values_[i] = const_of_float(steps_[i].type, float_of_const(values_[i]));
  }

  ConstBits operator()(ConstBits x) {
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Step& s = steps_[i];
      if (i == variable_)
        values_[i] = x;
      else if (s.op == Op::Const)
        continue;
      else if (s.op == Op::Cast)
        values_[i] = eval_cast(s.from, s.type, values_[s.args[0]]);
      else if (s.op == Op::Bitcast)
        values_[i] = eval_bitcast(s.from, s.type, values_[s.args[0]]);
      else {
        ConstBits args[3];
        for (int k = 0; k < s.count; ++k) args[k] = values_[s.args[k]];
        values_[i] = eval_alu(s.op, s.from, {args, static_cast<size_t>(s.count)});
      }
    }
    return values_.back();
  }

 private:
  struct Step {
    Op op;
    Scalar type, from;
    uint32_t args[3];
    int count;
  };
  std::vector<Step> steps_;
  std::vector<ConstBits> values_;
  size_t variable_ = ~size_t{0};
};

}  // namespace quern
