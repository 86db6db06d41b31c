#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "optimize/kernel.h"

namespace quern {

/// What never changes about a kernel.
struct Kernel::Fixed {
  UOp ast;
  const Target* target = nullptr;
  TensorCoreUse use = TensorCoreUse::Instruction;
  std::vector<UOp> buffers;  ///< LOADs, STOREs and VALIDs in the reference's order: the first is the first STORE
  std::vector<UOp> reduces;  ///< REDUCE_AXIS nodes, sources before users
  /// Number of the view of each buffer, then of each reduce's result and operand. Equal views are kept once: whatever is done
  /// to one is done to all.
  std::vector<uint32_t> view_of;
  size_t full_buffer = 0;           ///< the first buffer below the first reduce: it has all axes
  bool symbolic = false;            ///< a variable occurs
  bool reduces_share_axes = false;  ///< an axis is reduced twice
  bool can_pad_reduce = false;      ///< the first reduce is a sum of what keeps zeros

  Graph& graph() const { return ast.graph(); }
  /// Number of the buffer `node` among `buffers`; its size if it is none.
  size_t buffer_index(UOp node) const;
  /// The dtype of the memory that a buffer node reads or writes; void for VALID.
  DType memory_type(size_t buffer) const;
};

/// Every view, changed by `function`.
template <class Function>
std::shared_ptr<const Kernel::Views> Kernel::mapped_views(Function&& function) const {
  auto mapped = std::make_shared<Views>();
  mapped->reserve(views_->size());
  for (const TrackedView& view : *views_) mapped->emplace_back(function(view.tracker()));
  return mapped;
}

/// An axis's size; 0 if it is symbolic.
inline int64_t size_of(const Axis& axis) { return axis.size.is_int() ? axis.size.value() : 0; }

/// The first of `amounts`, largest first, that divides `size`; 1 if none does.
inline int64_t largest_divisor(int64_t size, std::initializer_list<int64_t> amounts) {
  for (int64_t a : amounts)
    if (size % a == 0) return a;
  return 1;
}

/// Of the multiples of a vector of `lanes`, else of a half or a quarter of one, up to `vectors` of them: the largest that divides
/// `size`; 1 if none does.
inline int64_t largest_strip(int64_t size, int64_t lanes, int64_t vectors) {
  for (int64_t part : {lanes, lanes / 2, lanes / 4})
    for (int64_t strip = vectors * lanes; strip >= part; strip -= part)
      if (size % strip == 0) return strip;
  return 1;
}

/// The view a buffer node has in its AST.
const ShapeTracker& view_of_buffer(UOp buffer);

}  // namespace quern
