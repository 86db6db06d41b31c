#include "expressions.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ir/text.h"

namespace quern::testing {

namespace {

constexpr ScalarSet kTypes = kAnyScalar & ~(scalar_bit(Scalar::Void));
constexpr Int128 kLimit = Int128{1} << 120;

bool is_real(Scalar t) { return (scalar_bit(t) & kFloats) != 0; }

Value from_bits(Scalar type, ConstBits bits) {
  if (is_real(type)) return {0, round_to(type, std::bit_cast<double>(bits.bits))};
  if (type == Scalar::UInt64) return {Int128{bits.bits}, 0};
  return {Int128{static_cast<int64_t>(bits.bits)}, 0};
}

ConstBits to_bits(Scalar type, Value v) {
  if (is_real(type)) return {std::bit_cast<uint64_t>(v.real)};
  return {static_cast<uint64_t>(v.number)};
}

std::optional<Int128> index_alu(Op op, const Value* v) {
  Int128 a = v[0].number, b = v[1].number;
  auto small = [](Int128 x) { return x > -(Int128{1} << 60) && x < (Int128{1} << 60); };
  switch (op) {
    case Op::Add: return a + b;
    case Op::Mul:
      if (!small(a) || !small(b)) return a == 0 || b == 0 ? std::optional<Int128>(0) : std::nullopt;
      return a * b;
    case Op::Idiv: return b == 0 ? std::nullopt : std::optional(floor_div(a, b));
    case Op::Mod: return b == 0 ? std::nullopt : std::optional(floor_mod(a, b));
    case Op::Max: return std::max(a, b);
    case Op::Cmplt: return a < b;
    case Op::Cmpne: return a != b;
    case Op::Where: return a ? b : v[2].number;
    default: return std::nullopt;
  }
}

std::optional<Value> compute(UOp u, const std::vector<Value>& args) {
  Scalar type = u.dtype().scalar;
  Scalar from = u.num_src() ? u.src(u.num_src() - 1).dtype().scalar : type;
  if (u.is(Op::Cast)) {
    if (from == Scalar::Index || type == Scalar::Index) {
      if (is_real(type) || is_real(from)) return std::nullopt;
      return Value{wrap(type, args[0].number), 0};
    }
    return from_bits(type, eval_cast(from, type, to_bits(from, args[0])));
  }
  if (from == Scalar::Index) {
    Value padded[3];
    std::copy(args.begin(), args.end(), padded);
    std::optional<Int128> n = index_alu(u.op(), padded);
    if (!n || *n > kLimit || *n < -kLimit) return std::nullopt;
    return Value{*n, 0};
  }
  std::vector<ConstBits> bits;
  for (size_t i = 0; i < args.size(); ++i) bits.push_back(to_bits(u.src(i).dtype().scalar, args[i]));
  bool compares = u.is(OpSet{Op::Cmplt, Op::Cmpne});
  return from_bits(type, eval_alu(u.op(), compares || u.is(Op::Where) ? from : type, bits));
}

}  // namespace

std::optional<std::map<uint32_t, Value>> evaluate(UOp root, const Environment& variables) {
  std::map<uint32_t, Value> values;
  for (UOp u : toposort(root)) {
    if (u.is_const()) {
      values[u.id()] = from_bits(u.dtype().scalar, std::get<ConstBits>(u.arg()));
    } else if (u.is(Op::DefineVar)) {
      values[u.id()] = variables.at(u.id());
    } else {
      std::vector<Value> args;
      for (UOp s : u.src()) args.push_back(values.at(s.id()));
      std::optional<Value> v = compute(u, args);
      if (!v) return std::nullopt;
      values[u.id()] = *v;
    }
  }
  return values;
}

bool same_value(Scalar type, Value a, Value b) {
  if (!is_real(type)) return a.number == b.number;
  if (std::isnan(a.real) || std::isnan(b.real)) return std::isnan(a.real) && std::isnan(b.real);
  return std::bit_cast<uint64_t>(a.real) == std::bit_cast<uint64_t>(b.real);
}

std::string show(Scalar type, Value v) { return is_real(type) ? std::to_string(v.real) : to_string(v.number); }

bool within_bounds(UOp u, Value v) {
  return u.dtype().is_float() ||
         ((u.vmin() <= -kUnbounded || u.vmin() <= v.number) && (u.vmax() >= kUnbounded || v.number <= u.vmax()));
}

std::string show(UOp x) { return print(x); }

Scalar Maker::any_type(ScalarSet allowed) {
  std::vector<Scalar> types;
  for (int i = 0; i < kNumScalars; ++i)
    if (scalar_bit(static_cast<Scalar>(i)) & allowed & kTypes) types.push_back(static_cast<Scalar>(i));
  // Half of all cases are about index arithmetic or int32.
  if ((allowed & kIndexOnly) && chance(35)) return Scalar::Index;
  if ((allowed & scalar_bit(Scalar::Int32)) && chance(20)) return Scalar::Int32;
  return types[static_cast<size_t>(below(static_cast<int>(types.size())))];
}

Int128 Maker::number(Scalar type) {
  Int128 low = type == Scalar::Index ? Int128{INT64_MIN} : min_value(type);
  Int128 high = type == Scalar::Index ? Int128{INT64_MAX} : max_value(type);
  Int128 n = 0;
  switch (below(10)) {
    case 0: n = low + below(3); break;
    case 1: n = high - below(3); break;
    case 2: n = (Int128{1} << below(64)) + below(3) - 1; break;
    case 3: n = -(Int128{1} << below(64)) + below(3) - 1; break;
    case 4:
    case 5: n = below(65) - 32; break;
    default: n = below(13) - 3; break;
  }
  return n < low || n > high ? wrap(type == Scalar::Index ? Scalar::Int64 : type, n) : n;
}

UOp Maker::constant(Scalar type) {
  if (!is_real(type)) return graph_.const_int(type, number(type));
  static constexpr double kReals[] = {0.0,      -0.0,      1.0, -1.0, 2.0,  0.5,  3.25,
                                      INFINITY, -INFINITY, NAN, 1e30, -7.5, 1e-42};
  return graph_.const_float(type, kReals[below(13)]);
}

UOp Maker::variable(Scalar type) {
  std::string name = "v" + std::to_string(below(3)) + "_" + std::to_string(static_cast<int>(type));
  if (is_real(type)) return graph_.variable(name, 0, 0, type);
  if (type == Scalar::Bool) return graph_.variable(name, 0, 1, type);
  Int128 limit_low = std::max(min_value(type), Int128{INT64_MIN}),
         limit_high = std::min(max_value(type), Int128{INT64_MAX});
  Int128 a = 0, b = 0;
  if (chance(60)) {
    a = chance(60) ? 0 : below(40) - 20;
    b = a + below(chance(50) ? 4 : 64);
  } else {
    a = number(type);
    b = number(type);
  }
  a = std::clamp(a, limit_low, limit_high);
  b = std::clamp(b, limit_low, limit_high);
  if (type != Scalar::Index && chance(15)) a = limit_low, b = limit_high;
  if (a > b) std::swap(a, b);
  name += "_" + to_string(a) + "_" + to_string(b);
  return graph_.variable(name, static_cast<int64_t>(a), static_cast<int64_t>(b), type);
}

UOp Maker::sum_of_products(int terms) {
  UOp sum;
  for (int i = 0; i < terms; ++i) {
    UOp x = variable(Scalar::Index);
    UOp term = chance(20)   ? graph_.const_index(below(60) - 20)
               : chance(70) ? x * (below(25) - (chance(20) ? 12 : 0))
                            : x;
    if (chance(10)) term = term.mod(x.const_like(below(20) + 1));
    if (chance(10)) term = term.idiv(x.const_like(below(20) + 1));
    sum = sum ? sum + term : term;
  }
  return sum;
}

UOp Maker::operation(Op op, Scalar type, int size) {
  int half = size / 2;
  switch (op) {
    case Op::Cmplt:
    case Op::Cmpne: {
      Scalar t = any_type(kTypes);
      return expression(t, half).alu(op, expression(t, half));
    }
    case Op::Where:
      return expression(Scalar::Bool, size / 3).where(expression(type, size / 3), expression(type, size / 3));
    case Op::Cast: {
      ScalarSet from = type == Scalar::Index ? kAllInts | kBoolOnly : is_real(type) ? kTypes & ~kIndexOnly : kTypes;
      if (scalar_bit(type) & kMachineInts) from = kTypes & ~kFloats;
      UOp x = expression(any_type(from), size - 1);
      return graph_.node(Op::Cast, type, {x});
    }
    case Op::Mulacc: return graph_.node(op, type, {expression(type, 0), expression(type, 0), expression(type, half)});
    case Op::Shl:
    case Op::Shr:
      return expression(type, half)
          .alu(op, chance(80) ? graph_.const_int(type, below(bytes_of(type) * 8 + 2)) : expression(type, 0));
    default:
      if (kUnaryOps.contains(op)) return expression(type, size - 1).alu(op);
      return expression(type, half).alu(op, chance(55) && is_commutative(op) ? expression(type, half) : constant(type));
  }
}

UOp Maker::expression(Scalar type, int size) {
  if (size <= 0) return chance(75) ? variable(type) : constant(type);
  if (type == Scalar::Index) {
    if (chance(25)) return sum_of_products(2 + below(3));
    static constexpr Op kOps[] = {Op::Add, Op::Add, Op::Add, Op::Mul,   Op::Idiv, Op::Idiv,
                                  Op::Mod, Op::Mod, Op::Max, Op::Where, Op::Cast};
    return operation(kOps[below(11)], type, size);
  }
  if (type == Scalar::Bool) {
    static constexpr Op kOps[] = {Op::And, Op::Or,  Op::Cmplt, Op::Cmplt, Op::Cmpne, Op::Cmpne,
                                  Op::Add, Op::Mul, Op::Max,   Op::Where, Op::Cast};
    return operation(kOps[below(11)], type, size);
  }
  if (is_real(type)) {
    static constexpr Op kOps[] = {Op::Add, Op::Mul, Op::Max, Op::Where, Op::Cast, Op::Exp2, Op::Sqrt};
    return operation(kOps[below(7)], type, size);
  }
  static constexpr Op kOps[] = {Op::Add, Op::Add, Op::Mul, Op::Mul, Op::Idiv,  Op::Mod,  Op::Max, Op::And,
                                Op::Or,  Op::Xor, Op::Shl, Op::Shr, Op::Where, Op::Cast, Op::Cast};
  return operation(kOps[below(15)], type, size);
}

UOp Maker::free_node(const PatNode& p, Scalar type) {
  if (p.ops == OpSet::all() || p.ops.contains_all(OpSet::all() - OpSet{Op::Const, Op::Vconst}))
    return expression(type, below(3) ? 0 : 4);
  std::vector<Op> ops;
  for (int i = 0; i < kNumOps; ++i)
    if (Op op = static_cast<Op>(i);
        p.ops.contains(op) && op != Op::Threefry && op != Op::Sub && op != Op::Fdiv && op != Op::Neg)
      ops.push_back(op);
  Op op = ops[static_cast<size_t>(below(static_cast<int>(ops.size())))];
  if (op == Op::Const || op == Op::Vconst) return constant(type);
  bool real_only = kUnaryOps.contains(op);
  bool int_only = OpSet{Op::Idiv, Op::Mod, Op::Shl, Op::Shr, Op::And, Op::Or, Op::Xor}.contains(op);
  bool logic = OpSet{Op::And, Op::Or, Op::Xor}.contains(op) && type == Scalar::Bool;
  if ((real_only && !is_real(type)) || (int_only && !logic && !(scalar_bit(type) & kAllInts))) return UOp();
  if ((op == Op::Cmplt || op == Op::Cmpne) && type != Scalar::Bool) return UOp();
  if (type == Scalar::Index && (OpSet{Op::Shl, Op::Shr, Op::Mulacc}.contains(op))) return UOp();
  return operation(op, type, 3);
}

UOp Maker::instance(const Pat& pattern, Scalar type) {
  const PatNode& p = pattern.node();
  if (!p.name.empty())
    if (auto known = bound_.find(p.name); known != bound_.end()) return known->second;
  if (!(p.scalars & scalar_bit(type))) return UOp();
  UOp made;
  if (p.literal) {
    made = graph_.const_int(type, p.literal->node()->number);
  } else if (p.src.empty()) {
    made = free_node(p, type);
  } else {
    std::vector<Op> ops;
    for (int i = 0; i < kNumOps; ++i)
      if (p.ops.contains(static_cast<Op>(i))) ops.push_back(static_cast<Op>(i));
    Op op = ops[static_cast<size_t>(below(static_cast<int>(ops.size())))];
    bool compares = op == Op::Cmplt || op == Op::Cmpne;
    if (compares && type != Scalar::Bool) return UOp();
    size_t n = p.sources == PatNode::Sources::All ? static_cast<size_t>(info(op).arity) : p.src.size();
    Scalar operand = compares || op == Op::Cast ? any_type(op == Op::Cast ? p.src[0].node().scalars : kTypes) : type;
    if (kUnaryOps.contains(op) && !is_real(type)) return UOp();
    std::vector<UOp> src;
    for (size_t i = 0; i < n; ++i) {
      UOp s = instance(p.sources == PatNode::Sources::All ? p.src[0] : p.src[i],
                       op == Op::Where && i == 0 ? Scalar::Bool : operand);
      if (!s) return UOp();
      src.push_back(s);
    }
    // Names bound on the way may have fixed another type.
    for (size_t i = op == Op::Where ? 1 : 0; i < n; ++i)
      if (src[i].dtype() != src[n - 1].dtype()) return UOp();
    if (!compares && op != Op::Cast && src[n - 1].dtype().scalar != type) return UOp();
    if (is_real(type) && OpSet{Op::Idiv, Op::Mod, Op::And, Op::Or, Op::Xor, Op::Shl, Op::Shr}.contains(op))
      return UOp();
    if (op == Op::Cast && ((is_real(type) && operand == Scalar::Index) || (type == Scalar::Index && is_real(operand))))
      return UOp();
    if (op == Op::Threefry || op == Op::Fdiv || op == Op::Sub) return UOp();
    if (!p.ordered && is_commutative(op) && n == 2 && chance(50)) std::swap(src[0], src[1]);
    made = graph_.node(op, type, src);
  }
  if (made && !p.name.empty()) bound_[p.name] = made;
  return made;
}

Environment Maker::values(std::initializer_list<UOp> roots) {
  Environment env;
  for (UOp root : roots)
    for (UOp u : toposort(root)) {
      if (!u.is(Op::DefineVar)) continue;
      Scalar t = u.dtype().scalar;
      if (is_real(t)) {
        static constexpr double kReals[] = {0.0,      -0.0,      1.0, -1.0, 0.1,  3.0,
                                            INFINITY, -INFINITY, NAN, 1e38, -2e4, 1e-40};
        env[u.id()] = {0, round_to(t, kReals[below(12)])};
        continue;
      }
      Int128 low = u.vmin(), high = u.vmax(), span = high - low + 1;
      Int128 v = low;
      switch (below(5)) {
        case 0: break;
        case 1: v = high; break;
        case 2: v = low + std::min<Int128>(span - 1, below(20)); break;
        case 3: v = high - std::min<Int128>(span - 1, below(20)); break;
        default: v = low + static_cast<Int128>(random_()) % span; break;
      }
      env[u.id()] = {v, 0};
    }
  return env;
}

}  // namespace quern::testing
