#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/int128.h"
#include "ir/dtype.h"
#include "ir/ops.h"

namespace quern {

class Graph;
class UOp;
struct Node;

/// A constant by its bits: bool 0/1; ints sign- or zero-extended to 64 bits by their dtype; floats as the bits of a double
/// (the value it means is that double rounded to the dtype, see ir/eval.h).
struct ConstBits {
  uint64_t bits = 0;
  bool operator==(const ConstBits&) const = default;
};

/// RANGE: its axis number, and whether it loops over a reduce axis.
struct RangeArg {
  int32_t axis = 0;
  bool reduce = false;
  bool operator==(const RangeArg&) const = default;
};

/// SINK of an optimized AST: the axes of its shape are <thread> <global> <local> <group-reduce> <reduce> <upcast, unroll, partial>.
struct KernelInfo {
  int16_t local_dims = 0;
  int16_t upcasted = 0;
  bool dont_use_locals = false;
  int16_t thread_dims = 0;  ///< of a CPU: 1 or none
  bool operator==(const KernelInfo&) const = default;
};

// Larger payloads are interned by their graph, so that equal payloads have the same address.
using Lanes = std::vector<int32_t>;  ///< GEP: lanes taken; DEFINE_ACC: {number, lane...}
struct AxisSize {
  int32_t axis;
  int32_t size;
  auto operator<=>(const AxisSize&) const = default;
};
using Axes = std::vector<AxisSize>;          ///< EXPAND, CONTRACT: axes and their sizes, the last one fastest
using ConstVector = std::vector<ConstBits>;  ///< VCONST
struct ReduceArg {                           ///< REDUCE_AXIS
  Op op;
  std::vector<int32_t> axes;
  bool operator==(const ReduceArg&) const = default;
};
struct VarArg {  ///< DEFINE_VAR: name and inclusive bounds
  std::string name;
  int64_t min;
  int64_t max;
  bool operator==(const VarArg&) const = default;
};
struct LocalArg {  ///< DEFINE_LOCAL: name and number of elements
  std::string name;
  int64_t size;
  bool operator==(const LocalArg&) const = default;
};
struct SpecialArg;    ///< SPECIAL: "gidx0" and its size (ir/view.h, for SInt)
struct WmmaArg;       ///< WMMA (ir/view.h)
struct ShapeTracker;  ///< VIEW (ir/view.h)

/// An op's payload: a closed set, two words, compared by value (pointers are to interned payloads of the node's graph).
/// int64_t: DEFINE_GLOBAL's number. The string is IF's or NOOP's label, unused by kernels.
using Arg = std::variant<std::monostate, int64_t, ConstBits, RangeArg, KernelInfo, const Lanes*, const Axes*,
                         const ConstVector*, const ReduceArg*, const VarArg*, const LocalArg*, const SpecialArg*,
                         const WmmaArg*, const ShapeTracker*, const std::string*>;

/// A handle to an immutable node interned in a Graph: the size of a pointer, copied freely, equal iff it is the same node.
/// Valid as long as its graph. A default-made one is empty (false).
class UOp {
 public:
  UOp() = default;
  explicit UOp(const Node* node) : node_(node) {}
  explicit operator bool() const { return node_ != nullptr; }
  bool operator==(const UOp&) const = default;

  Op op() const;
  const DType& dtype() const;
  const Arg& arg() const;
  std::span<const UOp> src() const;
  UOp src(size_t i) const { return src()[i]; }
  size_t num_src() const { return src().size(); }
  /// Number of the node in its graph, from 0, in order of creation.
  uint32_t id() const;
  Graph& graph() const;
  const Node* node() const { return node_; }
  bool is(Op o) const { return op() == o; }
  bool is(OpSet set) const { return set.contains(op()); }

  /// Sound bounds of the value of every lane for int, bool and index dtypes (for machine ints: of the wrapped value). Floats and
  /// void: [0, 0], meaningless. Index bounds are clamped to +-kUnbounded.
  Int128 vmin() const;
  Int128 vmax() const;

  /// True for CONST.
  bool is_const() const { return is(Op::Const); }
  bool is_const_int(int64_t value) const;  ///< CONST of an int, bool or index dtype with this value
  /// Value of an int, bool or index CONST.
  Int128 const_int() const;
  /// Value of a float CONST, not yet rounded to its dtype.
  double const_float() const;

