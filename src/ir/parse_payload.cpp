#include <bit>
#include <charconv>
#include <limits>

#include "ir/eval.h"
#include "ir/parse_reader.h"

namespace quern {

namespace {

constexpr int64_t kMaxLanes = std::numeric_limits<uint16_t>::max();
constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
constexpr int64_t kMinInt64 = std::numeric_limits<int64_t>::min();

struct Alias {
  std::string_view name;
  Scalar scalar;
};
constexpr Alias kAliases[] = {
    {"int8", Scalar::Int8},    {"uint8", Scalar::UInt8},   {"int16", Scalar::Int16},    {"uint16", Scalar::UInt16},
    {"int32", Scalar::Int32},  {"uint32", Scalar::UInt32}, {"int64", Scalar::Int64},    {"uint64", Scalar::UInt64},
    {"float16", Scalar::Half}, {"float32", Scalar::Float}, {"float64", Scalar::Double},
};

std::optional<Scalar> scalar_called(std::string_view name) {
  if (auto scalar = scalar_from_text(name)) return scalar;
  for (const Alias& a : kAliases)
    if (a.name == name) return a.scalar;
  return std::nullopt;
}

bool looks_like_number(char c) { return (c >= '0' && c <= '9') || c == '-' || c == 'i' || c == 'n'; }

/// What a payload looks like from its first character on, for messages; empty if like none.
std::string kind_at(char first) {
  switch (first) {
    case 'N': return "None";
    case 'T':
    case 'F': return "a bool";
    case '(': return "a tuple";
    case '\'':
    case '"': return "a string";
    case 'S': return "a ShapeTracker";
    case 'K': return "a KernelInfo";
    default: return looks_like_number(first) ? "a number" : "";
  }
}

/// The views' elements and the places they reach, within 64 bits.
std::string extent_error(const View& v) {
  Int128 elements = 1, low = 0, high = 0;
  auto offset = v.offset.is_int() ? Int128{v.offset.value()} : Int128{0};
  for (size_t i = 0; i < v.shape.size(); ++i) {
    Int128 size = v.shape[i].is_int() ? Int128{v.shape[i].value()} : v.shape[i].expr().vmax();
    if (size > kMaxInt64) return "a size of more than 64 bits";
    elements *= std::max<Int128>(size, 1);
    if (elements > kMaxInt64) return "more than 2^63 elements";
    if (!v.strides[i].is_int() || size == 0) continue;
    Int128 reach = Int128{v.strides[i].value()} * (size - 1);
    (reach < 0 ? low : high) += reach;
  }
  if (offset + low < kMinInt64 || offset + high > kMaxInt64) return "reaches past 64 bits";
  return {};
}

std::string mask_error(const View& v) {
  if (v.mask->size() != v.shape.size())
    return std::to_string(v.mask->size()) + " mask ranges for " + std::to_string(v.shape.size()) + " axes";
  for (size_t i = 0; i < v.shape.size(); ++i) {
    const auto& [first, last] = (*v.mask)[i];
    if (!first.is_int() || !last.is_int() || !v.shape[i].is_int()) continue;
    if (first.value() < 0 || first.value() > last.value() || last.value() > v.shape[i].value())
      return "mask (" + std::to_string(first.value()) + ", " + std::to_string(last.value()) + ") of an axis of " +
             std::to_string(v.shape[i].value());
  }
  return {};
}

/// Brings a view to the form shape/view.h makes: stride 0 on axes of size 1, no mask that excludes nothing, and its
/// `contiguous` as it is. Gives what is wrong with it, if anything.
std::string tidy_view(View& v) {
  if (v.strides.size() != v.shape.size())
    return std::to_string(v.strides.size()) + " strides for " + std::to_string(v.shape.size()) + " axes";
  bool all_int = v.offset.is_int(), empty = false;
  for (size_t i = 0; i < v.shape.size(); ++i) {
    const SInt& size = v.shape[i];
    if (size.is_int() ? size.value() < 0 : size.expr().vmin() < 0) return "a size that may be negative";
    if (size == 1) v.strides[i] = 0;
    if (size == 0) empty = true;
    all_int = all_int && size.is_int() && v.strides[i].is_int();
  }
  if (v.mask) {
    if (std::string error = mask_error(v); !error.empty()) return error;
    bool whole = true;
    for (size_t i = 0; i < v.shape.size(); ++i) whole = whole && (*v.mask)[i] == Bounds{0, v.shape[i]};
    if (whole) v.mask.reset();
  }
  if (std::string error = extent_error(v); !error.empty()) return error;
  if (!all_int || empty) return {};
  int64_t step = 1;
  v.contiguous = !v.mask && v.offset == 0;
  for (size_t i = v.shape.size(); i-- > 0; step *= v.shape[i].value())
    if (v.shape[i].value() != 1 && v.strides[i].value() != step) v.contiguous = false;
  return {};
}

}  // namespace

DType Reader::read_dtype() {
  in_.expect("dtypes.");
  const size_t place = in_.place();
  std::string_view name = in_.word();
  DType t;
  if (name == "imagef" || name == "imageh") {
    in_.expect('(');
    in_.expect('(');
    int64_t height = in_.integer(1, kMaxInt32);
    in_.expect(',');
    int64_t width = in_.integer(1, kMaxInt32);
    in_.expect(',');
    in_.expect('4');
    in_.accept(',');
    in_.expect(')');
    in_.expect(')');
    t = image_type(name == "imageh", static_cast<uint32_t>(height), static_cast<uint32_t>(width));
  } else if (auto scalar = scalar_called(name)) {
    t = *scalar;
  } else {
    in_.fail_at(place, "the name of a dtype");
  }
  while (in_.accept('.')) {
    const size_t method = in_.place();
    std::string_view what = in_.word();
    in_.expect('(');
    if (what == "vec") {
      if (t.is_void() || t.lanes() != 1) in_.fail_at(method, "a dtype of one lane before vec");
      t = t.vec(static_cast<int>(in_.integer(1, kMaxLanes)));
    } else if (what == "ptr") {
      if (t.is_ptr() || t.is_void()) in_.fail_at(method, "a dtype of values before ptr");
      bool local = in_.accept("local=") && in_.boolean();
      t = t.ptr(local ? Space::Local : Space::Global);
    } else {
      in_.fail_at(method, "vec or ptr");
    }
    in_.expect(')');
  }
  return t;
}

/// The payload of an op that may have none. `()` is how kernels spell the empty payload of an ASSIGN.
std::optional<Arg> Reader::read_none(Op op, const DType&) {
  if (in_.accept("None")) return Arg();
  if (op == Op::Assign && in_.accept('(')) {
    in_.expect(')');
    return Arg();
  }
  return std::nullopt;
}

Arg Reader::read_payload(Op op, const DType& dtype) {
  const size_t place = in_.place();
  const char first = in_.peek();
  auto need = [&](bool fits, const std::string& what) {
    if (fits) return;
    std::string kind = kind_at(first);
    if (kind.empty() || kind == what) in_.fail(what);
    refuse(place, op, "payload is " + kind + ", not " + what);
  };
  switch (op) {
    case Op::View: need(first == 'S', "a ShapeTracker"); return graph_.intern(read_tracker());
    case Op::DefineGlobal: need(looks_like_number(first), "a number"); return in_.integer(0, kMaxInt32);
    case Op::Const:
      need(looks_like_number(first) || first == 'T' || first == 'F', "a number");
      return read_constant(op, dtype.scalar);
    case Op::ReduceAxis: need(first == '(', "a tuple"); return graph_.intern(read_reduce());
    case Op::DefineVar: need(first == '(', "a tuple"); return graph_.intern(read_var());
    case Op::DefineLocal: need(first == '(', "a tuple"); return graph_.intern(read_local());
    case Op::Special: need(first == '(', "a tuple"); return graph_.intern(read_special());
    case Op::Wmma: need(first == '(', "a tuple"); return graph_.intern(read_wmma());
    case Op::Vconst: need(first == '(', "a tuple"); return graph_.intern(read_const_vector(op, dtype));
    case Op::Gep:
    case Op::DefineAcc: need(first == '(', "a tuple"); return graph_.intern(Lanes(read_ints()));
    case Op::Expand:
    case Op::Contract: need(first == '(', "a tuple"); return graph_.intern(read_axes());
    case Op::Range: {
      need(first == '(', "a tuple");
      in_.expect('(');
      auto axis = static_cast<int32_t>(in_.integer(-kMaxInt32, kMaxInt32));
      in_.expect(',');
      bool reduce = in_.boolean();
      in_.accept(',');
      in_.expect(')');
      return RangeArg{axis, reduce};
    }
    case Op::Sink:
      if (first == 'K') return read_kernel_info();
      break;
    case Op::Noop:
    case Op::If:
      if (first == '\'' || first == '"') return graph_.intern(in_.quoted());
      break;
    default: break;
  }
  auto none = read_none(op, dtype);
  need(none.has_value(), "None");
  return *none;
}

ConstBits Reader::read_constant(Op op, Scalar scalar) {
  const size_t place = in_.place();
  if (scalar == Scalar::Void) refuse(place, op, "a constant of dtypes.void");
  if (in_.peek() == 'T' || in_.peek() == 'F') {
    int64_t value = in_.boolean();
    return scalar_bit(scalar) & kFloats ? ConstBits{std::bit_cast<uint64_t>(static_cast<double>(value))}
                                        : ConstBits{static_cast<uint64_t>(value)};
  }
  if (scalar_bit(scalar) & kFloats) return {std::bit_cast<uint64_t>(read_float())};
  std::string_view text = Cursor(in_).number_text();
  if (text.find_first_of(".einEIN") != std::string_view::npos)
    refuse(place, op, std::string(text) + " is not a value of dtypes." + std::string(to_string(scalar)));
  Int128 value = in_.integer();
  // Any 64-bit spelling is taken and wraps to the dtype, as it does when the reference stores it.
  bool fits = value >= kMinInt64 && value <= Int128{std::numeric_limits<uint64_t>::max()};
  if (scalar == Scalar::Index) fits = value >= kMinInt64 && value <= kMaxInt64;
  if (scalar == Scalar::Bool) fits = value == 0 || value == 1;
  if (!fits) refuse(place, op, to_string(value) + " is not a value of dtypes." + std::string(to_string(scalar)));
  return {static_cast<uint64_t>(wrap(scalar, value))};
}

double Reader::read_float() {
  const size_t place = in_.place();
  std::string_view text = in_.number_text();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool plain = text.find_first_of("nN") == std::string_view::npos || text == "inf" || text == "-inf";
  if (error == std::errc::result_out_of_range) in_.fail_at(place, "a number in the range of double");
  if (error != std::errc() || end != text.data() + text.size() || !plain) in_.fail_at(place, "a number");
  return value;
}

KernelInfo Reader::read_kernel_info() {
  constexpr int64_t kMax = std::numeric_limits<int16_t>::max();
  KernelInfo k;
  in_.expect("KernelInfo");
  in_.expect('(');
  while (!in_.accept(')')) {
    const size_t place = in_.place();
    std::string_view field = in_.word();
    in_.expect('=');
    if (field == "local_dims")
      k.local_dims = static_cast<int16_t>(in_.integer(0, kMax));
    else if (field == "upcasted")
      k.upcasted = static_cast<int16_t>(in_.integer(0, kMax));
    else if (field == "dont_use_locals")
      k.dont_use_locals = in_.boolean();
    else if (field == "thread_dims")
      k.thread_dims = static_cast<int16_t>(in_.integer(0, 1));
    else
      in_.fail_at(place, "local_dims, upcasted, dont_use_locals or thread_dims");
    if (!in_.accept(',') && in_.peek() != ')') in_.fail("',' or ')'");
  }
  return k;
}

ReduceArg Reader::read_reduce() {
  in_.expect('(');
  in_.expect("Ops.");
  const size_t place = in_.place();
  std::optional<Op> op = op_from_text(in_.word());
  if (!op) in_.fail_at(place, "the name of an op");
  in_.expect(',');
  ReduceArg arg{*op, read_ints()};
  in_.accept(',');
  in_.expect(')');
  return arg;
}

VarArg Reader::read_var() {
  VarArg v;
  in_.expect('(');
  v.name = in_.quoted();
  in_.expect(',');
  v.min = in_.integer(kMinInt64, kMaxInt64);
  in_.expect(',');
  v.max = in_.integer(kMinInt64, kMaxInt64);
  in_.accept(',');
  in_.expect(')');
  return v;
}

LocalArg Reader::read_local() {
  LocalArg l;
  in_.expect('(');
  l.name = in_.quoted();
  in_.expect(',');
  l.size = in_.integer(0, kMaxInt64);
  in_.accept(',');
  in_.expect(')');
  return l;
}

SpecialArg Reader::read_special() {
  SpecialArg s;
  in_.expect('(');
  s.name = in_.quoted();
  in_.expect(',');
  s.size = read_sint();
  in_.accept(',');
  in_.expect(')');
  return s;
}

WmmaArg Reader::read_wmma() {
  WmmaArg w;
  in_.expect('(');
  w.name = in_.quoted();
  in_.expect(',');
  const size_t place = in_.place();
  std::vector<int32_t> dims = read_ints();
  if (dims.size() != w.dims.size()) in_.fail_at(place, "three dims");
  std::copy(dims.begin(), dims.end(), w.dims.begin());
  in_.expect(',');
  w.dtype_in = read_dtype().scalar;
  in_.expect(',');
  w.dtype_out = read_dtype().scalar;
  in_.expect(',');
  w.device = in_.quoted();
  in_.expect(',');
  w.threads = static_cast<int32_t>(in_.integer(1, kMaxInt32));
  in_.expect(',');
  in_.expect('(');
  for (size_t i = 0; i < w.upcast_axes.size(); ++i) {
    if (i > 0) in_.expect(',');
    w.upcast_axes[i] = read_axes();
  }
  in_.accept(',');
  in_.expect(')');
  in_.expect(',');
  w.reduce_axes = read_ints();
  in_.accept(',');
  in_.expect(')');
  return w;
}

ConstVector Reader::read_const_vector(Op op, const DType& dtype) {
  ConstVector values;
  read_tuple([&] { values.push_back(read_constant(op, dtype.scalar)); });
  return values;
}

std::vector<int32_t> Reader::read_ints() {
  std::vector<int32_t> values;
  read_tuple([&] { values.push_back(static_cast<int32_t>(in_.integer(-kMaxInt32, kMaxInt32))); });
  return values;
}

Axes Reader::read_axes() {
  Axes axes;
  read_tuple([&] {
    in_.expect('(');
    auto axis = static_cast<int32_t>(in_.integer(-kMaxInt32, kMaxInt32));
    in_.expect(',');
    auto size = static_cast<int32_t>(in_.integer(1, kMaxInt32));
    in_.accept(',');
    in_.expect(')');
    axes.push_back({axis, size});
  });
  return axes;
}

ShapeTracker Reader::read_tracker() {
  const size_t place = in_.place();
  in_.expect("ShapeTracker");
  in_.expect('(');
  in_.expect("views");
  in_.expect('=');
  ShapeTracker st;
  read_tuple([&] { st.views.push_back(read_view()); });
  in_.expect(')');
  if (st.views.empty()) refuse(place, Op::View, "no views");
  return st;
}

View Reader::read_view() {
  const size_t place = in_.place();
  View v;
  in_.expect("View");
  in_.expect('(');
  in_.expect("shape");
  in_.expect('=');
  read_sints(scratch_);
  v.shape.assign(scratch_.begin(), scratch_.end());
  in_.expect_keyword("strides");
  read_sints(scratch_);
  v.strides.assign(scratch_.begin(), scratch_.end());
  in_.expect_keyword("offset");
  v.offset = read_sint();
  in_.expect_keyword("mask");
  if (!in_.accept("None")) {
    Mask mask;
    mask.reserve(v.shape.size());
    read_tuple([&] {
      in_.expect('(');
      SInt first = read_sint();
      in_.expect(',');
      SInt last = read_sint();
      in_.accept(',');
      in_.expect(')');
      mask.emplace_back(first, last);
    });
    v.mask = std::move(mask);
  }
  in_.expect_keyword("contiguous");
  v.contiguous = in_.boolean();
  in_.accept(',');
  in_.expect(')');
  if (std::string error = tidy_view(v); !error.empty()) refuse(place, Op::View, error);
  return v;
}

SInt Reader::read_sint() {
  int64_t small = 0;
  const char first = in_.peek();
  if (in_.accept_small(small)) return small;
  if (first == '-' || (first >= '0' && first <= '9')) return in_.integer(kMinInt64, kMaxInt64);
  if (first != 'U' && first != 'x') in_.fail("an integer or a node");
  const size_t place = in_.place();
  UOp node = read_node(Place::Payload);
  if (!node.dtype().is_index() || node.dtype().count != 1) refuse(place, node.op(), "not an integer");
  return node;
}

void Reader::read_sints(std::vector<SInt>& out) {
  out.clear();
  read_tuple([&] { out.push_back(read_sint()); });
}

}  // namespace quern
