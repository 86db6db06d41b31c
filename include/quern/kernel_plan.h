#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "quern/compiled_kernel.h"
#include "quern/device.h"
#include "quern/kernel_graph.h"

namespace quern {

/// A number that may depend on the kernel's variables: a size of an axis or of a launch, an estimate.
struct Size {
  std::optional<int64_t> value;  ///< where it depends on none
  std::string text;              ///< "64"; symbolic ones in infix: "(n+1)"
  std::string notation;          ///< symbolic ones as nodes in the notation of tinygrad 0.10.0; else empty
};

/// An axis of a kernel: its size, and how it runs.
struct PlanAxis {
  Size size;
  /// "global", "local", "group reduce", "mid upcast", "reduce", "upcast", "unroll"; of CPUs also "thread" and "partial".
  std::string kind;
  /// The name that tinygrad's users know the kind by: "blue", "cyan", "green", "white", "red", ...
  std::string color;
};

/// An opt in parts: UPCAST(0,4) is {"UPCAST", 0, 4}, NOLOCALS has no numbers.
struct PlanOpt {
  std::string op;
  std::optional<int> axis;
  std::optional<int> amount;
};

struct PlanOptions {
  int tensor_cores = 1;     ///< 0: none, 1: the instruction, 2: its shape only, 3: emulated through local memory
  bool allow_tf32 = false;  ///< float matmuls may use tensor cores that round what they multiply to 10 bits of mantissa
};

/// Estimates of a run: operations, bytes that loads and stores move, bytes of the buffers.
struct RunEstimates {
  Size ops;
  Size load_store_bytes;
  Size buffer_bytes;
};

/// A kernel's program for a target: its source, and what launching it takes.
class KernelProgram {
 public:
  const std::string& name() const;  ///< of the function
  const std::string& source() const;
  const std::string& target() const;
  const std::string& opts() const;                                ///< as CompileOptions::opts takes them
  const std::optional<std::array<Size, 3>>& global_size() const;  ///< groups; nothing on targets without threads
  const std::optional<std::array<Size, 3>>& local_size()
      const;                                               ///< threads of a group; nothing where the driver may choose
  const std::vector<VariableArgument>& variables() const;  ///< in order of their names, as they are passed
  const std::vector<BufferArgument>& buffers() const;      ///< in the order they are passed
  const std::vector<int>& outputs() const;                 ///< numbers of the buffers that are written
  const RunEstimates& estimates() const;
  int64_t num_uops() const;         ///< length of the linear program
  std::string linear_text() const;  ///< the linear program, a UOp a line
  /// The linear program in the notation of tinygrad 0.10.0: the sources, in order, of one NOOP.
  std::string linear_notation() const;

  /// For a device of this process (CompileOptions::device). Throws CompileError, or DeviceError for a device that is not here or
  /// does not run programs of this target.
  CompiledKernel compile(const std::string& device) const;
  CompiledKernel compile(const DeviceHandle& device) const;

  struct Impl;
  explicit KernelProgram(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const Impl> impl_;
};

/// A kernel with its axes laid out for a target, and the opts that did it. Copies are cheap and go their own ways. Different
/// plans, copies of one too, may be used by different threads at once.
class KernelPlan {
 public:
  /// No opts yet. Throws InvalidKernel, or DeviceError for a target there is not.
  KernelPlan(const KernelGraph& kernel, const std::string& target, const PlanOptions& options = {});
  /// The same of a kernel's text. Throws ParseError too.
  KernelPlan(std::string text, const std::string& target, const PlanOptions& options = {});
  KernelPlan(const KernelPlan& other);
  KernelPlan& operator=(const KernelPlan& other);
  ~KernelPlan();

  /// Applies one opt, "UPCAST(0,4)", or leaves all as it was and tells why it does not apply. Throws OptError for text that is no opt.
  std::optional<std::string> try_apply(const std::string& opt);
  /// Applies opts, separated by spaces. Throws OptError; those before the one that does not apply stay.
  void apply(const std::string& opts);
  /// On a plan without opts: heuristic, reference, none or a list, as CompileOptions::opts has it. Throws OptError.
  void optimize(const std::string& opts = "heuristic");
  /// What the target demands before anything else (images: an upcast of 4).
  void apply_required();
  /// The reference's heuristics.
  void apply_hand_coded();
  /// Tries tensor cores. `amount` 0: plain matmuls, 1: casts and several reduce axes too, 2: padded axes too. `axis` chooses among the
  /// ways they fit. Then come the opts in `extra`, or without those the hand-coded ones. False if one of them does not apply;
  /// what was applied before it stays then.
  bool apply_tensor_cores(int amount = 0, int axis = 0, const std::optional<std::string>& extra = std::nullopt);

  std::string name() const;  ///< "r_16_4_4"
  const std::string& target() const;
  std::vector<PlanOpt> applied_opts() const;
  std::string applied_text() const;  ///< as CompileOptions::opts takes them
  std::vector<PlanAxis> axes() const;
  /// The name of the tensor core in use: "WMMA_8_16_16_half_float"; empty: none.
  std::string tensor_core() const;
  /// The search's opts that are legal here: numbers from 1 in its list, with their opts. Those that lead to more lanes or threads
  /// are left out.
  std::vector<std::pair<int, PlanOpt>> legal_opts(int64_t max_lanes = 256, int64_t max_threads = 1024) const;
  std::string kernel_text() const;     ///< the kernel itself, in the reference notation
  std::string optimized_text() const;  ///< with every view in the laid out shape

  /// The program of a function of that name: letters, digits and _; empty: name(). Throws InvalidKernel for a name that is none,
  /// or where the target cannot express the kernel.
  KernelProgram compile(const std::string& function_name = {}) const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern
