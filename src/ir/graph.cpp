#include "ir/graph.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

#include "quern/error.h"

#include "base/hash.h"
#include "ir/bounds.h"

namespace quern {

namespace {

uint64_t hash_text(std::string_view text) { return std::hash<std::string_view>{}(text); }

uint64_t hash_dtype(const DType& t) {
  uint64_t small = static_cast<uint64_t>(t.scalar) | static_cast<uint64_t>(t.space) << 8 |
                   static_cast<uint64_t>(t.image_half) << 16 | static_cast<uint64_t>(t.count) << 24 |
                   static_cast<uint64_t>(t.ptr_lanes) << 40;
  return hash_mix(small, static_cast<uint64_t>(t.image_height) << 32 | t.image_width);
}

uint64_t hash_sint(const SInt& s) {
  return s.is_int() ? static_cast<uint64_t>(s.value()) : hash_mix(1, s.expr().node()->hash);
}

struct HashPayload {
  size_t operator()(const Lanes& v) const {
    uint64_t h = v.size();
    for (int32_t x : v) h = hash_mix(h, static_cast<uint64_t>(x));
    return h;
  }
  size_t operator()(const Axes& v) const {
    uint64_t h = v.size();
    for (AxisSize x : v) h = hash_mix(h, static_cast<uint64_t>(x.axis) << 32 | static_cast<uint32_t>(x.size));
    return h;
  }
  size_t operator()(const ConstVector& v) const {
    uint64_t h = v.size();
    for (ConstBits x : v) h = hash_mix(h, x.bits);
    return h;
  }
  size_t operator()(const ReduceArg& r) const { return hash_mix((*this)(r.axes), static_cast<uint64_t>(r.op)); }
  size_t operator()(const VarArg& v) const {
    return hash_mix(hash_mix(hash_text(v.name), static_cast<uint64_t>(v.min)), static_cast<uint64_t>(v.max));
  }
  size_t operator()(const LocalArg& l) const { return hash_mix(hash_text(l.name), static_cast<uint64_t>(l.size)); }
  size_t operator()(const SpecialArg& s) const { return hash_mix(hash_text(s.name), hash_sint(s.size)); }
  size_t operator()(const WmmaArg& w) const {
    uint64_t h = hash_text(w.name);
    for (const Axes& axes : w.upcast_axes) h = hash_mix(h, (*this)(axes));
    return hash_mix(h, (*this)(w.reduce_axes));
  }
  size_t operator()(const ShapeTracker& st) const { return hash_of(st); }
  size_t operator()(const std::string& text) const { return hash_text(text); }
};

template <class T>
class Pool {
 public:
  const T* intern(T value) { return &*items_.insert(std::move(value)).first; }

 private:
  std::unordered_set<T, HashPayload> items_;  // nodes of a std::unordered_set do not move
};

uint64_t hash_arg(const Arg& arg) {
  if (arg.index() == 0) return 0;
  if (auto* bits = std::get_if<ConstBits>(&arg)) return hash_mix(2, bits->bits);
  return std::visit(
      [&](const auto& a) -> uint64_t {
        using T = std::decay_t<decltype(a)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          return 0;
        else if constexpr (std::is_same_v<T, int64_t>)
          return hash_mix(1, static_cast<uint64_t>(a));
        else if constexpr (std::is_same_v<T, ConstBits>)
          return hash_mix(2, a.bits);
        else if constexpr (std::is_same_v<T, RangeArg>)
          return hash_mix(3, static_cast<uint64_t>(a.axis) << 1 | a.reduce);
        else if constexpr (std::is_same_v<T, KernelInfo>)
          return hash_mix(4, static_cast<uint64_t>(a.local_dims) << 32 | static_cast<uint64_t>(a.upcasted) << 2 |
                                 static_cast<uint64_t>(a.thread_dims) << 1 | static_cast<uint64_t>(a.dont_use_locals));
        else
          return hash_mix(5, HashPayload{}(*a));  // by value: no address decides anything
      },
      arg);
}

bool same_arg(const Arg& a, const Arg& b) { return a.index() == b.index() && (a.index() == 0 || a == b); }

}  // namespace

uint64_t hash_of(const ShapeTracker& st) {
  uint64_t h = st.views.size();
  for (const View& v : st.views) {
    h = hash_mix(h, v.shape.size());
    for (const SInt& s : v.shape) h = hash_mix(h, hash_sint(s));
    for (const SInt& s : v.strides) h = hash_mix(h, hash_sint(s));
    h = hash_mix(h, hash_sint(v.offset));
    h = hash_mix(h, v.mask.has_value());
    if (v.mask)
      for (const auto& [begin, end] : *v.mask) h = hash_mix(hash_mix(h, hash_sint(begin)), hash_sint(end));
  }
  return h;
}

SInt::SInt(UOp expr) {
  if (expr.is_const())
    value_ = static_cast<int64_t>(expr.const_int());
  else
    expr_ = expr;
}

namespace {

/// Where nodes stand: blocks that are freed together.
class Arena {
 public:
  void* allocate(size_t bytes) {
    bytes = (bytes + alignof(Node) - 1) / alignof(Node) * alignof(Node);
    if (bytes > left_) add_block(bytes);
    left_ -= bytes;
    return std::exchange(next_, next_ + bytes);
  }

