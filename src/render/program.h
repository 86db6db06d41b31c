#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "lower/lower.h"
#include "optimize/kernel.h"
#include "target/target.h"

namespace quern {

/// Operations, bytes loaded and stored, bytes of the buffers: the reference's estimates; symbolic where sizes are.
struct Estimates {
  SInt ops;
  SInt load_store_bytes;
  SInt buffer_bytes;
};

/// A kernel ready to compile. Sizes may be symbolic: `launch_dims` gives them for values of the variables.
struct Program {
  std::string name;
  std::string source;
  const Target* target = nullptr;
  LinearProgram linear;
  std::optional<std::array<SInt, 3>> global_size;  ///< nothing on targets without threads
  std::optional<std::array<SInt, 3>> local_size;   ///< nothing with NOLOCALS
  std::vector<UOp> vars;                           ///< DEFINE_VARs in order of name: arguments after the buffers
  std::vector<int> globals;                        ///< buffer numbers in order of arguments
  std::vector<int> outs;                           ///< buffer numbers written
  Estimates estimates;
  std::map<int, DType> buffer_types;    ///< pointer or image type of each buffer, by number
  std::map<int, int64_t> buffer_sizes;  ///< elements each must have, where the views it was made from are known
};

/// How the kernel that a program was made from was laid out: told above its source. Empty where a linear program is rendered alone.
struct KernelLayout {
  std::vector<Axis> axes;
  std::vector<Opt> opts;  ///< in the order applied
};

/// Everything of a program but its source and the buffers' sizes (which the AST tells).
Program describe(std::string name, LinearProgram linear, const Target& target);

/// Prints the linear program in the target's dialect and collects the rest (all but the size of the buffers, which the AST
/// tells). Throws InvalidKernel where the target can't express the kernel (images on a target without, doubles in Metal).
Program render(std::string name, LinearProgram linear, const Target& target, const KernelLayout& layout = {});

/// Function `name` over the linear program, in LLVM IR, without the comment above it. Arguments: the buffers in order of number,
/// then the variables in order of name; after them, where the program has them, the number of the thread's part and its scratch memory.
std::string render_llvm(const std::string& name, const LinearProgram& linear);
/// The same in PTX; the target says for which machine.
std::string render_ptx(const std::string& name, const LinearProgram& linear, const Target& target);

/// More source to stand below a program's: a function `entry` that takes an array of buffer addresses and an array of 64-bit
/// values of the variables, in the program's order, and calls it. So a host can call every program the same way.
std::string c_entry(const Program& program, const std::string& entry);
std::string llvm_entry(const Program& program, const std::string& entry);
/// LLVM IR whose stores past the caches need buffers aligned to 64 bytes, as it is for others; nothing where it has none.
std::optional<std::string> without_streaming(const std::string& source);
/// Bytes of scratch memory, aligned to kScratchAlignment, that an LLVM function takes as its last argument; 0: it takes none.
int64_t scratch_bytes(const LinearProgram& linear);
inline constexpr int64_t kScratchAlignment = 64;
/// The function that a Hexagon DSP's runtime calls: it maps the buffers, calls the program and takes the time.
std::string dsp_entry(const Program& program);

}  // namespace quern
