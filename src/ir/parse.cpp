#include "ir/parse_reader.h"
#include "ir/spec.h"
#include "ir/text.h"

namespace quern {

namespace {

/// What a symbolic int may be made of.
constexpr OpSet kPayloadOps = kAluOps | OpSet{Op::Const, Op::DefineVar, Op::Bind, Op::Cast};

}  // namespace

UOp parse(Graph& graph, std::string_view text) { return Reader(graph, text).read(); }

UOp Reader::read() {
  UOp root = read_node(Place::Kernel);
  if (!in_.at_end()) in_.fail("the end of the text");
  return root;
}

UOp Reader::read_node(Place where) {
  const size_t base = frames_.size();
  Names names;
  while (true) {
    // A finished node is a source of the frame below, and may be the last one that frame waits for.
    for (UOp node = begin_node(where, names); node;) {
      if (frames_.size() == base) return node;
      sources_.push_back(node);
      if (!in_.accept(',') && in_.peek() != ')') in_.fail("',' or ')'");
      node = in_.accept(')') ? end_node(names) : UOp();
    }
  }
}

/// Reads a name's use, or a node up to its sources; the node if it is finished by that, else its frame is left open.
UOp Reader::begin_node(Place where, Names& names) {
  const size_t place = in_.place();
  int64_t name = -1;
  if (in_.accept('x')) {
    name = in_.integer(0, INT32_MAX);
    if (!in_.accept(":=")) return named_node(static_cast<uint64_t>(name), place, names);
    if (!names.emplace(name, Name{UOp(), place}).second)
      in_.fail_at(place, "a name that is not taken (x" + std::to_string(name) + " is defined before)");
  }
  const size_t node_place = in_.place();
  if (!in_.accept("UOp")) in_.fail(name < 0 ? "\"UOp(\" or a node's name" : "\"UOp(\"");
  in_.expect('(');
  in_.expect("Ops.");
  const size_t op_place = in_.place();
  std::optional<Op> op = op_from_text(in_.word());
  if (!op) in_.fail_at(op_place, "the name of an op");
  if (where == Place::Payload && !kPayloadOps.contains(*op)) refuse(node_place, *op, "not an op of symbolic ints");
  in_.expect(',');
  const size_t dtype_place = in_.place();
  DType dtype = read_dtype();
  if (where == Place::Payload) {
    // The reference's symbolic ints are of its int type; ours are unbounded.
    if (dtype == DType(Scalar::Int32) || dtype == DType(Scalar::Int64)) dtype = Scalar::Index;
    if (!dtype.is_index() && !dtype.is_bool()) in_.fail_at(dtype_place, "dtypes.int or dtypes.bool in a symbolic int");
  }
  in_.expect_keyword("arg");
  Arg arg = read_payload(*op, dtype);
  in_.expect_keyword("src");
  in_.expect('(');
  frames_.push_back({node_place, *op, dtype, arg, name, sources_.size()});
  return in_.accept(')') ? end_node(names) : UOp();
}

UOp Reader::end_node(Names& names) {
  in_.expect(')');
  const Frame frame = frames_.back();
  frames_.pop_back();
  std::span<const UOp> src(sources_.data() + frame.first_source, sources_.size() - frame.first_source);
  if (std::string error = form_error(frame.op, frame.dtype, src, frame.arg); !error.empty())
    refuse(frame.place, frame.op, error);
  UOp node = graph_.node(frame.op, frame.dtype, src, frame.arg);
  sources_.resize(frame.first_source);
  if (frame.name >= 0) names[static_cast<uint64_t>(frame.name)].node = node;
  return node;
}

UOp Reader::named_node(uint64_t name, size_t place, const Names& names) const {
  auto found = names.find(name);
  std::string text = "x" + std::to_string(name);
  if (found == names.end()) in_.fail_at(place, "a name defined before its use (" + text + " is not)");
  if (!found->second.node)
    in_.fail_at(place, "a name defined before its use (" + text + " is used inside its own definition: a cycle)");
  return found->second.node;
}

void Reader::refuse(size_t place, Op op, const std::string& reason) const {
  throw InvalidKernel("[" + std::string(to_string(op)) + "] " + reason + " (" + in_.where(place) + ")");
}

}  // namespace quern
