#include "ir/uop.h"

#include <bit>
#include <cmath>

#include "quern/error.h"

#include "ir/graph.h"
#include "ir/node_map.h"

namespace quern {

bool UOp::is_const_int(int64_t value) const {
  return is_const() && !dtype().is_float() && !dtype().is_ptr() && vmin() == Int128{value};
}

Int128 UOp::const_int() const {
  if (!is_const() || dtype().is_float()) throw InternalError("const_int of " + std::string(to_string(op())));
  return vmin();
}

double UOp::const_float() const {
  if (!is_const() || !dtype().is_float()) throw InternalError("const_float of " + std::string(to_string(op())));
  return std::bit_cast<double>(std::get<ConstBits>(arg()).bits);
}

UOp UOp::with_src(std::span<const UOp> src) const { return graph().node(op(), dtype(), src, arg()); }
UOp UOp::with_arg(Arg a) const { return graph().node(op(), dtype(), src(), a); }
UOp UOp::with_dtype(DType t) const { return graph().node(op(), t, src(), arg()); }

UOp UOp::alu(Op o, UOp b) const {
  DType t = b.dtype();
  if (o == Op::Cmplt || o == Op::Cmpne) t = DType(Scalar::Bool, t.count);
  if (o == Op::Shl || o == Op::Shr) t = dtype();
  return graph().node(o, t, {*this, b});
}
UOp UOp::alu(Op o) const { return graph().node(o, dtype(), {*this}); }

UOp UOp::cast(DType to) const { return to == dtype() ? *this : graph().node(Op::Cast, to, {*this}); }
UOp UOp::bitcast(DType to) const { return to == dtype() ? *this : graph().node(Op::Bitcast, to, {*this}); }
UOp UOp::const_like(int64_t value) const { return graph().constant(dtype(), value); }
UOp UOp::const_like_float(double value) const { return graph().const_float(dtype(), value); }

UOp UOp::logical_not() const { return alu(Op::Cmpne, graph().const_int(DType(Scalar::Bool, dtype().count), 1)); }
UOp UOp::ge(UOp b) const { return lt(b).logical_not(); }
UOp UOp::eq(UOp b) const { return ne(b).logical_not(); }
UOp UOp::where(UOp yes, UOp no) const { return graph().node(Op::Where, yes.dtype(), {*this, yes, no}); }

UOp UOp::gep(int lane) const {
  if (is(Op::Vectorize)) return src(static_cast<size_t>(lane));
  if (is(Op::Const)) return graph().node(Op::Const, dtype().scalar_type(), {}, arg());
  if (is(Op::Vconst))
    return graph().const_bits(dtype().scalar_type(), (*std::get<const ConstVector*>(arg()))[static_cast<size_t>(lane)]);
  return gep(Lanes{lane});
}

UOp UOp::gep(const Lanes& lanes) const {
  if (dtype().is_void()) return *this;
  bool identity = static_cast<int>(lanes.size()) == dtype().lanes();
  for (size_t i = 0; identity && i < lanes.size(); ++i) identity = lanes[i] == static_cast<int32_t>(i);
  if (identity) return *this;
  return graph().node(Op::Gep, dtype().scalar_type().vec(static_cast<int>(lanes.size())), {*this},
                      graph().intern(lanes));
}

UOp UOp::broadcast(int lanes) const {
  if (lanes == 1) return *this;
  std::vector<UOp> copies(static_cast<size_t>(lanes), *this);
  return graph().vectorize(copies);
}

UOp operator-(UOp a, UOp b) { return a + b * -1; }
UOp operator-(UOp a) { return a.dtype().is_bool() ? a.logical_not() : a * -1; }
UOp operator+(UOp a, int64_t b) { return a + a.const_like(b); }
UOp operator*(UOp a, int64_t b) { return a * a.const_like(b); }
UOp operator-(UOp a, int64_t b) { return a + a.const_like(-b); }

std::vector<UOp> toposort(UOp root) { return toposort(std::span<const UOp>(&root, 1)); }

std::vector<UOp> toposort(std::span<const UOp> roots) {
  struct Frame {
    UOp node;
    const UOp* next;  // the next source to visit
    const UOp* end;
  };
  if (roots.empty()) return {};
  // Kept by the thread, so that a walk allocates its result alone; each has room for every node of the graph.
  thread_local std::vector<UOp> order;
  thread_local std::vector<Frame> stack;
  size_t room = roots[0].graph().size();
  if (order.size() < room) {
    order.resize(room);
    stack.resize(room);
  }
  UOp* done = order.data();
  Frame* top = stack.data();  // behind the last
  NodeScratch<bool> seen;
  auto enter = [&](UOp u) {
    if (seen.get(u)) return;
    seen.set(u, true);
    if (u.num_src() == 0)
      *done++ = u;
    else
      *top++ = {u, u.src().data(), u.src().data() + u.num_src()};
  };
  for (UOp root : roots) {
    enter(root);
    while (top != stack.data()) {
      Frame& frame = top[-1];
      if (frame.next == frame.end) {
        *done++ = frame.node;
        --top;
      } else {
        enter(*frame.next++);
      }
    }
  }
  return {order.data(), done};
}

bool depends_on(UOp root, UOp needle) {
  if (root == needle) return true;
  if (root.id() < needle.id()) return false;  // sources are made before users
  NodeScratch<bool> seen;
  std::vector<UOp> stack{root};
  while (!stack.empty()) {
    UOp node = stack.back();
    stack.pop_back();
    for (UOp s : node.src()) {
      if (s == needle) return true;
      if (s.id() < needle.id() || seen.get(s)) continue;
      seen.set(s, true);
      stack.push_back(s);
    }
  }
  return false;
}

std::vector<UOp> split(UOp x, Op op) {
  std::vector<UOp> leaves, stack{x};
  while (!stack.empty()) {
    UOp node = stack.back();
    stack.pop_back();
    if (node.is(op))
      for (size_t i = node.num_src(); i-- > 0;) stack.push_back(node.src(i));
    else
      leaves.push_back(node);
  }
  return leaves;
}

UOp substitute(UOp root, std::span<const std::pair<UOp, UOp>> replacements) {
  NodeScratch<UOp> made;
  for (const auto& [from, to] : replacements) made.set(from, to);
  std::vector<UOp> src;
  for (UOp node : toposort(root)) {
    if (made.get(node)) continue;
    bool changed = false;
    src.assign(node.src().begin(), node.src().end());
    for (UOp& s : src) {
      UOp to = made.get(s);
      changed |= to != s;
      s = to;
    }
    made.set(node, changed ? node.with_src(src) : node);
  }
  return made.get(root);
}

namespace {

int order(auto a, auto b) { return a < b ? -1 : a > b ? 1 : 0; }

template <class T>
int order_items(const std::vector<T>& a, const std::vector<T>& b, auto&& by) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (int c = by(a[i], b[i])) return c;
  return order(a.size(), b.size());
}

int compare_sint(const SInt& a, const SInt& b) {
  if (a.is_int() && b.is_int()) return order(a.value(), b.value());
  if (a.is_int() != b.is_int()) return a.is_int() ? -1 : 1;
  return compare(a.expr(), b.expr());
}

int compare_view(const View& a, const View& b) {
  if (int c = order_items(a.shape, b.shape, compare_sint)) return c;
  if (int c = order_items(a.strides, b.strides, compare_sint)) return c;
  if (int c = compare_sint(a.offset, b.offset)) return c;
  if (a.mask.has_value() != b.mask.has_value()) return a.mask ? 1 : -1;
  if (!a.mask) return 0;
  return order_items(*a.mask, *b.mask, [](const Bounds& x, const Bounds& y) {
    int c = compare_sint(x.first, y.first);
    return c ? c : compare_sint(x.second, y.second);
  });
}

/// Constants by value, whatever their types, so that the order is total: NaN last; NaNs and zeros of one type by their bits.
int compare_const(Scalar s, ConstBits a, Scalar t, ConstBits b) {
  auto is_float = [](Scalar x) { return (scalar_bit(x) & kFloats) != 0; };
  auto number = [](Scalar x, ConstBits c) {
    return x == Scalar::UInt64 ? Int128{c.bits} : Int128{static_cast<int64_t>(c.bits)};
  };
  auto real = [](ConstBits c) { return std::bit_cast<double>(c.bits); };
  auto int_to_real = [](Int128 x, double y) {
    if (!(std::fabs(y) < 0x1p65)) return y < 0 ? 1 : -1;
    if (int c = order(x, static_cast<Int128>(std::floor(y)))) return c;
    return y > std::floor(y) ? -1 : 0;
  };
  if (is_float(s) && is_float(t)) {
    double x = real(a), y = real(b);
    if (std::isnan(x) != std::isnan(y)) return std::isnan(x) ? 1 : -1;
    if (x < y || x > y) return order(x, y);
    return s == t ? order(a.bits, b.bits) : 0;
  }
  if (is_float(s)) return -int_to_real(number(t, b), real(a));
  if (is_float(t)) return int_to_real(number(s, a), real(b));
  return order(number(s, a), number(t, b));
}

int compare_arg(const Arg& a, Scalar of_a, const Arg& b, Scalar of_b) {
  if (a == b && of_a == of_b) return 0;
  if (a.index() != b.index()) return order(a.index(), b.index());
  auto ints = [](int32_t x, int32_t y) { return order(x, y); };
  return std::visit(
      [&](const auto& x) -> int {
        using T = std::decay_t<decltype(x)>;
        const T& y = std::get<T>(b);
        if constexpr (std::is_same_v<T, std::monostate>)
          return 0;
        else if constexpr (std::is_same_v<T, int64_t>)
          return order(x, y);
        else if constexpr (std::is_same_v<T, ConstBits>)
          return compare_const(of_a, x, of_b, y);
        else if constexpr (std::is_same_v<T, RangeArg>)
          return x.axis != y.axis ? order(x.axis, y.axis) : order(x.reduce, y.reduce);
        else if constexpr (std::is_same_v<T, KernelInfo>) {
          if (x.local_dims != y.local_dims) return order(x.local_dims, y.local_dims);
          if (x.upcasted != y.upcasted) return order(x.upcasted, y.upcasted);
          if (x.dont_use_locals != y.dont_use_locals) return order(x.dont_use_locals, y.dont_use_locals);
          return order(x.thread_dims, y.thread_dims);
        } else if constexpr (std::is_same_v<T, const Lanes*>)
          return order_items(*x, *y, ints);
        else if constexpr (std::is_same_v<T, const Axes*>)
          return order_items(*x, *y, [](AxisSize p, AxisSize q) { return p < q ? -1 : q < p ? 1 : 0; });
        else if constexpr (std::is_same_v<T, const ConstVector*>)
          return order_items(*x, *y, [&](ConstBits p, ConstBits q) { return compare_const(of_a, p, of_b, q); });
        else if constexpr (std::is_same_v<T, const ReduceArg*>)
          return x->op != y->op ? order(x->op, y->op) : order_items(x->axes, y->axes, ints);
        else if constexpr (std::is_same_v<T, const VarArg*>) {
          if (int c = x->name.compare(y->name)) return c;
          return x->min != y->min ? order(x->min, y->min) : order(x->max, y->max);
        } else if constexpr (std::is_same_v<T, const LocalArg*>) {
          int c = x->name.compare(y->name);
          return c ? c : order(x->size, y->size);
        } else if constexpr (std::is_same_v<T, const SpecialArg*>) {
          int c = x->name.compare(y->name);
          return c ? c : compare_sint(x->size, y->size);
        } else if constexpr (std::is_same_v<T, const WmmaArg*>) {
          if (int c = x->name.compare(y->name)) return c;
          if (int c = order_items(x->reduce_axes, y->reduce_axes, ints)) return c;
          for (size_t i = 0; i < 3; ++i)
            if (x->upcast_axes[i] != y->upcast_axes[i]) return x->upcast_axes[i] < y->upcast_axes[i] ? -1 : 1;
          return 0;
        } else if constexpr (std::is_same_v<T, const ShapeTracker*>)
          return order_items(x->views, y->views, compare_view);
        else
          return x->compare(*y);
      },
      a);
}

int compare_dtype(const DType& a, const DType& b) {
  auto key = [](const DType& t) {
    return std::tuple(t.space, t.scalar, t.count, t.ptr_lanes, t.image_half, t.image_height, t.image_width);
  };
  return key(a) < key(b) ? -1 : key(b) < key(a) ? 1 : 0;
}

}  // namespace

int compare(UOp a, UOp b) {
  // Equal nodes are the same node, so only the first pair of sources that differs matters: a path, not a tree.
  UOp x = a, y = b;
  while (x != y) {
    if (int c = order(x.op(), y.op())) return c;
    if (int c = compare_arg(x.arg(), x.dtype().scalar, y.arg(), y.dtype().scalar)) return c;
    if (int c = compare_dtype(x.dtype(), y.dtype())) return c;
    size_t common = std::min(x.num_src(), y.num_src()), i = 0;
    while (i < common && x.src(i) == y.src(i)) ++i;
    if (i == common) {
      if (int c = order(x.num_src(), y.num_src())) return c;
      break;
    }
    x = x.src(i);
    y = y.src(i);
  }
  return order(a.id(), b.id());
}

}  // namespace quern
