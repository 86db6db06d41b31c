#include <algorithm>

#include "quern/error.h"

#include "ir/node_map.h"
#include "ir/spec.h"
#include "ir/text.h"

namespace quern {

namespace {

constexpr OpSet kValueOps = kAluOps | OpSet{Op::Cast, Op::Bitcast, Op::Const, Op::DefineVar, Op::Wmma, Op::Noop};
constexpr OpSet kKernelOps =
    kValueOps | OpSet{Op::Sink,        Op::Store,  Op::Load,     Op::Preload,    Op::DefineGlobal,
                      Op::DefineLocal, Op::View,   Op::Valid,    Op::Vconst,     Op::ReduceAxis,
                      Op::Assign,      Op::Expand, Op::Contract, Op::Contiguous, Op::Barrier};
constexpr OpSet kNotIndexed = {Op::View, Op::Valid, Op::Bind, Op::Copy, Op::Empty, Op::BufferView, Op::Buffer};
constexpr OpSet kLinearOps =
    kValueOps | OpSet{Op::DefineGlobal, Op::DefineLocal, Op::DefineAcc, Op::Special, Op::Range, Op::Endrange,
                      Op::If,           Op::Endif,       Op::Assign,    Op::Index,   Op::Load,  Op::Store,
                      Op::Gep,          Op::Vectorize,   Op::Barrier,   Op::Sink};
constexpr OpSet kBuffers = {Op::DefineGlobal, Op::DefineLocal};

OpSet ops_of(Spec spec) {
  switch (spec) {
    case Spec::KernelAst: return kKernelOps;
    case Spec::Indexed: return OpSet::all() - kNotIndexed;
    case Spec::Expanded: return OpSet::all() - kNotIndexed - OpSet{Op::Expand, Op::Contract, Op::ReduceAxis};
    case Spec::Linear:
    case Spec::LinearVectors: return kLinearOps;
  }
  return OpSet::all();
}

std::string is_op(UOp node, size_t i, OpSet wanted, std::string_view what) {
  if (node.num_src() > i && node.src(i).is(wanted)) return {};
  std::string have = node.num_src() > i ? "a " + std::string(to_string(node.src(i).op())) : "missing";
  return "source " + std::to_string(i) + " is " + have + ", not " + std::string(what);
}

std::string has_type(const DType& have, const DType& wanted, std::string_view what) {
  if (have == wanted) return {};
  return std::string(what) + " is " + to_string(have) + ", not " + to_string(wanted);
}

std::string first_of(std::initializer_list<std::string> errors) {
  for (const std::string& e : errors)
    if (!e.empty()) return e;
  return {};
}

// ---- rules by op, a table a spec ----

struct Rule {
  OpSet ops;
  std::string (*check)(UOp node);
};

std::string ast_sink(UOp n) {
  if (n.num_src() == 0) return "a kernel that stores nothing";
  for (size_t i = 0; i < n.num_src(); ++i)
    if (std::string e = is_op(n, i, {Op::Store}, "a STORE"); !e.empty()) return e;
  return {};
}
std::string ast_store(UOp n) {
  std::string error = first_of({is_op(n, 0, kBuffers, "a buffer"), is_op(n, 1, {Op::View}, "a VIEW")});
  if (!error.empty()) return error;
  if (n.num_src() < 3) return "2 sources, not 3";
  return has_type(n.src(2).dtype(), n.src(0).dtype().base(), "value");
}
std::string ast_load(UOp n) {
  std::string error = first_of({is_op(n, 0, kBuffers, "a buffer"), is_op(n, 1, {Op::View}, "a VIEW")});
  if (error.empty() && n.num_src() > 2) error = is_op(n, 2, {Op::Store}, "a STORE");
  return error.empty() ? has_type(n.dtype(), n.src(0).dtype().base(), "type") : error;
}
std::string ast_valid(UOp n) { return is_op(n, 0, {Op::View}, "a VIEW"); }
std::string ast_assign(UOp n) {
  return first_of({is_op(n, 0, kBuffers, "a buffer"), has_type(n.src(1).dtype(), n.dtype(), "value")});
}

const Rule kAstRules[] = {
    {{Op::Sink}, ast_sink},   {{Op::Store}, ast_store},   {{Op::Load}, ast_load},
    {{Op::Valid}, ast_valid}, {{Op::Assign}, ast_assign},
};

std::string graph_address(UOp n) {
  if (n.src(0).dtype().is_ptr()) return {};
  return "source 0 is " + to_string(n.src(0).dtype()) + ", not an address";
}

const Rule kGraphRules[] = {
    {{Op::Load, Op::Store}, graph_address},
};

std::string one_lane(UOp n) {
  if (n.dtype().is_ptr() || n.dtype().count == 1) return {};
  return "a value of " + to_string(n.dtype()) + ", not of one lane";
}
std::string machine_int(UOp n) {
  Scalar s = n.dtype().scalar;
  return s == Scalar::Int32 || s == Scalar::Int64
             ? ""
             : "type is " + to_string(n.dtype()) + ", not dtypes.int or dtypes.long";
}
std::string linear_gep(UOp n) {
  return n.dtype().lanes() == 1 ? "" : "takes " + std::to_string(n.dtype().lanes()) + " lanes";
}
std::string linear_index(UOp n) {
  if (n.num_src() != 2) return "a gate that belongs to the LOAD or STORE";
  return is_op(n, 0, kBuffers, "a buffer");
}
std::string linear_access(UOp n) {
  std::string error = is_op(n, 0, {Op::Index, Op::Cast}, "an INDEX or a CAST of one");
  if (!error.empty() || n.src(0).is(Op::Index)) return error;
  return is_op(n.src(0), 0, {Op::Index}, "an INDEX");
}
std::string linear_load(UOp n) {
  if (std::string e = linear_access(n); !e.empty()) return e;
  constexpr OpSet kWaits = {Op::Barrier, Op::If};
  if (n.num_src() < 2 || n.src(1).is(kWaits)) return {};
  if (n.num_src() < 3 || !n.src(2).dtype().is_bool()) return "an alternative without a gate";
  return has_type(n.src(1).dtype(), n.dtype(), "alternative");
}
std::string linear_store(UOp n) {
  if (std::string e = linear_access(n); !e.empty()) return e;
  return n.num_src() > 2 ? is_op(n, 2, {Op::If}, "an IF") : "";
}
std::string linear_accumulator(UOp n) {
  if (n.num_src() < 2) return "no RANGE";
  for (size_t i = 1; i < n.num_src(); ++i)
    if (std::string e = is_op(n, i, {Op::Range}, "a RANGE"); !e.empty()) return e;
  return has_type(n.src(0).dtype(), n.dtype(), "initial value");
}
std::string linear_assign(UOp n) {
  return first_of({is_op(n, 0, {Op::DefineAcc}, "a DEFINE_ACC"), has_type(n.src(1).dtype(), n.dtype(), "value")});
}
std::string linear_if(UOp n) { return n.src(0).dtype() == DType(Scalar::Bool) ? "" : "its condition is no bool"; }

const Rule kLinearRules[] = {
    {kAluOps | OpSet{Op::Cast, Op::Bitcast, Op::Const}, one_lane},
    {{Op::DefineVar, Op::Range, Op::Special}, machine_int},
    {{Op::Gep}, linear_gep},
    {{Op::Index}, linear_index},
    {{Op::Load}, linear_load},
    {{Op::Store}, linear_store},
    {{Op::DefineAcc}, linear_accumulator},
    {{Op::Assign}, linear_assign},
    {{Op::If}, linear_if},
};

std::string vector_store(UOp n) {
  if (std::string e = linear_access(n); !e.empty()) return e;
  const bool masked = n.num_src() > 2 && n.src(2).dtype() == DType(Scalar::Bool, n.src(1).dtype().count);
  return n.num_src() > 2 && !masked ? is_op(n, 2, {Op::If}, "an IF or a bool a lane") : "";
}
const Rule kLinearVectorRules[] = {
    {{Op::Const}, one_lane},       {{Op::DefineVar, Op::Range, Op::Special}, machine_int},
    {{Op::Index}, linear_index},   {{Op::Load}, linear_load},
    {{Op::Store}, vector_store},   {{Op::DefineAcc}, linear_accumulator},
    {{Op::Assign}, linear_assign}, {{Op::If}, linear_if},
};

bool is_linear(Spec spec) { return spec == Spec::Linear || spec == Spec::LinearVectors; }

std::span<const Rule> rules_of(Spec spec) {
  if (spec == Spec::KernelAst) return kAstRules;
  if (spec == Spec::LinearVectors) return kLinearVectorRules;
  if (spec == Spec::Linear) return kLinearRules;
  return kGraphRules;
}

std::string error_of(UOp n, Spec spec) {
  if (!ops_of(spec).contains(n.op())) return "not an op of this stage";
  if (std::string e = form_error(n.op(), n.dtype(), n.src(), n.arg()); !e.empty()) return e;
  if (is_linear(spec) && n.dtype().is_index()) return "type is dtypes.index";
  for (const Rule& r : rules_of(spec))
    if (r.ops.contains(n.op()))
      if (std::string e = r.check(n); !e.empty()) return e;
  return {};
}

/// A node without its sources, cut to a line.
std::string shown(UOp n) {
  constexpr size_t kWidth = 160;
  std::string text =
      n.num_src() == 0 ? print(n) : "UOp(Ops." + std::string(to_string(n.op())) + "," + to_string(n.dtype()) + ")";
  return text.size() > kWidth ? text.substr(0, kWidth) + "..." : text;
}

[[noreturn]] void fail(Spec spec, UOp n, const std::string& error) {
  std::string message = "[" + std::string(to_string(n.op())) + "] " + error + ": " + shown(n);
  if (spec == Spec::KernelAst) throw InvalidKernel(message);
  throw InternalError("after the stage that gives a " + std::string(to_string(spec)) + " graph: " + message);
}

/// Sources come before users (an accumulator before the loops it runs over), and RANGE and IF are closed in the reverse order of their opening.
void verify_order(std::span<const UOp> program) {
  NodeScratch<uint8_t> seen;
  std::vector<UOp> open;
  for (UOp n : program) {
    if (seen.get(n)) fail(Spec::Linear, n, "twice in the program");
    for (UOp s : n.src())
      if (!seen.get(s) && !(n.is(Op::DefineAcc) && s.is(Op::Range)))
        fail(Spec::Linear, n, "before its source " + std::string(to_string(s.op())));
    seen.set(n, 1);
    if (n.is(OpSet{Op::Range, Op::If})) open.push_back(n);
    if (!n.is(OpSet{Op::Endrange, Op::Endif})) continue;
    if (open.empty() || open.back() != n.src(0)) fail(Spec::Linear, n, "closes what is not the innermost scope");
    open.pop_back();
  }
  if (!open.empty()) fail(Spec::Linear, open.back(), "never closed");
}

}  // namespace

std::string_view to_string(Spec spec) {
  switch (spec) {
    case Spec::KernelAst: return "kernel";
    case Spec::Indexed: return "indexed";
    case Spec::Expanded: return "expanded";
    case Spec::Linear: return "linear";
    case Spec::LinearVectors: return "linear vector";
  }
  return "?";
}

void verify(std::span<const UOp> program, Spec spec) {
  for (UOp n : program)
    if (std::string error = error_of(n, spec); !error.empty()) fail(spec, n, error);
  if (is_linear(spec)) verify_order(program);
}

void verify(UOp root, Spec spec) {
  if (!root.is(Op::Sink)) fail(spec, root, "the root is not a SINK");
  std::vector<UOp> all = toposort(root);
  for (UOp n : all)
    if (std::string error = error_of(n, spec); !error.empty()) fail(spec, n, error);
  if (spec == Spec::KernelAst && std::count_if(all.begin(), all.end(), [](UOp n) { return n.is(Op::Sink); }) != 1)
    fail(spec, root, "a SINK below the root");
}

}  // namespace quern
