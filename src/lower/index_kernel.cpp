// Views become index arithmetic: every axis of the kernel gets an index (a launch index, a loop or an unrolled axis), every
// LOAD and STORE an INDEX with the condition under which it happens, every REDUCE_AXIS an accumulator.
#include <algorithm>
#include <limits>

#include "quern/error.h"

#include "ir/node_map.h"
#include "lower/launch_dims.h"
#include "lower/loops.h"
#include "lower/lower.h"
#include "shape/shapetracker.h"
#include "shape/sint.h"

namespace quern {

namespace {

constexpr int kSecondStageAxes = 1000;  ///< numbers of the loops over what a group stored
constexpr int kPackedAxes = 3000;       ///< numbers of the loops that fill scratch memory
constexpr int kSquare = 16;             ///< steps of such a loop that are done at once

const ShapeTracker& tracker_of(UOp view) { return *std::get<const ShapeTracker*>(view.arg()); }
bool is_local_buffer(UOp u) { return u.is(Op::DefineLocal); }
bool is_viewed(UOp u) { return u.is({Op::Load, Op::Store, Op::Preload}) && u.num_src() > 1 && u.src(1).is(Op::View); }

bool is_true(UOp condition) { return condition.is_const_int(1); }
UOp both(UOp a, UOp b) { return is_true(a) ? b : a & b; }

/// The shape of the whole kernel: of each axis the size that is not 1 in the views where it has one.
Shape full_shape(std::span<const UOp> nodes) {
  Shape full;
  for (UOp u : nodes) {
    if (!u.is(Op::View)) continue;
    const Shape& shape = tracker_of(u).shape();
    if (full.empty()) full.assign(shape.size(), SInt(1));
    if (shape.size() != full.size())
      throw InternalError("a view of " + std::to_string(shape.size()) + " axes in a kernel of " +
                          std::to_string(full.size()));
    for (size_t i = 0; i < shape.size(); ++i)
      if (full[i] == 1) full[i] = shape[i];
  }
  return full;
}

UOp identity_element(Graph& graph, Op op, DType dtype) {
  switch (op) {
    case Op::Add: return graph.constant(dtype, 0);
    case Op::Mul: return graph.constant(dtype, 1);
    case Op::Max:
      if (dtype.is_float()) return graph.const_float(dtype, -std::numeric_limits<double>::infinity());
      return graph.const_int(dtype, min_value(dtype.scalar));
    default: throw InternalError("a reduce by " + std::string(to_string(op)));
  }
}

bool has_axis(const ReduceArg& reduce, size_t axis) {
  return std::find(reduce.axes.begin(), reduce.axes.end(), static_cast<int32_t>(axis)) != reduce.axes.end();
}

class Indexer {
 public:
  Indexer(UOp ast, const Target& target)
      : graph_(ast.graph()), ast_(ast), nodes_(toposort(ast)), has_vectors_(target.vector_bytes != 0) {
    make_indices(target);
  }

  UOp run() {
    find_stages();
    for (UOp u : nodes_) {
      if (u.is(Op::View)) continue;
      for (stage_ = 0; stage_ < kStages; ++stage_)
        if (needed_.get(u)[stage_]) done_[u][stage_] = lowered(u);
    }
    return done_.get(ast_)[stage_of(ast_, 0)];
  }

 private:
  static constexpr size_t kStages = 2;
  using PerStage = std::array<UOp, kStages>;

  UOp lowered(UOp u) {
    if (u.is(Op::ReduceAxis)) return lower_reduce(u);
    if (u.is(Op::Valid)) return index_tracker(graph_, tracker_of(u.src(0)), idxs_[stage_]).valid;
    if (u.is(Op::Assign) && u.src(0).is(Op::DefineGlobal)) return done(u.src(1));  // its STORE says it all
    if (is_viewed(u)) return u.is(Op::Store) ? lower_store(u) : lower_load(u);
    src_.clear();
    for (UOp s : u.src()) src_.push_back(done(s));
    return graph_.node(u.op(), u.dtype(), src_, u.is(Op::Sink) ? Arg{} : u.arg());
  }

  /// What threads of a group reduce together is upcast among them where an image's channels are: its threads are lanes again
  /// after (stage 1), while what they store for each other is made before (stage 0). Else all is stage 0.
  size_t stage_of(UOp u, size_t user_stage) const {
    if (!is_staged_ || !u.is({Op::Sink, Op::Store})) return is_staged_ ? user_stage : 0;
    return u.is(Op::Store) && is_local_buffer(u.src(0)) && !is_second_stage(u) ? 0 : 1;
  }
  UOp done(UOp source) const { return done_.get(source)[stage_of(source, stage_)]; }
  /// A local store of what was reduced from what threads stored.
  static bool is_second_stage(UOp store) {
    UOp value = store.src(2);
    return value.is(Op::ReduceAxis) && value.src(0).is(Op::Load) && is_local_buffer(value.src(0).src(0));
  }

