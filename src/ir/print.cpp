#include <bit>
#include <charconv>
#include <cmath>

#include "quern/error.h"

#include "ir/node_map.h"
#include "ir/print_payload.h"
#include "ir/text.h"

namespace quern {

namespace {

/// What the reference counts of each node below the root: its number in order of first visit, and its uses.
struct Visit {
  uint32_t number = 0;
  uint32_t uses = 0;
  bool printed = false;
};

/// In the reference a NaN equals nothing, not even another NaN: each is a node of its own.
bool is_nan(UOp u) { return u.is_const() && u.dtype().is_float() && std::isnan(u.const_float()); }

NodeMap<Visit> visit_all(UOp root) {
  NodeMap<Visit> visits;
  uint32_t count = 0;
  std::vector<std::pair<UOp, uint32_t>> stack{{root, 0}};
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next == node.num_src()) {
      stack.pop_back();
      continue;
    }
    UOp source = node.src(next++);
    if (is_nan(source)) {
      ++count;
      continue;
    }
    Visit& visit = visits[source];
    if (visit.uses++ > 0) continue;
    visit.number = count++;
    stack.emplace_back(source, 0);
  }
  return visits;
}

void print_graph(Writer& out, UOp root) {
  NodeMap<Visit> visits = visit_all(root);
  std::vector<std::pair<UOp, uint32_t>> stack;
  // Prints a node up to its sources; false if its name alone stands for it.
  auto open = [&](UOp node) {
    size_t indent = stack.size() * 2;
    Visit& visit = visits[node];
    if (out.style == TextStyle::Indented) out.text.append(indent, ' ');
    if (visit.printed) {
      if (out.style == TextStyle::Indented) out.text += ' ';
      out.text += "x" + std::to_string(visit.number);
      return false;
    }
    visit.printed = !is_nan(node);
    if (visit.uses > 1) out.text += "x" + std::to_string(visit.number) + ":=";
    out.text += "UOp(Ops.";
    out.text += to_string(node.op());
    out.comma();
    out.dtype(node.dtype());
    out.comma();
    out.text += "arg=";
    print_payload(out, node);
    out.comma();
    out.text += "src=(";
    stack.emplace_back(node, 0);
    return true;
  };
  open(root);
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next == node.num_src()) {
      stack.pop_back();
      out.text += "))";
      if (!stack.empty()) out.text += ',';
      continue;
    }
    UOp source = node.src(next++);
    if (out.style == TextStyle::Indented) out.text += '\n';
    if (!open(source)) out.text += ',';
  }
}

}  // namespace

void Writer::dtype(const DType& type) {
  std::string spelled = to_string(in_payload && type.is_index() ? DType(Scalar::Int32, type.count) : type);
  for (char c : spelled)
    if (c != ' ' || style == TextStyle::Indented) text += c;
}

void Writer::sint(const SInt& value) {
  if (value.is_int()) {
    text += std::to_string(value.value());
    return;
  }
  bool outer = in_payload;
  in_payload = true;
  print_graph(*this, value.expr());
  in_payload = outer;
}

std::string print(UOp root, TextStyle style) {
  Writer out{style};
  print_graph(out, root);
  return std::move(out.text);
}

std::string print(const ShapeTracker& st, TextStyle style) {
  Writer out{style};
  print_tracker(out, st);
  return std::move(out.text);
}

std::string print(const SInt& value) {
  return value.is_int() ? std::to_string(value.value()) : print_infix(value.expr());
}

namespace {

std::string_view infix_symbol(Op op) {
  switch (op) {
    case Op::Add: return "+";
    case Op::Sub: return "-";
    case Op::Mul: return "*";
    case Op::Fdiv: return "/";
    case Op::Idiv: return "//";
    case Op::Mod: return "%";
    case Op::Shl: return "<<";
    case Op::Shr: return ">>";
    case Op::Cmplt: return "<";
    case Op::Cmpne: return "!=";
    case Op::And: return "&";
    case Op::Or: return "|";
    case Op::Xor: return "^";
    default: return {};
  }
}

/// Empty if the op has no infix form.
std::string infix_node(UOp u, const NodeMap<std::string>& known) {
  auto at = [&](size_t i) { return known.get(u.src(i)); };
  switch (u.op()) {
    case Op::DefineVar: return std::get<const VarArg*>(u.arg())->name;
    case Op::Special: return std::get<const SpecialArg*>(u.arg())->name;
    case Op::Range: return "ridx" + std::to_string(std::get<RangeArg>(u.arg()).axis);
    case Op::Const: return print_constant(u.dtype().scalar, std::get<ConstBits>(u.arg()));
    case Op::Bind:
    case Op::Cast: return at(0);
    case Op::Neg: return "(-" + at(0) + ")";
    case Op::Max: return "max(" + at(0) + ", " + at(1) + ")";
    case Op::Mulacc: return "(" + at(0) + "*" + at(1) + "+" + at(2) + ")";
    case Op::Where: return "(" + at(1) + " if " + at(0) + " else " + at(2) + ")";
    default: break;
  }
  std::string_view symbol = infix_symbol(u.op());
  if (symbol.empty()) return {};
  return "(" + at(0) + std::string(symbol) + at(1) + ")";
}

}  // namespace

std::string print_infix(UOp index) {
  NodeMap<std::string> known;
  for (UOp u : toposort(index)) {
    std::string text = infix_node(u, known);
    if (text.empty()) return print(index);
    known[u] = std::move(text);
  }
  return known.get(index);
}

}  // namespace quern
