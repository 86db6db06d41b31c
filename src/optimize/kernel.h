#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "optimize/opt.h"
#include "shape/shapetracker.h"
#include "target/target.h"

namespace quern {

/// What an axis of a kernel is. Axes stand in this order but for upcast and unroll, which mix.
enum class AxisKind : uint8_t { Global, Local, GroupReduce, UpcastMid, Reduce, Upcast, Unroll };
/// The reference's colour: blue (BLUE without locals), cyan, green, white, red, yellow, magenta.
std::string_view color_of(AxisKind kind, bool dont_use_locals);

struct Axis {
  SInt size;
  AxisKind kind;
};

/// How tensor cores are used: 0 not, 1 the instruction, 2 only the shape, 3 emulated through local memory.
enum class TensorCoreUse : uint8_t { Off = 0, Instruction = 1, ShapeOnly = 2, Emulated = 3 };

/// The optimizer's state: an AST and how its axes are laid out for a target. Copies are cheap and share what does not change.
/// All nodes are of the AST's graph.
class Kernel {
 public:
  /// Verifies the AST (InvalidKernel), moves reduce axes last, drops ones and merges adjacent axes.
  Kernel(UOp ast, const Target& target, TensorCoreUse use = TensorCoreUse::Instruction);

  UOp ast() const;
  const Target& target() const;
  const std::vector<Opt>& applied_opts() const { return applied_opts_; }
  std::vector<Axis> axes() const;
  Shape full_shape() const;
  Shape output_shape() const;
  const TensorCore* tensor_core() const { return tensor_core_ ? &*tensor_core_ : nullptr; }

  /// Applies `opt`, or leaves the kernel as it was and returns why not.
  std::optional<std::string> try_apply(const Opt& opt);
  /// Applies `opt` or throws OptError.
  void apply(const Opt& opt);

  /// What the target demands before anything else (images: an upcast of 4).
  void required_optimizations();
  /// The reference's heuristics.
  void hand_coded_optimizations();
  /// Tries tensor cores; `tc_opt` 0: plain matmuls, 1: casts and several reduce axes too, 2: padded axes too. With `extra` these
  /// opts follow instead of the hand-coded ones. False (and possibly partly applied, as the reference) if it can't.
  bool apply_tensor_cores(int tc_opt = 0, int axis = 0, const std::vector<Opt>* extra = nullptr);

  /// The function's name: r_16_4_4, E_32, C_8; digits, letters and _ only.
  std::string name() const;
  /// Symbolic sizes in infix, colours by ANSI codes if `colored`.
  std::string shape_text(bool colored) const;

  /// The AST with each buffer's view in the optimized shape, grouped reduces through local buffers, tensor cores.
  /// Spec: KernelAst plus DEFINE_LOCAL, WMMA, CONTRACT, EXPAND; its SINK has a KernelInfo.
  UOp optimized_ast() const;

 private:
  // Filled by the implementation (optimize/): immutable parts in shared_ptr, axis state by value.
  struct Fixed;
  std::shared_ptr<const Fixed> fixed_;
  std::vector<Opt> applied_opts_;
  std::optional<TensorCore> tensor_core_;
};

/// Numbers (from 1) of search_actions() that are legal and kept from here, as conformance/README.md says.
std::vector<int> legal_actions(const Kernel& kernel);

/// How opts are chosen: nothing, the reference's rule (required, tensor cores, else hand-coded), or a list.
Kernel optimize(UOp ast, const Target& target, std::string_view opts = "heuristic");

/// Checks a kernel AST and gives the shape of every node that has one: throws InvalidKernel naming the node and the rule.
NodeMap<Shape> verify_ast(UOp ast);

}  // namespace quern
