#include "ir/spec.h"

#include <algorithm>
#include <array>

#include "quern/error.h"

namespace quern {

namespace {

/// A node that is about to be, or is.
struct Draft {
  Op op;
  const DType& dtype;
  std::span<const UOp> src;
  const Arg& arg;

  const DType& type(size_t i) const { return src[i].dtype(); }
};

std::string number_of(size_t n, std::string_view what) {
  return std::to_string(n) + " " + std::string(what) + (n == 1 ? "" : "s");
}

// ---- number of sources ----

struct SourceCount {
  size_t min;
  size_t max;
};
constexpr size_t kMany = ~size_t{0};

constexpr SourceCount source_count(Op op) {
  switch (op) {
    case Op::View: return {0, 1};
    case Op::Load: return {1, 5};
    case Op::Store: return {2, 4};
    case Op::Assign: return {2, kMany};
    case Op::Index: return {2, 3};
    case Op::Preload:
    case Op::DefineAcc:
    case Op::If:
    case Op::Vectorize: return {1, kMany};
    default: break;
  }
  int arity = kOpTable[static_cast<size_t>(op)].arity;
  return arity == kVariadic ? SourceCount{0, kMany}
                            : SourceCount{static_cast<size_t>(arity), static_cast<size_t>(arity)};
}

std::string count_error(const Draft& n) {
  SourceCount want = source_count(n.op);
  if (n.src.size() >= want.min && n.src.size() <= want.max) return {};
  std::string expected = std::to_string(want.min);
  if (want.max == kMany)
    expected = "at least " + expected;
  else if (want.max != want.min)
    expected += " to " + std::to_string(want.max);
  return number_of(n.src.size(), "source") + ", not " + expected;
}

// ---- types ----

std::string type_error(const Draft& n, const std::string& wanted) {
  return "type is " + to_string(n.dtype) + ", not " + wanted;
}
std::string source_type_error(const Draft& n, size_t i, const std::string& wanted) {
  return "source " + std::to_string(i) + " (" + std::string(to_string(n.src[i].op())) + ") is " + to_string(n.type(i)) +
         ", not " + wanted;
}

std::string of_values(const Draft& n) {
  return n.dtype.is_ptr() || n.dtype.is_void() ? type_error(n, "of a value") : std::string();
}
std::string void_type(const Draft& n) {
  return n.dtype.is_void() && !n.dtype.is_ptr() ? "" : type_error(n, "dtypes.void");
}

std::string sources_like(const Draft& n, size_t from, const DType& type) {
  for (size_t i = from; i < n.src.size(); ++i)
    if (n.type(i) != type) return source_type_error(n, i, to_string(type));
  return {};
}

ScalarSet allowed_scalars(Op op) {
  constexpr ScalarSet kIntegral = kAllInts | kBoolOnly;
  switch (op) {
    case Op::Exp2:
    case Op::Log2:
    case Op::Sin:
    case Op::Sqrt:
    case Op::Recip:
    case Op::Fdiv: return kFloats;
    case Op::Idiv:
    case Op::Mod:
    case Op::Shl:
    case Op::Shr: return kAllInts;
    case Op::And:
    case Op::Or:
    case Op::Xor: return kIntegral;
    case Op::Threefry: return scalar_bit(Scalar::UInt64);
    default: return kIntegral | kFloats;
  }
}

std::string alu(const Draft& n) {
  if (std::string e = of_values(n); !e.empty()) return e;
  const bool compares = n.op == Op::Cmplt || n.op == Op::Cmpne;
  const DType operand = compares ? n.type(0) : n.dtype;
  if (compares && n.dtype != DType(Scalar::Bool, operand.count))
    return type_error(n, to_string(DType(Scalar::Bool, operand.count)));
  if (operand.is_ptr() || !operand.is_in(allowed_scalars(n.op)))
    return std::string(to_string(n.op)) + " is not defined on " + to_string(operand);
  const bool shifts = n.op == Op::Shl || n.op == Op::Shr;
  if (!shifts) return sources_like(n, 0, operand);
  if (n.type(0) != operand) return source_type_error(n, 0, to_string(operand));
  if (!n.type(1).is_int() || n.type(1).is_ptr() || n.type(1).count != operand.count)
    return source_type_error(n, 1, "an integer of as many lanes");
  return {};
}

std::string where(const Draft& n) {
  if (std::string e = of_values(n); !e.empty()) return e;
  DType condition(Scalar::Bool, n.dtype.count);
  return n.type(0) != condition ? source_type_error(n, 0, to_string(condition)) : sources_like(n, 1, n.dtype);
}

std::string cast(const Draft& n) {
  if (n.dtype.is_ptr()) return n.type(0).is_ptr() ? "" : source_type_error(n, 0, "a pointer");
  if (std::string e = of_values(n); !e.empty()) return e;
  if (n.type(0).is_ptr() || n.type(0).is_void()) return source_type_error(n, 0, "a value");
  if (n.type(0).count != n.dtype.count) return source_type_error(n, 0, number_of(n.dtype.count, "lane"));
  if (n.op == Op::Bitcast && n.type(0).itemsize() != n.dtype.itemsize())
    return source_type_error(n, 0, number_of(static_cast<size_t>(n.dtype.itemsize()), "byte"));
  return {};
}

std::string vectorize(const Draft& n) {
  if (n.dtype.lanes() != static_cast<int>(n.src.size()) && !n.dtype.is_void())
    return number_of(n.src.size(), "source") + " for " + to_string(n.dtype);
  return sources_like(n, 0, n.dtype.scalar_type());
}

// ---- payloads ----

template <class T>
const T* payload(const Draft& n) {
  auto* held = std::get_if<const T*>(&n.arg);
  return held ? *held : nullptr;
}

bool is_identifier(std::string_view name) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || digit(c); });
}

