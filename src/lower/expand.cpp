// Unrolled and upcast axes become code: simplify the indexed graph while it is small, then build every lane and simplify what its
// constants allow.
#include "lower/cleanup.h"
#include "lower/fold_loops.h"
#include "lower/lanes.h"
#include "lower/loops.h"
#include "lower/lower.h"
#include "lower/scans.h"
#include "symbolic/simplify.h"

namespace quern {

UOp expand_graph(UOp indexed, const Target& target) {
  static const RuleSet lane_rules = symbolic_flat() + loop_folding_rules() + cleanup_rules();
  static const RuleSet small_rules = lane_rules + gate_simplification_rules();
  UOp small = graph_rewrite(indexed, small_rules);
  if (target.vector_bytes != 0) small = fold_scans(small, small_rules);
  return separate_loops(build_lanes(small, lane_rules));
}

}  // namespace quern
