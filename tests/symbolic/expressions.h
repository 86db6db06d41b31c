#pragma once
#include <map>
#include <random>
#include <string>

#include "ir/eval.h"
#include "ir/graph.h"
#include "ir/pattern_node.h"

namespace quern::testing {

/// A value of one lane: `number` for ints, bools and index; the bits of a double for floats.
struct Value {
  Int128 number = 0;
  double real = 0;
};

/// What variables are worth, by node.
using Environment = std::map<uint32_t, Value>;

/// The value of every node below `root` by its number, by the definitions in docs/semantics.md: index values are exact with floor
/// division. Nothing where that is not defined or passes 120 bits.
std::optional<std::map<uint32_t, Value>> evaluate(UOp root, const Environment& variables);

/// Equal bits, where all NaNs are the same.
bool same_value(Scalar type, Value a, Value b);
std::string show(Scalar type, Value v);
/// True for floats. Bounds of index values at the limit stand for any value past it.
bool within_bounds(UOp u, Value v);

/// Makes random expressions over a few variables.
class Maker {
 public:
  Maker(Graph& graph, uint64_t seed) : graph_(graph), random_(seed) {}

  /// An expression of this type with about `size` ops.
  UOp expression(Scalar type, int size);
  /// A node that the pattern might match; empty if the dice fell badly.
  UOp instance(const Pat& pattern, Scalar type);
  /// Random values for all variables below the nodes, often at their bounds.
  Environment values(std::initializer_list<UOp> roots);

  UOp constant(Scalar type);
  UOp variable(Scalar type);
  void forget() { bound_.clear(); }
  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  Scalar any_type(ScalarSet allowed);

 private:
  Int128 number(Scalar type);
  UOp sum_of_products(int terms);
  UOp operation(Op op, Scalar type, int size);
  UOp free_node(const PatNode& pattern, Scalar type);

  Graph& graph_;
  std::mt19937_64 random_;
  std::map<std::string, UOp> bound_;
};

/// A short form of an expression for messages.
std::string show(UOp x);

}  // namespace quern::testing
