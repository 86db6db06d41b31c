#include <bit>
#include <cmath>

#include "symbolic/rules.h"

namespace quern {

namespace {

constexpr int kMaxDepth = 6;

bool is_negative_zero(UOp x) { return x.is_const() && std::bit_cast<uint64_t>(x.const_float()) == uint64_t{1} << 63; }

/// True if `x` is never -0.0: then adding 0.0 does not change it. (A sum is -0.0 only if both sides are.)
bool never_negative_zero(UOp x, int depth = 0) {
  if (depth > kMaxDepth) return false;
  auto side = [&](size_t i) { return never_negative_zero(x.src(i), depth + 1); };
  switch (x.op()) {
    case Op::Const: return x.const_float() >= 0 && !std::signbit(x.const_float());
    case Op::Cast: return x.src(0).dtype().is_in(kMachineInts | kBoolOnly);
    case Op::Add: return side(0) || side(1);
    case Op::Max:
    case Op::Sqrt: return x.num_src() == 1 ? side(0) : side(0) && side(1);
    case Op::Exp2: return true;
    case Op::Where: return side(1) && side(2);
    default: return false;
  }
}

}  // namespace

std::vector<Rule> float_rules() {
  const Pat x = pat::var("x", kFloats), c = pat::scalar_const("c", kFloats);
  return {
      {"add negative zero", x + c, x,
       fn("is_negative_zero(c)", [](const Match& m) { return is_negative_zero(m["c"]); })},
      {"add zero to no negative zero", x + 0, x,
       fn("never_negative_zero(x)", [](const Match& m) { return never_negative_zero(m["x"]); })},
  };
}

}  // namespace quern
