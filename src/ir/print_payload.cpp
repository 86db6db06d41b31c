#include "ir/print_payload.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

namespace quern {

namespace {

/// Python's repr of a double: the shortest digits that read back, in plain form from 1e-4 up to 1e16.
std::string print_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[32];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  (void)error;  // 32 characters always suffice
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), text.data() + text.size(), exponent);
  std::string sign = text[0] == '-' ? "-" : "", digits;
  for (char c : text.substr(0, e))
    if (c >= '0' && c <= '9') digits += c;
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    std::string out = sign + digits[0] + (count > 1 ? "." + digits.substr(1) : "");
    int magnitude = exponent < 0 ? -exponent : exponent;
    return out + (exponent < 0 ? "e-" : "e+") + (magnitude < 10 ? "0" : "") + std::to_string(magnitude);
  }
  // In plain form at least a digit stands on each side of the point.
  if (exponent < 0) digits.insert(0, static_cast<size_t>(-exponent), '0');
  const size_t point = static_cast<size_t>(std::max(exponent, 0)) + 1;
  if (digits.size() <= point) digits.append(point + 1 - digits.size(), '0');
  return sign + digits.insert(point, ".");
}

std::string quoted(std::string_view text) {
  std::string out = "'";
  for (char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

/// A Python tuple: a comma after a single element too.
template <class Range, class F>
void print_tuple(Writer& out, const Range& items, F&& item) {
  out.text += '(';
  size_t i = 0;
  for (const auto& x : items) {
    if (i++ > 0) out.comma();
    item(x);
  }
  out.text += items.size() == 1 ? ",)" : ")";
}

void print_ints(Writer& out, const std::vector<int32_t>& values) {
  print_tuple(out, values, [&](int32_t v) { out.text += std::to_string(v); });
}

void print_axes(Writer& out, const Axes& axes) {
  print_tuple(out, axes, [&](AxisSize a) {
    out.text += '(' + std::to_string(a.axis);
    out.comma();
    out.text += std::to_string(a.size) + ')';
  });
}

void print_view(Writer& out, const View& v) {
  auto sints = [&](const std::vector<SInt>& values) { print_tuple(out, values, [&](const SInt& s) { out.sint(s); }); };
  out.text += "View(shape=";
  sints(v.shape);
  out.comma();
  out.text += "strides=";
  sints(v.strides);
  out.comma();
  out.text += "offset=";
  out.sint(v.offset);
  out.comma();
  out.text += "mask=";
  if (!v.mask)
    out.text += "None";
  else
    print_tuple(out, *v.mask, [&](const Bounds& b) {
      out.text += '(';
      out.sint(b.first);
      out.comma();
      out.sint(b.second);
      out.text += ')';
    });
  out.comma();
  out.text += v.contiguous ? "contiguous=True)" : "contiguous=False)";
}

void print_wmma(Writer& out, const WmmaArg& w) {
  out.text += '(' + quoted(w.name);
  out.comma();
  print_ints(out, {w.dims.begin(), w.dims.end()});
  out.comma();
  out.dtype(w.dtype_in);
  out.comma();
  out.dtype(w.dtype_out);
  out.comma();
  out.text += quoted(w.device);
  out.comma();
  out.text += std::to_string(w.threads);
  out.comma();
  print_tuple(out, w.upcast_axes, [&](const Axes& axes) { print_axes(out, axes); });
  out.comma();
  print_ints(out, w.reduce_axes);
  out.text += ')';
}

void print_kernel_info(Writer& out, const KernelInfo& k) {
  out.text += "KernelInfo(local_dims=" + std::to_string(k.local_dims);
  out.comma();
  out.text += "upcasted=" + std::to_string(k.upcasted);
  out.comma();
  out.text += k.dont_use_locals ? "dont_use_locals=True" : "dont_use_locals=False";
  if (k.thread_dims != 0) {
    out.comma();
    out.text += "thread_dims=" + std::to_string(k.thread_dims);
  }
  out.text += ')';
}

/// One overload a payload type.
struct PayloadPrinter {
  Writer& out;
  UOp node;

  void operator()(std::monostate) const {
    // The reference gives a kernel's ASSIGN, whose target is a buffer, an empty list of movements.
    bool to_buffer = node.is(Op::Assign) && node.num_src() > 0 && node.src(0).is(Op::DefineGlobal);
    out.text += to_buffer ? "()" : "None";
  }
  void operator()(int64_t number) const { out.text += std::to_string(number); }
  void operator()(ConstBits value) const { out.text += print_constant(node.dtype().scalar, value); }
  void operator()(RangeArg r) const {
    out.text += '(' + std::to_string(r.axis);
    out.comma();
    out.text += r.reduce ? "True)" : "False)";
  }
  void operator()(KernelInfo k) const { print_kernel_info(out, k); }
  void operator()(const Lanes* lanes) const { print_ints(out, *lanes); }
  void operator()(const Axes* axes) const { print_axes(out, *axes); }
  void operator()(const ConstVector* values) const {
    print_tuple(out, *values, [&](ConstBits v) { out.text += print_constant(node.dtype().scalar, v); });
  }
  void operator()(const ReduceArg* r) const {
    out.text += "(Ops.";
    out.text += to_string(r->op);
    out.comma();
    print_ints(out, r->axes);
    out.text += ')';
  }
  void operator()(const VarArg* v) const {
    out.text += '(' + quoted(v->name);
    out.comma();
    out.text += std::to_string(v->min);
    out.comma();
    out.text += std::to_string(v->max) + ')';
  }
  void operator()(const LocalArg* l) const {
    out.text += '(' + quoted(l->name);
    out.comma();
    out.text += std::to_string(l->size) + ')';
  }
  void operator()(const SpecialArg* s) const {
    out.text += '(' + quoted(s->name);
    out.comma();
    out.sint(s->size);
    out.text += ')';
  }
  void operator()(const WmmaArg* w) const { print_wmma(out, *w); }
  void operator()(const ShapeTracker* st) const { print_tracker(out, *st); }
  void operator()(const std::string* text) const { out.text += quoted(*text); }
};

}  // namespace

std::string print_constant(Scalar scalar, ConstBits value) {
  if ((scalar_bit(scalar) & kUnsignedInts) && Int128{value.bits} == max_value(scalar))
    return "-1";  // as the reference spells it
  if (scalar == Scalar::Bool) return value.bits ? "True" : "False";
  if (scalar_bit(scalar) & kFloats) return print_float(std::bit_cast<double>(value.bits));
  return scalar == Scalar::UInt64 ? std::to_string(value.bits) : std::to_string(static_cast<int64_t>(value.bits));
}

void print_tracker(Writer& out, const ShapeTracker& st) {
  out.text += "ShapeTracker(views=";
  print_tuple(out, st.views, [&](const View& v) { print_view(out, v); });
  out.text += ')';
}

void print_payload(Writer& out, UOp node) { std::visit(PayloadPrinter{out, node}, node.arg()); }

}  // namespace quern
