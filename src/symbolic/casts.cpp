#include "symbolic/rules.h"
#include "symbolic/terms.h"

namespace quern {

namespace {

constexpr ScalarSet kExact = kAllInts | kBoolOnly;

/// A cast of a cast, where the first loses nothing that the second would keep.
UOp merge_casts(const Match& m) {
  UOp inner = m["inner"], x = inner.src(0);
  if (inner.dtype().is_ptr() || x.dtype().is_ptr() || m.root().dtype().is_ptr() || !x.dtype().is_in(kExact))
    return UOp();
  DType to = m.root().dtype();
  bool keeps = inner.dtype().is_bool() ? x.dtype().is_bool() : fits(x, inner.dtype().scalar);
  // Wrapping to more bits first does not change the bits that are left in the end.
  bool narrows =
      to.is_in(kMachineInts) && inner.dtype().is_in(kMachineInts) && to.itemsize() <= inner.dtype().itemsize();
  if (!keeps && !narrows) return UOp();
  if (x.dtype().is_index() && to.is_float()) return UOp();  // index values have no size to convert from
  return x.cast(to);
}

/// op(CAST(i), CAST(j)) of index values that fit the type is CAST(op(i, j)) where the result fits, too.
UOp cast_outward(UOp root, UOp a, UOp b) {
  UOp made = root.graph().node(root.op(), a.dtype(), {a, b});
  return fits(made, root.dtype().scalar) ? made.cast(root.dtype()) : UOp();
}

UOp with_constant(const Match& m) {
  UOp i = m["i"], c = constant_like(i, m["c"].const_int());
  return c ? cast_outward(m.root(), i, c) : UOp();
}

}  // namespace

std::vector<Rule> cast_rules() {
  const Pat b = pat::var("b", kBoolOnly);
  return {
      {"cast to the same", pat::op(Op::Cast, {pat::var("x")}),
       with([](const Match& m) { return m["x"].dtype() == m.root().dtype() ? m["x"] : UOp(); })},
      {"cast twice", pat::op(Op::Cast, {pat::op_any({Op::Cast}).of(kExact).named("inner")}), with(merge_casts)},
      {"bool as int is not zero", pat::ne(pat::cast(b).of(kAllInts), 0), b},
      {"bool as int is not one", pat::ne(pat::cast(b).of(kAllInts), 1), pat::logical_not(b)},
  };
}

std::vector<Rule> index_cast_rules() {
  const Pat i = pat::var("i", kIndexOnly), j = pat::var("j", kIndexOnly), c = pat::scalar_const("c");
  const Pat a = pat::cast(i).of(kMachineInts).named("a"), b = pat::cast(j).of(kMachineInts).named("b");
  const Pat data = pat::op_any(OpSet::all() - OpSet{Op::Const, Op::Vconst}).of(kMachineInts).named("data");
  const OpSet ring = {Op::Add, Op::Mul, Op::Max};
  const Guard fit = in_range("a"), both_fit = in_range("a") && in_range("b");
  auto both = [](const Match& m) { return cast_outward(m.root(), m["i"], m["j"]); };
  auto as_index = [](const Match& m) { return m["data"].cast(m["i"].dtype()); };
  return {
      {"cast of index with constant", pat::op(ring, {a, c}), with(with_constant), fit},
      {"cast of indices", pat::op(ring, {a, b}), with(both), both_fit},
      {"divide cast of index", pat::op(OpSet{Op::Idiv, Op::Mod}, {a, c}), with(with_constant),
       fit && vmin("i") >= 0 && val("c") > 0},
      {"cast of index less than constant", pat::lt(a, c), pat::lt(i, pat::lit(val("c"))), fit},
      {"constant less than cast of index", pat::lt(c, a), pat::lt(pat::lit(val("c")), i), fit},
      {"cast of index differs from constant", pat::ne(a, c), pat::ne(i, pat::lit(val("c"))), fit},
      {"compare casts of indices", pat::lt(a, b), pat::lt(i, j), both_fit},
      {"casts of indices differ", pat::ne(a, b), pat::ne(i, j), both_fit},
      {"data less than cast of index", pat::lt(data, a), with([=](const Match& m) { return as_index(m).lt(m["i"]); }),
       fit},
      {"cast of index less than data", pat::lt(a, data), with([=](const Match& m) { return m["i"].lt(as_index(m)); }),
       fit},
      {"cast of index differs from data", pat::ne(a, data),
       with([=](const Match& m) { return m["i"].ne(as_index(m)); }), fit},
  };
}

}  // namespace quern
