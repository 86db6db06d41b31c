#include "lower/scans.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "lower/linear_index.h"
#include "lower/loops.h"

namespace quern {

namespace {

/// A RANGE of constant bounds.
struct Bounds {
  Int128 start, end;
  Int128 turns() const { return end - start; }
};

std::optional<Bounds> bounds_of_range(UOp range) {
  if (!range.src(0).is_const() || !range.src(1).is_const()) return {};
  const Bounds bounds{range.src(0).const_int(), range.src(1).const_int()};
  return bounds.turns() > 0 ? std::optional(bounds) : std::nullopt;
}

class ScanFolder {
 public:
  ScanFolder(UOp sink, const RuleSet& rules) : sink_(sink), rules_(rules), nodes_(toposort(sink)) {
    for (UOp u : nodes_)
      if (u.is(Op::Range) && !is_reduced(u)) outer_.push_back(u);
  }

  UOp run() {
    std::vector<std::pair<UOp, UOp>> folded;
    for (UOp u : nodes_)
      if (u.is(Op::Assign) && u.src(0).is(Op::DefineAcc))
        if (UOp scan = folded_scan(u)) folded.emplace_back(u, scan);
    return folded.empty() ? sink_ : substitute(sink_, folded);
  }

 private:
  /// The scan that the reduction is, or an empty UOp.
  UOp folded_scan(UOp assign) const {
    const UOp acc = assign.src(0), next = assign.src(1);
    if (loops_of(acc).size() != 1 || !is_reduced(loops_of(acc)[0]) || outer_.empty()) return {};
    const Op op = next.op();
    if (op != Op::Add && op != Op::Mul && op != Op::Max) return {};
    UOp value;
    size_t starts = 0;
    for (UOp term : split(next, op)) {
      starts += term == acc;
      if (term != acc) value = value ? value.alu(op, term) : term;
    }
    if (starts != 1 || !value) return {};
    const UOp k = loops_of(acc)[0];
    for (UOp i : outer_)
      if (can_carry(i, value, k) && runs_through(i, assign) && is_scan(value, i, k, acc.src(0))) {
        const UOp last = at(value, {{k, k.const_like(static_cast<int64_t>(bounds_of_range(k)->end - 1))}});
        const UOp running = acc.with_src(std::vector<UOp>{acc.src(0), i});
        return assign.with_src(std::vector<UOp>{running, running.alu(op, last)});
      }
    return {};
  }

  /// Whether the loop may carry an accumulator of the value: it is inside of all others that the value depends on, and what the
  /// value reads is read along it as along the reduce, and not written by the kernel.
  bool can_carry(UOp i, UOp value, UOp k) const {
    bool moves = false;
    for (UOp u : toposort(value)) {
      if (u.is({Op::DefineAcc, Op::DefineLocal, Op::Barrier, Op::Assign})) return false;
      if (u.is(Op::Range) && u != i && u != k && (is_reduced(u) || axis_of(u) > axis_of(i))) return false;
      if (!u.is(Op::Index)) continue;
      const auto along_loop = linear_in(u.src(1), i), along_reduce = linear_in(u.src(1), k);
      if (!along_loop || !along_reduce || along_loop->factor != along_reduce->factor || is_written(u.src(0)))
        return false;
      moves |= along_loop->factor != 0;
    }
    return moves;
  }

  bool is_written(UOp buffer) const {
    return std::ranges::any_of(nodes_, [&](UOp u) { return u.is(Op::Store) && depends_on(u.src(0).src(0), buffer); });
  }

  /// Whether all that is stored of the reduction is stored in turns of the loop.
  bool runs_through(UOp i, UOp assign) const {
    return std::ranges::all_of(
        nodes_, [&](UOp u) { return !u.is(Op::Store) || !depends_on(u.src(1), assign) || depends_on(u.src(0), i); });
  }

  bool is_scan(UOp value, UOp i, UOp k, UOp identity) const {
    const auto outer = bounds_of_range(i), inner = bounds_of_range(k);
    if (!outer || !inner || outer->turns() > inner->turns()) return false;
    const UOp one = i.const_like(1);
    if (at(value, {{i, i + one}, {k, k - one}}) != at(value, {})) return false;
    if (inner->turns() == 1) return true;
    const UOp before = k.with_src(std::vector<UOp>{k.src(0), k.const_like(static_cast<int64_t>(inner->end - 1))});
    const UOp padding = at(value, {{i, i.src(0)}, {k, before}});
    if (!padding.is_const() || !identity.is_const()) return false;
    return padding.dtype().is_float() ? padding.const_float() == identity.const_float()
                                      : padding.const_int() == identity.const_int();
  }

  UOp at(UOp value, const std::vector<std::pair<UOp, UOp>>& places) const {
    return graph_rewrite(substitute(value, places), rules_);
  }

  static int32_t axis_of(UOp range) { return std::get<RangeArg>(range.arg()).axis; }

  UOp sink_;
  const RuleSet& rules_;
  std::vector<UOp> nodes_;
  std::vector<UOp> outer_;  ///< loops that are not of a reduce
};

}  // namespace

UOp fold_scans(UOp sink, const RuleSet& rules) { return ScanFolder(sink, rules).run(); }

}  // namespace quern