std::string name_error(std::string_view name) {
  return is_identifier(name) ? std::string() : "\"" + std::string(name) + "\" is not a name";
}

std::string no_payload(const Draft& n) {
  return std::holds_alternative<std::monostate>(n.arg) ? "" : "a payload where none belongs";
}

std::string gep(const Draft& n) {
  auto* lanes = payload<Lanes>(n);
  if (!lanes || lanes->empty()) return "no lanes";
  if (n.dtype != n.type(0).scalar_type().vec(static_cast<int>(lanes->size())))
    return type_error(n, to_string(n.type(0).scalar_type().vec(static_cast<int>(lanes->size()))));
  for (int32_t lane : *lanes)
    if (lane < 0 || lane >= n.type(0).lanes()) return "lane " + std::to_string(lane) + " of " + to_string(n.type(0));
  return {};
}

std::string expand(const Draft& n) {
  auto* axes = payload<Axes>(n);
  if (!axes) return "no axes";
  Int128 product = 1;
  for (AxisSize a : *axes)
    if (product < kUnbounded) product *= a.size;
  const bool contracts = n.op == Op::Contract;
  const DType& wide = contracts ? n.dtype : n.type(0);
  const DType& narrow = contracts ? n.type(0) : n.dtype;
  if (wide.is_void() || (wide.lanes() == product * narrow.lanes() && wide.scalar_type() == narrow.scalar_type()))
    return {};
  return to_string(wide) + " for axes of " + to_string(product) + " elements of " + to_string(narrow);
}

std::string reduce(const Draft& n) {
  auto* r = payload<ReduceArg>(n);
  if (!r) return "no axes";
  if (r->op != Op::Add && r->op != Op::Mul && r->op != Op::Max)
    return "a reduce by " + std::string(to_string(r->op)) + ", not by ADD, MUL or MAX";
  for (int32_t axis : r->axes)
    if (axis < 0) return "axis " + std::to_string(axis);
  if (std::string e = of_values(n); !e.empty()) return e;
  return sources_like(n, 0, n.dtype);
}

std::string constant(const Draft& n) {
  if (!std::holds_alternative<ConstBits>(n.arg)) return "no value";
  return of_values(n);
}

std::string const_vector(const Draft& n) {
  auto* values = payload<ConstVector>(n);
  if (!values || values->size() < 2 || values->size() != n.dtype.count)
    return number_of(values ? values->size() : 0, "value") + " for " + to_string(n.dtype);
  return of_values(n);
}

std::string variable(const Draft& n) {
  auto* v = payload<VarArg>(n);
  if (!v) return "no name and bounds";
  if (std::string e = name_error(v->name); !e.empty()) return e;
  if (!n.dtype.is_int() || n.dtype.is_ptr() || n.dtype.count != 1) return type_error(n, "an integer");
  if (v->min > v->max) return v->name + " has no values: " + std::to_string(v->min) + " to " + std::to_string(v->max);
  if (v->min < min_value(n.dtype.scalar) || v->max > max_value(n.dtype.scalar))
    return v->name + " goes from " + std::to_string(v->min) + " to " + std::to_string(v->max) + ", beyond " +
           to_string(n.dtype);
  return {};
}

std::string global(const Draft& n) {
  if (!std::holds_alternative<int64_t>(n.arg)) return "no number";
  return n.dtype.is_ptr() && !n.dtype.is_local() ? "" : type_error(n, "a pointer or an image");
}

std::string local(const Draft& n) {
  auto* l = payload<LocalArg>(n);
  if (!l) return "no name and size";
  if (std::string e = name_error(l->name); !e.empty()) return e;
  return n.dtype.is_local() ? "" : type_error(n, "a local pointer");
}

