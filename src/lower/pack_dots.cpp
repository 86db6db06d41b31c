// Sums of products of narrow numbers, which some CPUs have instructions for: of as many products at once as narrow numbers fit into a
// lane of the sum. The instruction is a WMMA of one thread, with a row of A for all lanes and a column of B for each.
#include <fmt/format.h>

#include "lower/vector_packer.h"

namespace quern {

namespace {

constexpr size_t kMostTerms = 64;
constexpr int kExcess = 128;  ///< by which int8's A is larger than it is, as the instruction takes it without sign

UOp filled(Graph& graph, DType type, int value) {
  return graph.constant(type.scalar_type(), value).broadcast(type.count);
}

/// x, where u is x in the type that products are summed in; else empty.
UOp narrow(UOp u, const DotProduct& dot) {
  UOp x;
  if (dot.in == Scalar::BFloat16) {  // legalized: its bits are the upper half of a float's
    if (!u.is(Op::Bitcast) || !u.src(0).is(Op::Shl)) return {};
    UOp bits = u.src(0).src(0), by = u.src(0).src(1);
    if (!by.is_const() || by.const_int() != 16 || !bits.is(Op::Cast) || !bits.src(0).is(Op::Bitcast)) return {};
    x = bits.src(0).src(0);
  } else if (u.is(Op::Cast)) {
    x = u.src(0);
  }
  return x && x.dtype() == DType(dot.in) && u.dtype() == DType(dot.out) ? x : UOp();
}

}  // namespace

bool VectorPacker::decide_dot(PackId id, const std::vector<UOp>& lanes) {
  for (const DotProduct& dot : target_.dots)
    if (decide_dot(id, lanes, dot)) return true;
  return false;
}

std::optional<VectorPacker::SumOfProducts> VectorPacker::sum_of_products(UOp sum, const DotProduct& dot) {
  SumOfProducts found;
  std::vector<UOp> terms{sum};
  for (size_t i = 0; i < terms.size(); ++i) {
    if (terms.size() > kMostTerms) return {};
    UOp u = terms[i];
    if (u.is(Op::Add)) {
      terms.insert(terms.end(), u.src().begin(), u.src().end());
      continue;
    }
    UOp a = u.is(Op::Mul) ? narrow(u.src(0), dot) : UOp(), b = a ? narrow(u.src(1), dot) : UOp();
    if (b && is_plain_access(a, Op::Load) && is_plain_access(b, Op::Load) && !gate_of(a) && !gate_of(b)) {
      found.products.push_back({a, b});
    } else {
      if (found.addend) return {};
      found.addend = u;
    }
  }
  const bool is_whole = !found.products.empty() && found.products.size() % static_cast<size_t>(dot.steps) == 0;
  return is_whole && found.addend ? std::optional(found) : std::nullopt;
}

/// In each product the load that all lanes have, and products in the order of those in memory. False if lanes do not share one each.
bool VectorPacker::put_shared_first(std::vector<SumOfProducts>& sums) {
  std::vector<UOp> second;
  for (const Product& p : sums[1].products) second.insert(second.end(), {p.shared, p.own});
  std::vector<UOp> shared;
  for (const Product& p : sums[0].products)
    for (UOp u : {p.shared, p.own})
      if (std::ranges::find(second, u) != second.end()) shared.push_back(u);
  auto is_shared = [&](UOp u) { return std::ranges::find(shared, u) != shared.end(); };
  auto order = [](const Product& p) { return whereabouts(p.shared); };
  for (SumOfProducts& sum : sums) {
    if (sum.products.size() != sums[0].products.size()) return false;
    for (Product& p : sum.products) {
      if (is_shared(p.shared) == is_shared(p.own)) return false;
      if (is_shared(p.own)) std::swap(p.shared, p.own);
    }
    std::ranges::sort(sum.products, {}, order);
    if (!std::ranges::equal(sum.products, sums[0].products, {}, order, order)) return false;
  }
  return true;
}

bool VectorPacker::decide_dot(PackId id, const std::vector<UOp>& lanes, const DotProduct& dot) {
  if (!packs_[id].first.is(Op::Add) || packs_[id].first.dtype() != DType(dot.out)) return false;
  std::vector<SumOfProducts> sums;
  for (UOp u : lanes) {
    std::optional<SumOfProducts> sum = u ? sum_of_products(u, dot) : std::nullopt;
    if (!sum) return false;
    sums.push_back(std::move(*sum));
  }
  if (!put_shared_first(sums)) return false;
  const auto steps = static_cast<size_t>(dot.steps);
  std::vector<std::vector<UOp>> operands;
  for (size_t start = 0; start < sums[0].products.size(); start += steps) {
    std::vector<UOp> shared, own;
    for (size_t i = start; i < start + steps; ++i) shared.push_back(sums[0].products[i].shared);
    for (const SumOfProducts& sum : sums)
      for (size_t i = start; i < start + steps; ++i) own.push_back(sum.products[i].own);
    // Gathered lane by lane they would cost more than they save.
    if (!is_woven(own, 1) && !is_woven(own, steps)) return false;
    operands.insert(operands.end(), {std::move(shared), std::move(own)});
  }
  std::vector<UOp> addends;
  for (const SumOfProducts& sum : sums) addends.push_back(sum.addend);
  std::vector<PackId> sources{want(std::move(addends))};
  for (std::vector<UOp>& o : operands) sources.push_back(want(std::move(o)));
  packs_[id].kind = Kind::Dot;
  packs_[id].dot = &dot;
  packs_[id].sources = std::move(sources);
  return true;
}

/// `sum` with the products of a Dot added: of int8 with too large an A. With `row`, that stands for A.
UOp VectorPacker::with_products(UOp sum, const Pack& p, UOp row) {
  const auto lanes = static_cast<int32_t>(p.lanes.size());
  const DotProduct& dot = *p.dot;
  const WmmaArg* instruction =
      graph_.intern(WmmaArg{fmt::format("WMMA_{}_1_{}_{}_{}", lanes, dot.steps, c_name(dot.in), c_name(dot.out)),
                            {lanes, 1, dot.steps},
                            dot.in,
                            dot.out,
                            target_.device,
                            1,
                            {},
                            {}});
  for (size_t i = 1; i < p.sources.size(); i += 2) {
    UOp a = row ? row : packs_[p.sources[i]].made;
    if (dot.in == Scalar::Int8 && !row) {
      const DType bits(Scalar::UInt8, a.dtype().count);
      a = graph_.node(Op::Bitcast, bits, {a}).alu(Op::Xor, filled(graph_, bits, kExcess));
    }
    sum = graph_.node(Op::Wmma, sum.dtype(), {a, packs_[p.sources[i + 1]].made, sum}, instruction);
  }
  return sum;
}

/// The sum of B's columns that `with_products` adds too much, added to `sum`.
UOp VectorPacker::with_excess(UOp sum, const Pack& p) {
  return with_products(sum, p, filled(graph_, DType(Scalar::UInt8, static_cast<uint16_t>(p.dot->steps)), kExcess));
}

UOp VectorPacker::dot_products(const Pack& p) {
  UOp sum = with_products(packs_[p.sources[0]].made, p, UOp());
  if (p.dot->in != Scalar::Int8) return sum;
  return sum.alu(Op::Sub, with_excess(filled(graph_, sum.dtype(), 0), p));
}

/// An accumulator of dot products, after its loops. What is too much is accumulated apart, once for all rows.
UOp VectorPacker::accumulated_dots(const Pack& acc, const Pack& value) {
  const DType type = acc.made.dtype();
  UOp sum = graph_.node(Op::Assign, type, {acc.made, with_products(acc.made, value, UOp())});
  if (value.dot->in != Scalar::Int8) return sum;
  std::vector<PackId> columns;
  for (size_t i = 2; i < value.sources.size(); i += 2) columns.push_back(value.sources[i]);
  UOp& excess = excess_[{columns, loops_of(acc.first).empty() ? 0U : loops_of(acc.first)[0].id()}];
  if (!excess) {
    src_.assign(acc.made.src().begin(), acc.made.src().end());
    src_[0] = filled(graph_, type, 0);
    Lanes number = *std::get<const Lanes*>(acc.first.arg());
    number.push_back(kExcess);
    UOp own = graph_.node(Op::DefineAcc, type, src_, graph_.intern(std::move(number)));
    excess = graph_.node(Op::Assign, type, {own, with_excess(own, value)});
  }
  return sum.alu(Op::Sub, excess);
}

}  // namespace quern
