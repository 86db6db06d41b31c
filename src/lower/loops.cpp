#include "lower/loops.h"

#include <algorithm>
#include <map>

#include "quern/error.h"

#include "ir/graph.h"
#include "ir/node_map.h"

namespace quern {

namespace {

constexpr int kRepeatedAxes = 2000;  ///< numbers of loops over an axis that is reduced once more

using Mask = uint64_t;  ///< a set of RANGEs

class LoopSeparator {
 public:
  explicit LoopSeparator(UOp sink) : sink_(sink), nodes_(toposort(sink)) {}

  UOp run() {
    if (!find_clashes()) return sink_;
    NodeScratch<UOp> done;
    std::vector<UOp> src;
    for (UOp u : nodes_) {
      if (Mask clash = clash_.get(u)) {
        done.set(u, with_own_loops(u, clash, done));
        continue;
      }
      src.clear();
      for (UOp s : u.src()) src.push_back(done.get(s));
      done.set(u, std::equal(src.begin(), src.end(), u.src().begin()) ? u : u.with_src(src));
    }
    return done.get(sink_);
  }

 private:
  Mask bit(UOp range) {
    uint8_t number = number_.get(range);
    if (number == 0) {
      if (ranges_.size() == 64) throw InternalError("over 64 reduce loops in one kernel");
      ranges_.push_back(range);
      number = static_cast<uint8_t>(ranges_.size());
      number_.set(range, number);
      sets_.push_back(0);
    }
    return Mask{1} << (number - 1);
  }

  /// The loops that end an accumulator.
  Mask set_of(UOp acc) {
    Mask set = 0;
    for (UOp r : loops_of(acc))
      if (is_reduced(r)) set |= bit(r);
    return set;
  }

  /// Fills clash_ with the loops an ASSIGN may not share; true if there are any.
  bool find_clashes() {
    bool any = false;
    for (UOp u : nodes_) {
      Mask closed = 0;
      for (UOp s : u.src()) closed |= closed_.get(s);
      if (u.is(Op::Assign) && u.src(0).is(Op::DefineAcc)) {
        Mask set = set_of(u.src(0)), clash = 0;
        for (UOp r : loops_of(u.src(0))) {
          if (!is_reduced(r)) continue;
          Mask& owner = sets_[number_.get(r) - 1u];
          if (owner == 0) owner = set;
          if (owner != set || (closed & set)) clash |= bit(r);
        }
        if (clash) clash_[u] = clash, any = true;
        depth_[u] = closed & set;
        closed |= set;
      }
      if (closed) closed_[u] = closed;
    }
    return any;
  }

  /// The ASSIGN `u` with the loops of `clash` replaced by fresh ones, the same for all that clash alike.
  UOp with_own_loops(UOp u, Mask clash, const NodeScratch<UOp>& done) {
    UOp acc = u.src(0);
    NodeScratch<UOp> renamed;
    const Mask set = set_of(acc);
    for (UOp r : loops_of(acc)) {
      if (!is_reduced(r) || !(bit(r) & clash)) continue;
      UOp& fresh = fresh_[{set, depth_.get(u), r.id()}];
      if (!fresh) {
        RangeArg arg = std::get<RangeArg>(r.arg());
        arg.axis = kRepeatedAxes + static_cast<int32_t>(fresh_.size());
        fresh = r.with_arg(arg);
      }
      renamed.set(r, fresh);
    }
    std::vector<UOp> src;
    for (UOp below : toposort(u)) {
      if (renamed.get(below)) continue;
      bool closes = false;
      if (below != u && below.is(Op::Assign)) closes = (set_of(below.src(0)) & clash) != 0;
      if (closes) {
        renamed.set(below, done.get(below));
        continue;
      }
      src.clear();
      for (UOp s : below.src()) src.push_back(renamed.get(s));
      renamed.set(below, below.with_src(src));
    }
    return renamed.get(u);
  }

  UOp sink_;
  std::vector<UOp> nodes_;
  std::vector<UOp> ranges_;
  std::vector<Mask> sets_;       ///< by RANGE: the set of loops it is reduced in
  NodeScratch<uint8_t> number_;  ///< of a RANGE, from 1
  NodeMap<Mask> closed_;         ///< the loops that have ended where a node is computed
  NodeMap<Mask> clash_, depth_;
  std::map<std::tuple<Mask, Mask, uint32_t>, UOp> fresh_;
};

}  // namespace

UOp separate_loops(UOp sink) { return LoopSeparator(sink).run(); }

}  // namespace quern