 private:
  // Freeing a block of over 64 KB makes glibc's malloc tidy up all it has.
  static constexpr size_t kBlock = size_t{32} << 10;
  void add_block(size_t bytes) {
    left_ = std::max(bytes, kBlock);
    next_ = blocks_.emplace_back(new std::byte[left_]).get();
  }

  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::byte* next_ = nullptr;
  size_t left_ = 0;
};
static_assert(alignof(Node) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);

}  // namespace

struct Graph::Storage {
  Arena arena;
  /// Where a node with some hash is: its number, and of its hash the half that did not choose the place. Most places are
  /// passed over without a look at the node.
  struct Place {
    uint32_t number = kFree;
    uint32_t tag = 0;
  };
  static constexpr uint32_t kFree = UINT32_MAX;
  static uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash); }
  static size_t start_of(uint64_t hash) { return static_cast<size_t>(hash >> 32); }
  std::vector<Place> table = std::vector<Place>(size_t{1} << 12);  // open addressing, a power of two
  std::vector<const Node*> nodes;
  Pool<Lanes> lanes;
  Pool<Axes> axes;
  Pool<ConstVector> const_vectors;
  Pool<ReduceArg> reduces;
  Pool<VarArg> vars;
  Pool<LocalArg> locals;
  Pool<SpecialArg> specials;
  Pool<WmmaArg> wmmas;
  Pool<ShapeTracker> trackers;
  Pool<std::string> texts;
  std::vector<const Node*> memos[kMemos];

  void grow() {
    std::vector<Place> bigger(table.size() * 2);
    for (const Node* n : nodes) {
      size_t i = start_of(n->hash) & (bigger.size() - 1);
      while (bigger[i].number != kFree) i = (i + 1) & (bigger.size() - 1);
      bigger[i] = {n->id, tag_of(n->hash)};
    }
    table = std::move(bigger);
  }
};

Graph::Graph() : storage_(std::make_unique<Storage>()) { storage_->nodes.reserve(size_t{1} << 11); }
Graph::~Graph() = default;

UOp Graph::node(Op op, DType dtype, std::span<const UOp> src, Arg arg) {
  uint64_t hash = hash_mix(static_cast<uint64_t>(op), hash_dtype(dtype));
  hash = hash_mix(hash, hash_arg(arg));
  for (UOp s : src) hash = hash_mix(hash, s.node()->hash);

  Storage& st = *storage_;
  if (st.nodes.size() * 2 >= st.table.size()) st.grow();
  size_t mask = st.table.size() - 1;
  size_t slot = Storage::start_of(hash) & mask;
  uint32_t tag = Storage::tag_of(hash);
  for (; st.table[slot].number != Storage::kFree; slot = (slot + 1) & mask) {
    if (st.table[slot].tag != tag) continue;
    const Node* n = st.nodes[st.table[slot].number];
    if (n->hash == hash && n->op == op && n->num_src == src.size() && same_arg(n->arg, arg) && n->dtype == dtype &&
        std::equal(src.begin(), src.end(), n->sources))
      return UOp(n);
  }

  // The sources stand behind their node.
  auto* place = static_cast<std::byte*>(st.arena.allocate(sizeof(Node) + src.size_bytes()));
  auto* sources = reinterpret_cast<UOp*>(place + sizeof(Node));
  for (size_t i = 0; i < src.size(); ++i) new (sources + i) UOp(src[i]);  // few: a call to memmove costs more
  auto* made = new (place)
      Node{op, dtype, static_cast<uint32_t>(src.size()), static_cast<uint32_t>(st.nodes.size()), hash, sources, arg, 0,
           0,  this};
  ValueBounds bounds = bounds_of(*made);
  made->vmin = bounds.min;
  made->vmax = bounds.max;
  st.nodes.push_back(made);
  st.table[slot] = {made->id, tag};
  return UOp(made);
}

