#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/node_map.h"
#include "optimize/opt.h"
#include "optimize/tracked_view.h"
#include "shape/shapetracker.h"
#include "target/target.h"

namespace quern {

/// What an axis of a kernel is. Axes stand in this order but for upcast, unroll and partial, which mix, and mid-reduce upcasts,
/// which mix with group reduces.
enum class AxisKind : uint8_t { Thread, Global, Local, GroupReduce, UpcastMid, Reduce, Upcast, Unroll, Partial };
std::string_view to_string(AxisKind kind);  ///< "group reduce"
/// The reference's colour: blue (BLUE without locals), cyan, green, white, red, yellow, magenta; BLUE for threads of a CPU, MAGENTA
/// for partial reduces.
std::string_view color_of(AxisKind kind, bool dont_use_locals);
/// True for the axes that the output has too; the others are reduced.
constexpr bool is_output_axis(AxisKind kind) {
  return kind == AxisKind::Thread || kind == AxisKind::Global || kind == AxisKind::Local ||
         kind == AxisKind::UpcastMid || kind == AxisKind::Upcast;
}

struct Axis {
  SInt size;
  AxisKind kind;
  bool operator==(const Axis&) const = default;
};

/// How tensor cores are used: 0 not, 1 the instruction, 2 only the shape, 3 emulated through local memory.
enum class TensorCoreUse : uint8_t { Off = 0, Instruction = 1, ShapeOnly = 2, Emulated = 3 };

/// How far a search goes. What a tensor core does by itself does not count.
struct ActionLimits {
  int64_t max_lanes = 256;     ///< upcast and unrolled
  int64_t max_threads = 1024;  ///< local, grouped and mid-reduce upcast
};

/// The optimizer's state: an AST and how its axes are laid out for a target, which must outlive it. Copies are cheap: they share
/// what does not change. All nodes are of the AST's graph.
class Kernel {
 public:
  /// Verifies the AST (InvalidKernel), moves reduce axes last, drops ones and merges adjacent axes.
  Kernel(UOp ast, const Target& target, TensorCoreUse use = TensorCoreUse::Instruction);

  UOp ast() const;
  const Target& target() const;
  const std::vector<Opt>& applied_opts() const { return applied_opts_; }
  const std::vector<Axis>& axes() const { return axes_; }
  bool dont_use_locals() const { return dont_use_locals_; }
  Shape full_shape() const;
  Shape output_shape() const;
  /// The tensor core in use, or null; it is the target's.
  const TensorCore* tensor_core() const { return tensor_core_; }

  // Where each kind of axis starts and how many there are.
  int num_axes() const { return static_cast<int>(axes_.size()); }
  int global_dims() const;  ///< thread and global axes; locals follow
  int local_dims() const;
  int first_reduce() const;  ///< past globals and locals
  int group_dims() const;    ///< group reduces and mid-reduce upcasts, from first_reduce()
  int first_upcast() const;  ///< past the reduce loops
  int upcasted() const { return num_axes() - first_upcast(); }

  /// Applies `opt`, or leaves the kernel as it was and returns why not.
  std::optional<std::string> try_apply(const Opt& opt);
  /// Applies `opt` or throws OptError.
  void apply(const Opt& opt);
  void apply(const std::vector<Opt>& opts);

  /// What the target demands before anything else (images: an upcast of 4).
  void required_optimizations();
  /// The reference's heuristics.
  void hand_coded_optimizations();
  /// Quern's own for CPUs with vectors: which axis becomes lanes, a tile of accumulators, tails under masks, threads.
  void cpu_optimizations();
  /// Tries tensor cores; `tc_opt` 0: plain matmuls, 1: casts and several reduce axes too, 2: padded axes too. With `extra` these
  /// opts follow instead of the hand-coded ones. False (and possibly partly applied, as the reference) if it can't.
  bool apply_tensor_cores(int tc_opt = 0, int axis = 0, const std::vector<Opt>* extra = nullptr);

  /// The function's name: r_16_4_4, E_32; digits, letters and _ only.
  std::string name() const;
  /// Sizes separated by spaces, symbolic ones in infix; with the reference's colours as ANSI codes if `colored`.
  std::string shape_text(bool colored) const;

  /// The AST with each buffer's view in the optimized shape, grouped reduces through local buffers, tensor cores.
  /// Spec: KernelAst plus DEFINE_LOCAL, WMMA, CONTRACT, EXPAND; its SINK has a KernelInfo.
  UOp optimized_ast() const;

  /// Same AST, target, axes, views and applied opts.
  bool operator==(const Kernel& other) const;

 private:
  friend std::vector<int> legal_actions(const Kernel& kernel, const ActionLimits& limits);
  friend std::vector<Kernel> variations(const Kernel& kernel, const ActionLimits& limits);

  struct Fixed;  ///< what never changes: the AST, its buffers and reduces (optimize/kernel_parts.h)
  using Views = std::vector<TrackedView>;
  using Refusal = std::optional<std::string>;  ///< why an opt does not apply

  /// Where a tensor core's N, M and K are among the axes, while it is being applied.
  struct TensorCoreAxes {
    std::array<int, 3> axes;
    std::array<bool, 2> exist = {true, true};  ///< whether anything is left of N and M
    std::vector<std::pair<int, int>> pads;     ///< axes to pad, and to multiples of what
    bool operator==(const TensorCoreAxes&) const = default;
    void axis_was_removed(int axis);
  };

  // Views of buffers (in the order of Fixed::buffers), and of the results and operands of reduces.
  const TrackedView& buffer_view(size_t buffer) const;
  const TrackedView& output_view() const { return buffer_view(0); }
  const TrackedView& reduce_result_view(size_t reduce) const;
  const TrackedView& reduce_operand_view(size_t reduce) const;

