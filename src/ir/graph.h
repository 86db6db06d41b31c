#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ir/uop.h"
#include "ir/view.h"

namespace quern {

/// Owns the nodes of one kernel's compilation and makes equal nodes the same. Used by one thread at a time; dropping it frees
/// all its nodes at once.
class Graph {
 public:
  Graph();
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  UOp node(Op op, DType dtype, std::span<const UOp> src = {}, Arg arg = {});
  UOp node(Op op, DType dtype, std::initializer_list<UOp> src, Arg arg = {}) {
    return node(op, dtype, std::span<const UOp>(src.begin(), src.size()), arg);
  }

  // Payloads: equal ones get the same address.
  const Lanes* intern(Lanes lanes);
  const Axes* intern(Axes axes);
  const ConstVector* intern(ConstVector values);
  const ReduceArg* intern(ReduceArg arg);
  const VarArg* intern(VarArg arg);
  const LocalArg* intern(LocalArg arg);
  const SpecialArg* intern(SpecialArg arg);
  const WmmaArg* intern(WmmaArg arg);
  const ShapeTracker* intern(ShapeTracker st);
  const std::string* intern(std::string text);

  // Constants; `dtype` may have lanes (all equal). Ints wrap to the dtype; floats keep the double's bits.
  UOp const_int(DType dtype, Int128 value);
  UOp const_float(DType dtype, double value);
  UOp const_bool(bool value) { return const_int(Scalar::Bool, value ? 1 : 0); }
  UOp const_index(int64_t value) { return const_int(Scalar::Index, value); }
  /// A constant of any dtype from an int value (as float for floats).
  UOp constant(DType dtype, int64_t value);
  UOp const_bits(DType dtype, ConstBits value);
  /// VCONST, or CONST if all lanes are equal.
  UOp const_vector(DType dtype, ConstVector values);

  UOp variable(std::string_view name, int64_t min, int64_t max, DType dtype = Scalar::Index);
  UOp range(SInt start, SInt end, int axis, bool reduce = false);  ///< an index-typed RANGE
  UOp view(ShapeTracker st);                                       ///< a VIEW node of void dtype
  UOp index_of(const SInt& value);                                 ///< an index-typed node
  UOp vectorize(std::span<const UOp> lanes);

  size_t size() const;        ///< nodes made so far
  UOp at(uint32_t id) const;  ///< the node with this number

  /// Results of rewrites that depend on the node alone, by the node's number, kept as long as the graph (see RuleSet::Memo).
  static constexpr size_t kMemos = 3;
  std::vector<const Node*>& memo(size_t which);

 private:
  struct Storage;
  std::unique_ptr<Storage> storage_;
};

/// Clamps an int to its dtype by wrapping: the value the dtype's bits mean.
Int128 wrap(Scalar dtype, Int128 value);
/// Smallest and largest value of an int, bool or index dtype.
Int128 min_value(Scalar dtype);
Int128 max_value(Scalar dtype);

}  // namespace quern
