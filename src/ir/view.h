#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/uop.h"

namespace quern {

/// A size, stride or offset: an int64, or an index-typed UOp over variables. What is done with it is in shape/sint.h.
class SInt {
 public:
  SInt(int64_t value = 0) : value_(value) {}  // NOLINT: an int is a symbolic int
  SInt(int value) : value_(value) {}          // NOLINT
  /// A constant node becomes its value.
  SInt(UOp expr);  // NOLINT
  bool is_int() const { return !expr_; }
  int64_t value() const { return value_; }
  UOp expr() const { return expr_; }
  bool operator==(const SInt&) const = default;
  bool operator==(int64_t v) const { return is_int() && value_ == v; }

 private:
  int64_t value_ = 0;
  UOp expr_;
};

using Shape = std::vector<SInt>;
using Bounds = std::pair<SInt, SInt>;  ///< first index inside, first index past
using Mask = std::vector<Bounds>;

/// Element (i0, i1, ...) of a view is element offset + sum(i * strides) of what is below; where an index is outside its mask the
/// element is zero and nothing is read. Made by shape/view.h, which keeps the strides of axes of size 1 at 0.
struct View {
  Shape shape;
  std::vector<SInt> strides;
  SInt offset;
  std::optional<Mask> mask;
  bool contiguous = false;  ///< offset 0, no mask, row-major strides
  bool operator==(const View&) const = default;
};

/// Views stacked: the last is what the kernel indexes, the first indexes the buffer.
struct ShapeTracker {
  std::vector<View> views;
  const Shape& shape() const { return views.back().shape; }
  bool operator==(const ShapeTracker&) const = default;
};

uint64_t hash_of(const ShapeTracker& st);

struct SpecialArg {
  std::string name;
  SInt size;
  bool operator==(const SpecialArg&) const = default;
};

/// WMMA: D = A * B + C by a group of threads; what each argument's vector holds is told by upcast_axes.
struct WmmaArg {
  std::string name;             ///< "WMMA_8_16_16_half_float"
  std::array<int32_t, 3> dims;  ///< N, M, K
  Scalar dtype_in;
  Scalar dtype_out;
  std::string device;  ///< the reference's device name
  int32_t threads;
  std::array<Axes, 3> upcast_axes;  ///< of A, B and C
  std::vector<int32_t> reduce_axes;
  bool operator==(const WmmaArg&) const = default;
};

}  // namespace quern