  // kernel.cpp: building
  void order_axes();
  void drop_ones();
  void merge_adjacent();
  std::vector<SInt> image_strides() const;
  template <class Function>
  std::shared_ptr<const Views> mapped_views(Function&& function) const;

  // apply.cpp
  std::optional<int> real_axis(const Opt& opt) const;
  Refusal why_not(const Opt& opt) const;
  Refusal why_not_shared_memory(const Opt& opt, int64_t amount) const;
  Refusal why_not_upcast_mid(int axis, int64_t amount) const;
  Refusal why_not_pad(int axis, int64_t amount) const;
  bool leads_mid_upcast(int axis) const;
  Refusal change(const Opt& opt);
  void carry_out(const Opt& opt, int axis, int64_t amount);
  bool split(int axis, int64_t amount, bool top, int before, AxisKind kind);
  void swap_axes(int a, int b);
  void pad_axis(int axis, int64_t amount);
  /// The target's instruction for the products that the kernel sums, if there is one.
  const DotProduct* dot_product() const;
  Refusal why_not_pack(int axis, int64_t buffer) const;
  /// Axes inside of `axis` along which what the buffer reads changes, those whose steps lie furthest apart in scratch first.
  std::vector<int> packed_axes(size_t buffer, int axis) const;
  std::vector<int> float4_axes(size_t buffer) const;

  // tensor_cores.cpp
  Refusal try_tensor_core(const Opt& opt);
  Refusal use_tensor_core(int axis, int tc_opt);
  Refusal lay_out_tensor_core(const TensorCore& core);
  std::optional<TensorCoreAxes> find_tensor_core_axes(size_t reduce, const TensorCore& core, int axis,
                                                      int tc_opt) const;
  std::optional<size_t> tensor_core_operand(UOp operand, Scalar type, int tc_opt) const;
  bool upcast_and_localize_tensor_core();

  // heuristics.cpp
  bool apply_if_legal(OptOp op, int axis, int64_t amount);
  bool matvec();
  void group_reduce();
  void upcast_mid_reduce();
  void upcast_images();
  void upcast_masked();
  void upcast_shared();
  void unroll_reduce();
  void make_local();
  int64_t upcast_size() const;
  bool has_upcast_without_stride(uint32_t view) const;

  // cpu_heuristics.cpp
  struct CpuLayout;
  std::optional<int> gathered_lanes(int lanes, bool packed) const;
  std::vector<int64_t> worth_packing(int row, int64_t turns, int vector, int64_t amount) const;
  std::optional<int> axis_of_dots(int vector, const std::vector<int64_t>& packed) const;
  std::optional<int> square_to_transpose(int vector, int lanes) const;
  void reduce_on_lanes(int axis, int lanes);
  void tile_registers(int vector);
  void order_rows(int row, int vector, bool whole, int64_t of, const std::vector<int64_t>& operands);
  int64_t prod_of_reduce() const;
  void share_among_threads(int64_t work, std::optional<int> in_order = {});

  // cpu_rows.cpp
  std::optional<int64_t> tile_passes();
  int64_t pad_to_strip(int axis);
  bool counts_along(int axis) const;

  // cpu_scans.cpp
  std::optional<int> axis_of_scan() const;
  int tile_scan(int carrier);

  // optimized_ast.cpp
  struct AstBuilder;

  std::shared_ptr<const Fixed> fixed_;
  std::shared_ptr<const Views> views_;
  std::vector<Axis> axes_;
  std::vector<Opt> applied_opts_;
  bool dont_use_locals_ = false;
  const TensorCore* tensor_core_ = nullptr;
  std::optional<TensorCoreAxes> tensor_core_axes_;
  /// A buffer whose part that the loops inside of an axis read is packed before them.
  struct Packed {
    int64_t global;  ///< number of its DEFINE_GLOBAL
    int axis;
  };
  std::vector<Packed> packed_;
  bool padded_reduce_ = false;  ///< the last view is the full shape's, padded: what of it is inside
};

/// What a search tries on this target: search_actions() or cpu_search_actions().
const std::vector<Opt>& actions_for(const Target& target);
/// Numbers (from 1) of actions_for() the target that are legal and kept from here: those that lead to too many lanes or threads are not,
/// nor an amount that is the whole axis where 0 says the same.
std::vector<int> legal_actions(const Kernel& kernel, const ActionLimits& limits = {});

/// The same AST with a list of opts that differs in one: another amount that actions_for() the target has, or the opt left out. Only
/// kernels that legal_actions() would keep.
std::vector<Kernel> variations(const Kernel& kernel, const ActionLimits& limits = {});

struct OptimizeOptions {
  /// "none" (only what the target demands), "reference" (required, tensor cores, else hand-coded), "heuristic" (the same, but
  /// cpu_optimizations() on CPUs with vectors), or a list as "UPCAST(0,4) LOCAL(1,8)".
  std::string opts = "heuristic";
  TensorCoreUse tensor_cores = TensorCoreUse::Instruction;
  int tc_opt = 0;           ///< as in Kernel::apply_tensor_cores
  bool allow_tf32 = false;  ///< with tensor cores that multiply floats as tf32 (with_tf32)
};
Kernel optimize(UOp ast, const Target& target, const OptimizeOptions& options = {});

/// Checks a kernel AST and gives the shape of every node that has one: throws InvalidKernel naming the node and the rule.
NodeMap<Shape> verify_ast(UOp ast);

}  // namespace quern
