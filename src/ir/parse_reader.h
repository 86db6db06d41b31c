#pragma once
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "ir/parse_cursor.h"

namespace quern {

/// Reads one graph in the reference notation. Nodes nest without recursion; only a payload's expressions (the symbolic ints of a
/// view) are a text of their own, one level down, with names of their own.
class Reader {
 public:
  Reader(Graph& graph, std::string_view text) : graph_(graph), in_(text) {}
  /// The whole text.
  UOp read();

 private:
  enum class Place { Kernel, Payload };
  struct Name {
    UOp node;  // empty while its definition is open
    size_t place;
  };
  using Names = std::unordered_map<uint64_t, Name>;
  struct Frame {
    size_t place;  // of its "UOp("
    Op op;
    DType dtype;
    Arg arg;
    int64_t name;  // -1 if it has none
    size_t first_source;
  };

  // parse.cpp: nodes
  UOp read_node(Place where);
  UOp begin_node(Place where, Names& names);
  UOp end_node(Names& names);
  UOp named_node(uint64_t name, size_t place, const Names& names) const;
  [[noreturn]] void refuse(size_t place, Op op, const std::string& reason) const;

  // parse_payload.cpp: what stands in a node
  DType read_dtype();
  Arg read_payload(Op op, const DType& dtype);
  std::optional<Arg> read_none(Op op, const DType& dtype);
  ConstBits read_constant(Op op, Scalar scalar);
  double read_float();
  KernelInfo read_kernel_info();
  ReduceArg read_reduce();
  SpecialArg read_special();
  WmmaArg read_wmma();
  VarArg read_var();
  LocalArg read_local();
  ConstVector read_const_vector(Op op, const DType& dtype);
  std::vector<int32_t> read_ints();
  Axes read_axes();
  ShapeTracker read_tracker();
  View read_view();
  SInt read_sint();
  void read_sints(std::vector<SInt>& out);
  /// A Python tuple: calls `item` before each element.
  template <class F>
  void read_tuple(F&& item) {
    in_.expect('(');
    while (!in_.accept(')')) {
      item();
      if (in_.accept(',')) continue;
      in_.expect(')');
      break;
    }
  }

  Graph& graph_;
  Cursor in_;
  std::vector<Frame> frames_;
  std::vector<UOp> sources_;  // of all open frames
  std::vector<SInt> scratch_;
};

}  // namespace quern
