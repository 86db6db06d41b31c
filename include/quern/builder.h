#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "quern/data_type.h"
#include "quern/kernel_graph.h"

namespace quern {

// Kernels built in C++:
//
//   KernelBuilder k;                                                 // out = relu(a @ b), 128 x 64 times 64 x 32
//   Value a = k.load(1, DataType::Float, {128, 64}).reshape({128, 1, 64});
//   Value b = k.load(2, DataType::Float, {64, 32}).permute({1, 0}).reshape({1, 32, 64});
//   k.store(0, maximum(sum(a * b, {2}), 0));
//   KernelGraph kernel = k.build();
//
// Wrong shapes, axes or types throw InvalidKernel with the values.

/// How a buffer is read or written where that is not row-major from its start: element (i0, i1, ...) is at
/// offset + i0 * strides[0] + i1 * strides[1] + ...; outside `mask`, a range [first, last) an axis, it is zero and not read.
struct Layout {
  std::vector<int64_t> strides = {};
  int64_t offset = 0;
  std::vector<std::pair<int64_t, int64_t>> mask = {};
};

/// A value of a kernel under way: an array of a type and a shape, or a constant that takes any shape. Copies are the same value.
class Value {
 public:
  DataType type() const;
  std::vector<int64_t> shape() const;  ///< empty for a constant

  // Movement: another arrangement of the same elements, at no cost. Not on a reduced value, whose axes stay where they are.
  Value reshape(const std::vector<int64_t>& shape) const;
  Value permute(const std::vector<int>& axes) const;
  Value expand(const std::vector<int64_t>& shape) const;  ///< repeats axes of size 1
  /// Adds `before` and `after` zeros to each axis.
  Value pad(const std::vector<std::pair<int64_t, int64_t>>& amounts) const;
  /// Keeps [first, last) of each axis.
  Value shrink(const std::vector<std::pair<int64_t, int64_t>>& ranges) const;
  Value flip(const std::vector<int>& axes) const;

  Value cast(DataType type) const;     ///< by value
  Value bitcast(DataType type) const;  ///< by bits, between types of the same size
  /// A constant of this value's type. Ints wrap to it, as in all arithmetic; a bool is 0 or 1.
  Value constant_like(double value) const;
  Value constant_like(int64_t value) const;

  struct Impl;
  explicit Value(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

// Element by element. Both sides have the same type; axes of size 1 repeat to fit the other side, missing ones count as 1.
Value operator+(const Value& a, const Value& b);
Value operator-(const Value& a, const Value& b);
Value operator*(const Value& a, const Value& b);
Value operator/(const Value& a, const Value& b);  ///< integers: truncates, x / 0 is 0
Value operator%(const Value& a, const Value& b);  ///< integers: the sign of a, x % 0 is 0
Value operator&(const Value& a, const Value& b);  ///< integers and bool, as | and ^
Value operator|(const Value& a, const Value& b);
Value operator^(const Value& a, const Value& b);
Value operator<<(const Value& a, const Value& b);
Value operator>>(const Value& a, const Value& b);
Value operator-(const Value& a);                ///< of bool: not
Value maximum(const Value& a, const Value& b);  ///< NaN if either is
Value minimum(const Value& a, const Value& b);
Value less(const Value& a, const Value& b);  ///< bool, as the other comparisons
Value less_equal(const Value& a, const Value& b);
Value equal(const Value& a, const Value& b);
Value not_equal(const Value& a, const Value& b);
Value where(const Value& condition, const Value& yes, const Value& no);

// Of floats.
Value exp2(const Value& a);
Value log2(const Value& a);
Value sin(const Value& a);
Value sqrt(const Value& a);
Value reciprocal(const Value& a);

// Over axes, which become size 1; negative axes count from the end. Sums are in the value's own type.
Value sum(const Value& a, const std::vector<int>& axes);
Value product(const Value& a, const std::vector<int>& axes);
Value max(const Value& a, const std::vector<int>& axes);

template <class T>
concept Number = std::is_arithmetic_v<T>;

template <Number T>
Value constant_like(const Value& v, T number) {
  if constexpr (std::is_integral_v<T>)
    return v.constant_like(static_cast<int64_t>(number));
  else
    return v.constant_like(static_cast<double>(number));
}

// With a number on one side: a constant of the other's type.
#define QUERN_WITH_NUMBER(function)          \
  template <Number T>                        \
  Value function(const Value& a, T b) {      \
    return function(a, constant_like(a, b)); \
  }                                          \
  template <Number T>                        \
  Value function(T a, const Value& b) {      \
    return function(constant_like(b, a), b); \
  }
QUERN_WITH_NUMBER(operator+)
QUERN_WITH_NUMBER(operator-)
QUERN_WITH_NUMBER(operator*)
QUERN_WITH_NUMBER(operator/)
QUERN_WITH_NUMBER(operator%)
QUERN_WITH_NUMBER(operator&)
QUERN_WITH_NUMBER(operator|)
QUERN_WITH_NUMBER(operator^)
QUERN_WITH_NUMBER(operator<<)
QUERN_WITH_NUMBER(operator>>)
QUERN_WITH_NUMBER(maximum)
QUERN_WITH_NUMBER(minimum)
QUERN_WITH_NUMBER(less)
QUERN_WITH_NUMBER(less_equal)
QUERN_WITH_NUMBER(equal)
QUERN_WITH_NUMBER(not_equal)
#undef QUERN_WITH_NUMBER

/// Collects a kernel's stores. Values of one builder do not mix with another's.
class KernelBuilder {
 public:
  KernelBuilder();

  /// Elements of a buffer, numbered as they are passed to the kernel; row-major from its start unless `layout` is given.
  Value load(int buffer, DataType type, const std::vector<int64_t>& shape);
  Value load(int buffer, DataType type, const std::vector<int64_t>& shape, const Layout& layout);
  /// A constant, as by Value::constant_like.
  Value constant(DataType type, double value);
  Value constant(DataType type, int64_t value);
  Value constant(DataType type, int value) { return constant(type, static_cast<int64_t>(value)); }
  /// A number that is given when the kernel runs, between `min` and `max`.
  Value variable(const std::string& name, int64_t min, int64_t max, DataType type = DataType::Int32);

  /// Writes a value to a buffer of its type.
  void store(int buffer, const Value& value);
  void store(int buffer, const Value& value, const Layout& layout);
  /// The kernel of all stores so far.
  KernelGraph build() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace quern
