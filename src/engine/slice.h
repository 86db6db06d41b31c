#pragma once
#include <cstdint>
#include <vector>

#include "ir/graph.h"

namespace quern {

/// An axis of a kernel's output that a part of the output can be computed along by itself.
struct SliceAxis {
  size_t axis;
  int64_t size;
};

/// Those of a kernel AST, the longest first: static, reduced nowhere, the same in every view. None if a view stands over computed
/// values, or if an output is also read (what is read would depend on what is computed).
std::vector<SliceAxis> slice_axes(UOp ast);

/// The kernel that computes indices [begin, end) of one of these axes and writes them where the whole kernel does, nothing else.
UOp slice_of(UOp ast, size_t axis, int64_t begin, int64_t end);

}  // namespace quern
