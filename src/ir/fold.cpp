#include "ir/fold.h"

#include <array>
#include <bit>

#include "ir/eval.h"

namespace quern {

namespace {

constexpr size_t kMaxArgs = 3;

ConstBits lane_of(UOp constant, size_t lane) {
  if (constant.is_const()) return std::get<ConstBits>(constant.arg());
  return (*std::get<const ConstVector*>(constant.arg()))[lane];
}

/// The bits as evaluation wants them: a float constant means its double rounded to the type.
ConstBits value_of(Scalar type, ConstBits bits) {
  return (scalar_bit(type) & kFloats) ? const_of_float(type, float_of_const(bits)) : bits;
}

std::optional<ConstBits> index_bits(std::optional<Int128> value) {
  if (!value || !fits_const(*value)) return std::nullopt;
  return ConstBits{static_cast<uint64_t>(*value)};
}

std::optional<ConstBits> fold_alu(Op op, Scalar type, std::span<const ConstBits> args) {
  if (type != Scalar::Index) return eval_alu(op, type, args);
  std::array<Int128, kMaxArgs> values{};
  for (size_t i = 0; i < args.size(); ++i) values[i] = Int128{static_cast<int64_t>(args[i].bits)};
  return index_bits(eval_index(op, std::span(values).first(args.size())));
}

std::optional<ConstBits> fold_cast(Scalar from, Scalar to, ConstBits value) {
  bool to_index = to == Scalar::Index, from_index = from == Scalar::Index;
  if (!to_index && !from_index) return eval_cast(from, to, value);
  if (scalar_bit(to_index ? from : to) & kFloats) return std::nullopt;
  Int128 number = from == Scalar::UInt64 ? Int128{value.bits} : Int128{static_cast<int64_t>(value.bits)};
  if (to_index) return index_bits(number);
  return ConstBits{static_cast<uint64_t>(wrap(to, number))};
}

}  // namespace

std::optional<Int128> eval_index(Op op, std::span<const Int128> v) {
  auto nonzero = [&](auto&& divide) -> std::optional<Int128> {
    if (v[1] == 0) return std::nullopt;
    return divide(v[0], v[1]);
  };
  switch (op) {
    case Op::Neg: return -v[0];
    case Op::Add: return v[0] + v[1];
    case Op::Sub: return v[0] - v[1];
    case Op::Mul: return v[0] * v[1];
    case Op::Max: return std::max(v[0], v[1]);
    case Op::Idiv: return nonzero([](Int128 a, Int128 b) { return floor_div(a, b); });
    case Op::Mod: return nonzero([](Int128 a, Int128 b) { return floor_mod(a, b); });
    case Op::Cmplt: return v[0] < v[1];
    case Op::Cmpne: return v[0] != v[1];
    case Op::And: return v[0] & v[1];
    case Op::Or: return v[0] | v[1];
    case Op::Xor: return v[0] ^ v[1];
    case Op::Where: return v[0] ? v[1] : v[2];
    case Op::Mulacc: return v[0] * v[1] + v[2];
    case Op::Shl:
      if (v[1] < 0 || v[1] > 62) return std::nullopt;
      return v[0] * (Int128{1} << static_cast<int>(v[1]));
    case Op::Shr:
      if (v[1] < 0) return std::nullopt;
      return v[0] >> static_cast<int>(std::min<Int128>(v[1], 127));
    default: return std::nullopt;
  }
}

UOp fold_constants(Graph& graph, Op op, DType dtype, std::span<const UOp> src) {
  constexpr OpSet kConstants = {Op::Const, Op::Vconst};
  bool cast = op == Op::Cast;
  if (src.empty() || src.size() > kMaxArgs || dtype.is_ptr() || !(cast || kAluOps.contains(op))) return UOp();
  bool uniform = true;
  for (UOp s : src) {
    if (!s.is(kConstants) || s.dtype().is_ptr()) return UOp();
    uniform &= s.is_const();
  }
  // The type that decides: of what is compared, chosen or converted; else of the result.
  Scalar type = cast                                 ? src[0].dtype().scalar
                : op == Op::Cmplt || op == Op::Cmpne ? src[0].dtype().scalar
                                                     : dtype.scalar;
  size_t lanes = uniform ? 1 : static_cast<size_t>(dtype.lanes());
  ConstVector values;
  std::array<ConstBits, kMaxArgs> args{};
  for (size_t lane = 0; lane < lanes; ++lane) {
    for (size_t i = 0; i < src.size(); ++i) args[i] = value_of(src[i].dtype().scalar, lane_of(src[i], lane));
    auto value = cast ? fold_cast(type, dtype.scalar, args[0]) : fold_alu(op, type, std::span(args).first(src.size()));
    if (!value) return UOp();
    if (uniform) return graph.const_bits(dtype, *value);
    values.push_back(*value);
  }
  return graph.const_vector(dtype, std::move(values));
}

}  // namespace quern
