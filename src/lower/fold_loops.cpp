#include "lower/fold_loops.h"

#include <algorithm>

#include "lower/loop_collapse.h"
#include "lower/threefry.h"

namespace quern {

namespace {

constexpr int64_t kWord = int64_t{1} << 32;
constexpr ScalarSet kUlong = scalar_bit(Scalar::UInt64);
constexpr ScalarSet kUint = scalar_bit(Scalar::UInt32);

bool is_zero_vector(UOp u) {
  if (u.is(Op::Vectorize)) return std::all_of(u.src().begin(), u.src().end(), is_zero_vector);
  return u.is_const() && (u.dtype().is_float() ? u.const_float() == 0 : u.const_int() == 0);
}

UOp initial_value(const Match& m) { return m["x"].src(0); }
UOp collapse(const Match& m) { return collapse_reduction(m.root()); }
UOp threefry(const Match& m) { return expand_threefry(m["x"], m["y"]); }

/// Lanes of what is known lane by lane.
UOp simplify_gep(const Match& m) {
  const Lanes& lanes = *std::get<const Lanes*>(m.root().arg());
  UOp x = m["x"];
  if (x.is(Op::Gep)) {
    Lanes through;
    for (int32_t lane : lanes) through.push_back((*std::get<const Lanes*>(x.arg()))[static_cast<size_t>(lane)]);
    return x.src(0).gep(through);
  }
  std::vector<UOp> taken;
  for (int32_t lane : lanes) taken.push_back(x.gep(lane));
  return taken.size() == 1 ? taken[0] : m.graph().vectorize(taken);
}

/// All lanes of one vector, in order: the vector.
UOp simplify_vectorize(const Match& m) {
  auto each = m.root().src();
  if (each.size() == 1) return each[0];
  if (!each[0].is(Op::Gep)) return UOp();
  UOp vector = each[0].src(0);
  if (vector.dtype() != m.root().dtype()) return UOp();
  for (size_t i = 0; i < each.size(); ++i) {
    if (!each[i].is(Op::Gep) || each[i].src(0) != vector) return UOp();
    if (*std::get<const Lanes*>(each[i].arg()) != Lanes{static_cast<int32_t>(i)}) return UOp();
  }
  return vector;
}

/// Zero times anything, of ints: with floats, infinity and NaN would be lost.
UOp zero_product(const Match& m) {
  if (m.root().dtype().is_float() || !(is_zero_vector(m["a"]) || is_zero_vector(m["b"]))) return UOp();
  return m["acc"];
}

UOp accumulate_in_wmma(const Match& m) {
  UOp product = m["product"];
  return product.with_src(std::vector<UOp>{product.src(0), product.src(1), product.src(2) + m["x"]});
}

UOp masked_word(const Match& m) {
  UOp word = m["x"].cast(Scalar::UInt32);
  return m["y"].where(word, word.const_like(0));
}
UOp masked_high_word(const Match& m) {
  UOp word = m["y"].where(m["x"], m["x"].const_like(0));
  return word.cast(Scalar::UInt64) * kWord;
}

}  // namespace

const RuleSet& loop_folding_rules() {
  using namespace pat;
  static const RuleSet rules = [] {
    const Pat x = var("x"), y = var("y"), gate = var("y", kBoolOnly);
    const Pat word = var("x", kUint), other_word = var("y", kUint), wide = var("x", kUlong),
              other_wide = var("y", kUlong);
    const Pat acc = op_any({Op::DefineAcc});
    const Pat low_mask = lit(Guard(kWord - 1)), high_one = lit(Guard(kWord));
    auto to_uint = [](Pat p) { return cast(std::move(p)).of(kUint); };
    auto to_ulong = [](Pat p) { return cast(std::move(p)).of(kUlong); };
    return RuleSet(
        "loop folding",
        {
            {"collapse reduction", op(Op::Assign, {acc, op_any({Op::Add, Op::Max})}), with(collapse)},
            {"nothing to reduce", op(Op::Assign, {acc.named("x"), acc.named("x")}), with(initial_value)},
            {"expand threefry", op(Op::Threefry, {wide, other_wide}), with(threefry)},

            // 64-bit words that only carry 32-bit ones.
            {"uint there and back", to_uint(to_ulong(word)), x},
            {"low word of a mask", to_uint(wide & low_mask), cast(x)},
            {"low word of a pair", to_uint((other_wide * high_one) | to_ulong(word)), x},
            {"high word of a pair", idiv((wide * high_one) | to_ulong(other_word), high_one), x, vmax("x") < kWord},
            {"masked high word", to_ulong(word) * where(gate, high_one, lit(0)).of(kUlong), with(masked_high_word)},
            {"masked low word", to_uint(wide & where(gate, low_mask, lit(0))), with(masked_word)},

            // A bool as a number and back.
            {"bool there and back", ne(cast(var("x", kBoolOnly)), 0), x},

            // Vectors.
            {"lanes of lanes", op(Op::Gep, {op_any({Op::Gep, Op::Vectorize, Op::Const, Op::Vconst}).named("x")}),
             with(simplify_gep)},
            {"all lanes", op_any({Op::Vectorize}), with(simplify_vectorize)},
            {"zero product", op(Op::Wmma, {var("a"), var("b"), var("acc")}), with(zero_product)},
            {"accumulate in the product", x + op_any({Op::Wmma}).named("product"), with(accumulate_in_wmma)},
        });
  }();
  return rules;
}

}  // namespace quern