std::string special(const Draft& n) {
  auto* s = payload<SpecialArg>(n);
  if (!s) return "no name and size";
  if (s->size.is_int() && s->size.value() < 1) return s->name + " of size " + std::to_string(s->size.value());
  if (std::string e = name_error(s->name); !e.empty()) return e;
  return n.dtype.is_int() ? "" : type_error(n, "an integer");
}

std::string range(const Draft& n) {
  if (!std::holds_alternative<RangeArg>(n.arg)) return "no axis";
  if (!n.dtype.is_int() || n.dtype.is_ptr()) return type_error(n, "an integer");
  return sources_like(n, 0, n.dtype);
}

std::string wmma(const Draft& n) {
  auto* w = payload<WmmaArg>(n);
  if (!w) return "no tensor core";
  if (std::string e = name_error(w->name); !e.empty()) return e;
  return of_values(n);
}

std::string view(const Draft& n) { return payload<ShapeTracker>(n) ? "" : "no ShapeTracker"; }

std::string valid(const Draft& n) { return n.dtype == DType(Scalar::Bool) ? "" : type_error(n, "dtypes.bool"); }

std::string sink(const Draft& n) {
  if (!std::holds_alternative<std::monostate>(n.arg) && !std::holds_alternative<KernelInfo>(n.arg))
    return "a payload that is no KernelInfo";
  return void_type(n);
}

std::string index(const Draft& n) {
  if (!n.type(0).is_ptr()) return source_type_error(n, 0, "a pointer");
  if (!n.dtype.is_ptr()) return type_error(n, "a pointer");
  if (!n.type(1).is_int() || n.type(1).is_ptr()) return source_type_error(n, 1, "an integer");
  if (n.src.size() > 2 && !n.type(2).is_bool()) return source_type_error(n, 2, "a bool");
  return {};
}

std::string load(const Draft& n) { return of_values(n); }

std::string accumulator(const Draft& n) {
  if (!payload<Lanes>(n)) return "no number";
  return of_values(n);
}

std::string same_as_source(const Draft& n) {
  if (std::string e = no_payload(n); !e.empty()) return e;
  return sources_like(n, 0, n.dtype);
}

std::string bind(const Draft& n) {
  if (!n.src[0].is(Op::DefineVar)) return "binds a " + std::string(to_string(n.src[0].op())) + ", not a DEFINE_VAR";
  return same_as_source(n);
}

std::string endrange(const Draft& n) {
  return n.src[0].is(Op::Range) ? "" : "ends a " + std::string(to_string(n.src[0].op())) + ", not a RANGE";
}
std::string endif(const Draft& n) {
  return n.src[0].is(Op::If) ? "" : "ends a " + std::string(to_string(n.src[0].op())) + ", not an IF";
}

std::string not_of_kernels(const Draft&) { return "not an op of kernels"; }
std::string anything(const Draft&) { return {}; }

using Check = std::string (*)(const Draft&);

constexpr Check check_of(Op op) {
  switch (op) {
    case Op::Sink: return sink;
    case Op::View: return view;
    case Op::DefineGlobal: return global;
    case Op::DefineVar: return variable;
    case Op::DefineLocal: return local;
    case Op::DefineAcc: return accumulator;
    case Op::Valid: return valid;
    case Op::Special: return special;
    case Op::ReduceAxis: return reduce;
    case Op::Gep: return gep;
    case Op::Vectorize: return vectorize;
    case Op::Cast:
    case Op::Bitcast: return cast;
    case Op::Expand:
    case Op::Contract: return expand;
    case Op::Load: return load;
    case Op::Wmma: return wmma;
    case Op::Where: return where;
    case Op::Bind: return bind;
    case Op::Contiguous: return same_as_source;
    case Op::Index: return index;
    case Op::Range: return range;
    case Op::Endrange: return endrange;
    case Op::Endif: return endif;
    case Op::Vconst: return const_vector;
    case Op::Const: return constant;
    case Op::Copy:
    case Op::Empty:
    case Op::BufferView:
    case Op::Buffer: return not_of_kernels;
    default: return kAluOps.contains(op) ? alu : anything;
  }
}

constexpr auto kChecks = [] {
  std::array<Check, kNumOps> checks{};
  for (int i = 0; i < kNumOps; ++i) checks[static_cast<size_t>(i)] = check_of(static_cast<Op>(i));
  return checks;
}();

std::string draft_error(const Draft& n) {
  std::string error = count_error(n);
  return error.empty() ? kChecks[static_cast<size_t>(n.op)](n) : error;
}

}  // namespace

std::string form_error(Op op, const DType& dtype, std::span<const UOp> src, const Arg& arg) {
  return draft_error({op, dtype, src, arg});
}

}  // namespace quern
