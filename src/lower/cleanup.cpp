#include "lower/cleanup.h"

#include "symbolic/simplify.h"

namespace quern {

namespace {

UOp noop(const Match& m) { return m.graph().node(Op::Noop, Scalar::Void); }
UOp zero(const Match& m) { return m.graph().constant(m.root().dtype(), 0); }

UOp without_gate(const Match& m) { return m.graph().node(Op::Index, m.root().dtype(), {m["buf"], m["idx"]}); }

/// The store happens only where it changes something: what is kept there is not stored.
UOp gated_store(const Match& m) {
  UOp at = m.graph().node(Op::Index, m["at"].dtype(), {m["at"].src(0), m["at"].src(1), m["gate"]});
  return m.graph().node(Op::Store, Scalar::Void, {at, m["value"]});
}

UOp drop_noops(const Match& m) {
  std::vector<UOp> left;
  for (UOp s : m.root().src())
    if (!s.is(Op::Noop)) left.push_back(s);
  return left.size() == m.root().num_src() ? UOp() : m.root().with_src(left);
}

UOp simplify_gate(const Match& m) {
  UOp idx = m["idx"], valid = m["valid"];
  if (!idx.dtype().is_index() || idx.dtype().lanes() != 1) return UOp();
  UOp gate = valid;
  if (valid.is(Op::And))
    if (auto simpler = simplify_valid(valid)) gate = *simpler;
  auto given = simplify_given(gate, idx);
  if (!given)
    gate = m.graph().const_bool(false);
  else
    idx = *given;
  if (gate == valid && idx == m["idx"]) return UOp();
  return m.graph().node(Op::Index, m.root().dtype(), {m["buf"], idx, gate});
}

}  // namespace

const RuleSet& cleanup_rules() {
  using namespace pat;
  static const RuleSet rules = [] {
    const Pat x = var("x"), buf = var("buf"), idx = var("idx"), gate = var("gate"), value = var("value");
    const Pat at = op_any({Op::Index}).named("at");
    const Pat never = op(Op::Index, {buf, idx, boolean(false)});
    return RuleSet("cleanup",
                   {
                       {"assign itself", op(Op::Assign, {x, x}), x},
                       {"accumulator without loops", op(Op::DefineAcc, {x}), x},
                       {"assign to a constant", op(Op::Assign, {cvar("c"), x}), x},
                       {"index always", op(Op::Index, {buf, idx, boolean(true)}), with(without_gate)},
                       {"load never", op_prefix({Op::Load}, {never}), with(zero)},
                       {"store never", op_prefix({Op::Store}, {never}), with(noop)},
                       {"store what is there", op(Op::Store, {at, op(Op::Load, {at})}), with(noop)},
                       {"store what changes",
                        op(Op::Store, {op(Op::Index, {buf, idx}).named("at"), where(gate, value, op(Op::Load, {at}))}),
                        with(gated_store)},
                       {"drop noops", op_any({Op::Sink, Op::Barrier}), with(drop_noops)},
                   });
  }();
  return rules;
}

const RuleSet& gate_simplification_rules() {
  using namespace pat;
  static const RuleSet rules(
      "gates", {
                   {"simplify gate", op(Op::Index, {var("buf"), var("idx"), var("valid")}), with(simplify_gate)},
               });
  return rules;
}

}  // namespace quern