const Lanes* Graph::intern(Lanes v) { return storage_->lanes.intern(std::move(v)); }
const Axes* Graph::intern(Axes v) { return storage_->axes.intern(std::move(v)); }
const ConstVector* Graph::intern(ConstVector v) { return storage_->const_vectors.intern(std::move(v)); }
const ReduceArg* Graph::intern(ReduceArg v) { return storage_->reduces.intern(std::move(v)); }
const VarArg* Graph::intern(VarArg v) { return storage_->vars.intern(std::move(v)); }
const LocalArg* Graph::intern(LocalArg v) { return storage_->locals.intern(std::move(v)); }
const SpecialArg* Graph::intern(SpecialArg v) { return storage_->specials.intern(std::move(v)); }
const WmmaArg* Graph::intern(WmmaArg v) { return storage_->wmmas.intern(std::move(v)); }
const ShapeTracker* Graph::intern(ShapeTracker v) { return storage_->trackers.intern(std::move(v)); }
const std::string* Graph::intern(std::string v) { return storage_->texts.intern(std::move(v)); }

size_t Graph::size() const { return storage_->nodes.size(); }
UOp Graph::at(uint32_t id) const { return UOp(storage_->nodes[id]); }
std::vector<const Node*>& Graph::memo(size_t which) { return storage_->memos[which]; }

UOp Graph::const_bits(DType dtype, ConstBits value) { return node(Op::Const, dtype, {}, value); }

UOp Graph::const_int(DType dtype, Int128 value) {
  if (dtype.is_float()) return const_float(dtype, static_cast<double>(value));
  return const_bits(dtype, ConstBits{static_cast<uint64_t>(wrap(dtype.scalar, value))});
}

UOp Graph::const_float(DType dtype, double value) {
  if (value != value) value = std::numeric_limits<double>::quiet_NaN();  // one NaN: texts and machines have no others
  return const_bits(dtype, ConstBits{std::bit_cast<uint64_t>(value)});
}

UOp Graph::constant(DType dtype, int64_t value) { return const_int(dtype, value); }

UOp Graph::const_vector(DType dtype, ConstVector values) {
  bool same = std::all_of(values.begin(), values.end(), [&](ConstBits v) { return v == values.front(); });
  if (same && !values.empty()) return const_bits(dtype, values.front());
  return node(Op::Vconst, dtype, {}, intern(std::move(values)));
}

UOp Graph::variable(std::string_view name, int64_t min, int64_t max, DType dtype) {
  return node(Op::DefineVar, dtype, {}, intern(VarArg{std::string(name), min, max}));
}

UOp Graph::range(SInt start, SInt end, int axis, bool reduce) {
  return node(Op::Range, Scalar::Index, {index_of(start), index_of(end)}, RangeArg{axis, reduce});
}

UOp Graph::view(ShapeTracker st) { return node(Op::View, Scalar::Void, {}, intern(std::move(st))); }

UOp Graph::index_of(const SInt& value) { return value.is_int() ? const_index(value.value()) : value.expr(); }

UOp Graph::vectorize(std::span<const UOp> lanes) {
  if (lanes.size() == 1) return lanes[0];
  return node(Op::Vectorize, lanes[0].dtype().vec(static_cast<int>(lanes.size())), lanes);
}

Int128 min_value(Scalar dtype) {
  if (dtype == Scalar::Bool || (scalar_bit(dtype) & kUnsignedInts)) return 0;
  if (dtype == Scalar::Index) return -kUnbounded;
  return -(Int128{1} << (bytes_of(dtype) * 8 - 1));
}

Int128 max_value(Scalar dtype) {
  if (dtype == Scalar::Bool) return 1;
  if (dtype == Scalar::Index) return kUnbounded;
  int bits = bytes_of(dtype) * 8;
  return (Int128{1} << ((scalar_bit(dtype) & kUnsignedInts) ? bits : bits - 1)) - 1;
}

Int128 wrap(Scalar dtype, Int128 value) {
  if (dtype == Scalar::Bool) return value != 0;
  if (dtype == Scalar::Index) return value;
  int bits = bytes_of(dtype) * 8;
  Int128 modulus = Int128{1} << bits;
  Int128 low = floor_mod(value, modulus);
  return (scalar_bit(dtype) & kSignedInts) && low >= modulus / 2 ? low - modulus : low;
}

}  // namespace quern