  /// The same op on other sources.
  UOp with_src(std::span<const UOp> src) const;
  UOp with_arg(Arg arg) const;
  UOp with_dtype(DType dtype) const;

  // Shorthands to build nodes; both sides are of one graph. No folding happens here.
  UOp alu(Op op, UOp b) const;
  UOp alu(Op op) const;
  UOp cast(DType to) const;             ///< this when the type is already `to`
  UOp bitcast(DType to) const;          ///< this when the type is already `to`
  UOp const_like(int64_t value) const;  ///< a constant of this dtype (all lanes)
  UOp const_like_float(double value) const;
  UOp idiv(UOp b) const { return alu(Op::Idiv, b); }
  UOp mod(UOp b) const { return alu(Op::Mod, b); }
  UOp max(UOp b) const { return alu(Op::Max, b); }
  UOp lt(UOp b) const { return alu(Op::Cmplt, b); }
  UOp ne(UOp b) const { return alu(Op::Cmpne, b); }
  UOp ge(UOp b) const;  ///< (this < b) != true, as the reference spells it
  UOp eq(UOp b) const;  ///< (this != b) != true
  UOp logical_not() const;
  UOp where(UOp yes, UOp no) const;
  UOp gep(int lane) const;  ///< one lane; looks through VECTORIZE and constants
  UOp gep(const Lanes& lanes) const;
  UOp broadcast(int lanes) const;  ///< VECTORIZE of copies; this for one lane

 private:
  const Node* node_ = nullptr;
};

inline constexpr Int128 kUnbounded = Int128{1} << 100;

/// The node behind a handle. Built only by Graph.
struct Node {
  Op op;
  DType dtype;
  uint32_t num_src;
  uint32_t id;
  uint64_t hash;
  const UOp* sources;
  Arg arg;
  Int128 vmin;
  Int128 vmax;
  Graph* graph;
};

inline Op UOp::op() const { return node_->op; }
inline const DType& UOp::dtype() const { return node_->dtype; }
inline const Arg& UOp::arg() const { return node_->arg; }
inline std::span<const UOp> UOp::src() const { return {node_->sources, node_->num_src}; }
inline uint32_t UOp::id() const { return node_->id; }
inline Graph& UOp::graph() const { return *node_->graph; }
inline Int128 UOp::vmin() const { return node_->vmin; }
inline Int128 UOp::vmax() const { return node_->vmax; }

inline UOp operator+(UOp a, UOp b) { return a.alu(Op::Add, b); }
inline UOp operator*(UOp a, UOp b) { return a.alu(Op::Mul, b); }
inline UOp operator&(UOp a, UOp b) { return a.alu(Op::And, b); }
inline UOp operator|(UOp a, UOp b) { return a.alu(Op::Or, b); }
inline UOp operator^(UOp a, UOp b) { return a.alu(Op::Xor, b); }
UOp operator-(UOp a, UOp b);  ///< a + b * -1
UOp operator-(UOp a);         ///< a * -1; logical not for bool
// With a constant of the other side's dtype:
UOp operator+(UOp a, int64_t b);
UOp operator*(UOp a, int64_t b);
UOp operator-(UOp a, int64_t b);

/// The reference's order of nodes: by op, arg, dtype, then sources, deep. Negative, 0 (same node) or positive.
int compare(UOp a, UOp b);

/// All nodes reachable from `root`, sources before users, each once, in the order of a depth-first walk. Iterative.
std::vector<UOp> toposort(UOp root);
std::vector<UOp> toposort(std::span<const UOp> roots);
/// True if `needle` is `root` or one of its ancestors (sources, transitively).
bool depends_on(UOp root, UOp needle);
/// Leaves of a tree of `op`: ((a+b)+c) gives a, b, c.
std::vector<UOp> split(UOp x, Op op);

/// Replaces nodes by others everywhere below `root` (by identity, before anything else; no simplification).
UOp substitute(UOp root, std::span<const std::pair<UOp, UOp>> replacements);

}  // namespace quern

template <>
struct std::hash<quern::UOp> {
  size_t operator()(const quern::UOp& u) const noexcept { return u ? u.node()->hash : 0; }
};
