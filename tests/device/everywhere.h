#pragma once
// A kernel on every device, under many opts, against the values it should give.

#include <initializer_list>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "quern/quern.h"

#include "ir/eval.h"
#include "ir/graph.h"

namespace quern::test {

/// Elements of a buffer, each a value of its type.
struct Elements {
  DataType type;
  std::vector<ConstBits> values;
  size_t size() const { return values.size(); }
  bool operator==(const Elements&) const = default;
};

Scalar scalar_of(DataType type);
DataType data_type_of(Scalar scalar);

/// Ints wrap to the type, and floats round.
Elements ints(DataType type, const std::vector<Int128>& values);
Elements reals(DataType type, const std::vector<double>& values);
Elements filled(DataType type, size_t n, double value);
/// 0, 1, 2, ...
Elements count_up(DataType type, size_t n);
/// Element `i` is `value(i)`.
template <class F>
Elements tabulate(DataType type, size_t n, F&& value) {
  Elements all{type, {}};
  const Scalar s = scalar_of(type);
  for (size_t i = 0; i < n; ++i) {
    const auto v = value(i);
    all.values.push_back(DType(s).is_float() ? const_of_float(s, static_cast<double>(v))
                                             : const_of_int(s, static_cast<Int128>(v)));
  }
  return all;
}

/// Buffers by number.
using Filled = std::map<int, Elements>;

struct How {
  std::map<std::string, int64_t> variables = {};
  /// Lists to try beyond the usual ones; as with those, targets that refuse one skip it.
  std::vector<std::string> opts = {};
  /// Largest difference of floats, relative to the value; 0: the same bits (but for NaNs).
  double tolerance = 0;
  /// False: 0.0 and -0.0 are the same.
  bool signed_zeros = true;
  /// Only opts "none" and "heuristic", and what `opts` says.
  bool few_opts = false;
  /// Without the devices that start a compiler: for kernels that come in hundreds.
  bool in_process_only = false;
};

/// Runs `kernel` on all devices of this machine (in the interpreter for GPU targets too) under none, the heuristics' and several
/// lists of opts, and random ones; a mismatch or an error is a test failure that names device, target, opts and element. What
/// the kernel writes is garbage before each run.
void expect_everywhere(const KernelGraph& kernel, const Filled& inputs, const Filled& outputs, const How& how = {});

/// Repeats a constant: a value of shape (n) that the compiler knows. Reads buffer 90 as far as anyone can tell before folding.
Value folded(KernelBuilder& k, DataType type, ConstBits value, int64_t n);

// ---- kernels out of nodes, where views or ops are needed that the builder has not ----

KernelGraph kernel_of(const std::vector<UOp>& stores);
UOp load(Graph& g, int number, Scalar scalar, const ShapeTracker& st);
UOp store(Graph& g, int number, const ShapeTracker& st, UOp value);
UOp reduce(Op op, UOp value, std::vector<int32_t> axes);
/// 1, 2, ..., n along the axis `along`, counted by a reduce over the axis `over` of the same size: `shape` is of 1s but for these,
/// and expands to what else is needed. An int.
UOp count_from_one(Graph& g, int64_t n, size_t along, size_t over, size_t axes);

}  // namespace quern::test