  void find_stages();
  void make_indices(const Target& target);
  UOp lower_reduce(UOp reduce);
  UOp lower_load(UOp load);
  UOp lower_packed(UOp load);
  /// 0 to size - 1, a lane each.
  UOp lanes_of(size_t axis, int64_t size) const;
  UOp lower_store(UOp store);
  static UOp chained(UOp all, Op op);
  static UOp folded(UOp all, Op op);
  UOp index(UOp buffer, const Indexed& at) const;
  bool is_thread(size_t axis) const { return idxs_[0][axis] != ridxs_[axis]; }
  std::vector<UOp> shared_indices(UOp load) const;
  std::vector<size_t> axes_of_one_thread(UOp store) const;

  Graph& graph_;
  UOp ast_;
  std::vector<UOp> nodes_;
  std::array<std::vector<UOp>, kStages> idxs_;  ///< an index for each axis, in each stage
  std::vector<UOp> ridxs_;                      ///< those of stage 1, but loops for the axes that a group reduces
  bool is_staged_ = false;
  bool has_vectors_;
  size_t stage_ = 0;
  NodeMap<std::array<bool, kStages>> needed_;
  NodeMap<PerStage> done_;
  NodeMap<const ReduceArg*> reduced_by_;  ///< of loads, by what they are reduced at once
  std::vector<UOp> src_;
  struct Reduced {
    Op op;
    UOp value;
    std::vector<UOp> ranges;
    UOp result;
  };
  std::vector<Reduced> reduced_;
  int accumulators_ = 0, packed_loops_ = 0;
};

void Indexer::make_indices(const Target& target) {
  KernelInfo info;
  if (auto* given = std::get_if<KernelInfo>(&ast_.arg())) info = *given;
  Shape full = full_shape(nodes_);
  size_t first_upcast = full.size() - static_cast<size_t>(info.upcasted);
  size_t first_reduce = first_upcast;
  std::vector<const ShapeTracker*> local_loads;
  for (UOp u : nodes_) {
    if (u.is(Op::ReduceAxis)) {
      const ReduceArg& reduce = *std::get<const ReduceArg*>(u.arg());
      for (int32_t axis : reduce.axes) first_reduce = std::min(first_reduce, static_cast<size_t>(axis));
      if (u.src(0).is(Op::Load)) reduced_by_[u.src(0)] = &reduce;
    }
    if (!has_vectors_ && u.is(Op::Load) && is_local_buffer(u.src(0)) && is_viewed(u))
      local_loads.push_back(&tracker_of(u.src(1)));
  }
  const Shape& output = tracker_of(ast_.src(0).src(1)).shape();
  // After the first reduced axis stand those a group of threads shares: reduced through local memory, or upcast among them.
  auto is_grouped = [&](size_t i) {
    return std::any_of(local_loads.begin(), local_loads.end(),
                       [&](const ShapeTracker* st) { return st->shape()[i] != output[i]; });
  };
  auto is_output = [&](size_t i) { return !(output[i] == 1); };
  size_t grouped_end = first_reduce;
  while (grouped_end < first_upcast && (is_grouped(grouped_end) || is_output(grouped_end))) ++grouped_end;

  std::vector<UOp>& idxs = idxs_[0];
  std::span<const SInt> sizes(full);
  size_t globals = first_reduce - static_cast<size_t>(info.local_dims);
  if (!target.has_local) {
    const auto threads = static_cast<size_t>(info.thread_dims);
    idxs = launch_indices(graph_, "gidx", sizes.first(threads), target.global_max, true);
    for (size_t i = threads; i < first_reduce; ++i) idxs.push_back(graph_.range(0, full[i], static_cast<int>(i)));
  } else if (info.dont_use_locals) {
    idxs = launch_indices(graph_, "idx", sizes.first(globals), target.global_max, true);
  } else {
    idxs = launch_indices(graph_, "gidx", sizes.first(globals), target.global_max, true);
    auto locals =
        launch_indices(graph_, "lidx", sizes.subspan(globals, grouped_end - globals), target.local_max, false);
    idxs.insert(idxs.end(), locals.begin(), locals.end());
  }
  for (size_t i = idxs.size(); i < first_upcast; ++i)
    idxs.push_back(graph_.range(0, full[i], static_cast<int>(i), true));
  auto upcast_index = [&](size_t i) {
    if (!full[i].is_int()) throw InternalError("an upcast axis of symbolic size");
    return lanes_of(i, full[i].value());
  };
  for (size_t i = first_upcast; i < full.size(); ++i) idxs.push_back(upcast_index(i));
  idxs_[1] = idxs;
  for (size_t i = first_reduce; i < grouped_end; ++i) {
    if (!is_output(i)) continue;
    idxs_[1][i] = upcast_index(i);
    is_staged_ = true;
  }
  ridxs_ = idxs_[1];
  for (size_t i = first_reduce; i < grouped_end; ++i)
    if (!is_output(i)) ridxs_[i] = graph_.range(0, full[i], kSecondStageAxes + static_cast<int>(i), true);
}

UOp Indexer::lanes_of(size_t axis, int64_t size) const {
  ConstVector steps(static_cast<size_t>(size));
  for (size_t k = 0; k < steps.size(); ++k) steps[k].bits = k;
  UOp lanes = graph_.const_vector(DType(Scalar::Index, static_cast<uint16_t>(size)), std::move(steps));
  Axes axes{{static_cast<int32_t>(axis), static_cast<int32_t>(size)}};
  return graph_.node(Op::Expand, Scalar::Index, {lanes}, graph_.intern(std::move(axes)));
}

/// Which nodes are wanted in which stage, from the outputs down.
void Indexer::find_stages() {
  needed_[ast_][stage_of(ast_, 0)] = true;
  for (size_t n = nodes_.size(); n-- > 0;) {
    const std::array<bool, kStages> needed = needed_.get(nodes_[n]);
    for (size_t stage = 0; stage < kStages; ++stage) {
      if (!needed[stage]) continue;
      for (UOp s : nodes_[n].src()) needed_[s][stage_of(s, stage)] = true;
    }
  }
}

UOp Indexer::lower_reduce(UOp reduce) {
  const ReduceArg& arg = *std::get<const ReduceArg*>(reduce.arg());
  UOp value = done(reduce.src(0));
  std::vector<UOp> ranges;
  Axes unrolled;
  for (int32_t axis : arg.axes) {
    UOp idx = ridxs_[static_cast<size_t>(axis)];
    if (idx.is(Op::Range)) {
      ranges.push_back(idx);
    } else if (idx.is(Op::Expand)) {
      const Axes& axes = *std::get<const Axes*>(idx.arg());
      unrolled.insert(unrolled.end(), axes.begin(), axes.end());
    } else {
      throw InternalError("axis " + std::to_string(axis) + " is reduced, but neither a loop nor unrolled");
    }
  }
  if (!unrolled.empty()) {
    int lanes = 1;
    for (AxisSize a : unrolled) lanes *= a.size;
    UOp all = graph_.node(Op::Contract, reduce.dtype().vec(lanes), {value}, graph_.intern(std::move(unrolled)));
    value = lanes == 1 ? all : has_vectors_ && ranges.empty() ? folded(all, arg.op) : chained(all, arg.op);
  }
  if (ranges.empty()) return value;
  // The same reduce, read by values of different shapes, is done once.
  for (const Reduced& r : reduced_)
    if (r.op == arg.op && r.value == value && r.ranges == ranges) return r.result;
  src_.assign({identity_element(graph_, arg.op, reduce.dtype())});
  src_.insert(src_.end(), ranges.begin(), ranges.end());
  UOp acc = graph_.node(Op::DefineAcc, reduce.dtype(), src_, graph_.intern(Lanes{accumulators_++}));
  UOp result = graph_.node(Op::Assign, reduce.dtype(), {acc, acc.alu(arg.op, value)});
  reduced_.push_back({arg.op, value, std::move(ranges), result});
  return result;
}

/// All lanes of a vector, one after the other: each step may fuse with the product it adds.
UOp Indexer::chained(UOp all, Op op) {
  UOp value = all.gep(0);
  for (int i = 1; i < all.dtype().count; ++i) value = value.alu(op, all.gep(i));
  return value;
}

/// In halves: what the first half becomes can be computed on vectors, and no step waits for all before it.
UOp Indexer::folded(UOp all, Op op) {
  std::vector<UOp> left;
  for (int i = 0; i < all.dtype().count; ++i) left.push_back(all.gep(i));
  while (left.size() > 1) {
    const size_t half = (left.size() + 1) / 2;
    for (size_t i = half; i < left.size(); ++i) left[i - half] = left[i - half].alu(op, left[i]);
    left.resize(half);
  }
  return left[0];
}

UOp Indexer::index(UOp buffer, const Indexed& at) const {
  if (is_true(at.valid)) return graph_.node(Op::Index, buffer.dtype(), {buffer, at.index});
  return graph_.node(Op::Index, buffer.dtype(), {buffer, at.index, at.valid});
}

/// Where in local memory a thread reads what others of its group stored: all along the axes it reduces, but along those of
/// another reduce's group only its own place.
std::vector<UOp> Indexer::shared_indices(UOp load) const {
  std::vector<UOp> indices = ridxs_;
  if (const ReduceArg* reduce = reduced_by_.get(load))
    for (size_t i = 0; i < indices.size(); ++i)
      if (ridxs_[i] != idxs_[1][i] && !has_axis(*reduce, i)) indices[i] = idxs_[1][i];
  return indices;
}

/// Group axes along which one thread stores for all: a kernel's result; in local memory what was reduced along them, or does
/// not change along them.
std::vector<size_t> Indexer::axes_of_one_thread(UOp store) const {
  std::vector<size_t> axes;
  const bool local = is_local_buffer(store.src(0)), second = is_second_stage(store);
  for (size_t i = 0; i < ridxs_.size(); ++i) {
    if (!is_thread(i)) continue;
    const bool are_lanes = idxs_[1][i] != idxs_[0][i];  // every thread has the values of all
    const bool gathered = second && (are_lanes || has_axis(*std::get<const ReduceArg*>(store.src(2).arg()), i));
    if (!local || gathered || tracker_of(store.src(1)).shape()[i] == 1) axes.push_back(i);
  }
  return axes;
}

/// Scratch memory is filled by loops of its own, which end before it is read. Of a loop along which the buffer is contiguous, as it is
/// along no lanes, some steps are done at once: they make squares to transpose.
UOp Indexer::lower_packed(UOp load) {
  UOp address = index(load.src(0), index_tracker(graph_, tracker_of(load.src(1)), idxs_[0]));
  UOp fill = done(load.src(2));
  const auto strides = real_strides(graph_, tracker_of(load.src(2).src(2).src(1)));
  const auto is_contiguous = [&](size_t axis) { return strides[axis] && *strides[axis] == 1; };
  bool lanes_are = false;
  for (size_t i = 0; i < strides.size(); ++i) lanes_are |= idxs_[0][i].is(Op::Expand) && is_contiguous(i);
  NodeScratch<UOp> renamed;
  std::vector<UOp> loops;
  for (UOp u : toposort(address)) {
    if (!u.is(Op::Range)) continue;
    const int axis = kPackedAxes + packed_loops_++;
    UOp own = u.with_arg(RangeArg{axis, false});
    const auto at = static_cast<size_t>(std::find(idxs_[0].begin(), idxs_[0].end(), u) - idxs_[0].begin());
    const Int128 size = u.src(1).is_const() ? u.src(1).const_int() : 0;
    if (size % kSquare == 0 && size != 0 && at < strides.size() && is_contiguous(at) && !lanes_are) {
      own = graph_.range(0, SInt(static_cast<int64_t>(size / kSquare)), axis, false);
      loops.push_back(own);
      own = own * graph_.const_index(kSquare) + lanes_of(static_cast<size_t>(axis), kSquare);
    } else {
      loops.push_back(own);
    }
    renamed.set(u, own);
  }
  for (UOp u : toposort(fill)) {
    if (renamed.get(u)) continue;
    src_.clear();
    for (UOp s : u.src()) src_.push_back(renamed.get(s));
    renamed.set(u, u.with_src(src_));
  }
  loops.insert(loops.begin(), renamed.get(fill));
  UOp filled = graph_.node(Op::Barrier, Scalar::Void, loops);
  return graph_.node(Op::Load, load.dtype(), {address, filled});
}

UOp Indexer::lower_load(UOp load) {
  UOp buffer = load.src(0);
  bool local = is_local_buffer(buffer);
  if (local && has_vectors_) return lower_packed(load);
  bool loads_result = load.num_src() > 2 && is_second_stage(load.src(2));  // not what each thread stored
  UOp address = index(buffer, index_tracker(graph_, tracker_of(load.src(1)),
                                            local && !loads_result ? shared_indices(load) : idxs_[stage_]));
  if (!local || load.num_src() < 3) return graph_.node(Op::Load, load.dtype(), {address});
  UOp barrier = graph_.node(Op::Barrier, Scalar::Void, {done(load.src(2))});
  return graph_.node(Op::Load, load.dtype(), {address, barrier});
}

UOp Indexer::lower_store(UOp store) {
  UOp buffer = store.src(0);
  Indexed at = index_tracker(graph_, tracker_of(store.src(1)), idxs_[stage_]);
  for (size_t i : axes_of_one_thread(store)) at.valid = both(at.valid, idxs_[0][i].lt(graph_.const_index(1)));
  return graph_.node(Op::Store, Scalar::Void, {index(buffer, at), done(store.src(2))});
}

}  // namespace

UOp index_kernel(UOp optimized_ast, const Target& target) {
  if (!optimized_ast.is(Op::Sink) || optimized_ast.num_src() == 0 || !is_viewed(optimized_ast.src(0)))
    throw InternalError("indexing takes a SINK of STOREs over VIEWs");
  return separate_loops(Indexer(optimized_ast, target).run());
}

}  // namespace quern
