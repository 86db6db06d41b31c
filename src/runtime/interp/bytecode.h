#pragma once
#include <vector>

#include "render/program.h"

namespace quern::interp {

/// Values of a thread live in registers of 64 bits (ConstBits); a vector takes consecutive ones.
using Reg = int;
inline constexpr Reg kNoReg = -1;

/// A buffer of the program: a global one (argument position) or a local one (index into Bytecode::locals).
struct BufferRef {
  bool local = false;
  int index = 0;
};

struct Insn {
  UOp uop;  ///< for messages
  Op op;
  Scalar type = Scalar::Void;  ///< of the operands
  Scalar out = Scalar::Void;   ///< of the result
  int count = 1;               ///< lanes of the value moved
  Reg dst = kNoReg;
  std::vector<Reg> src;  ///< LOAD: index [y], STORE: index [y], value
  Reg alternative = kNoReg;
  Reg gate = kNoReg;
  BufferRef buffer;
  int64_t offset = 0;  ///< LOAD, STORE: elements past the index
  size_t jump = 0;     ///< RANGE: its ENDRANGE; ENDRANGE: its RANGE
};

struct LocalBuffer {
  std::string name;
  int64_t size;
};

struct Bytecode {
  std::vector<Insn> insns;
  std::vector<LocalBuffer> locals;
  int num_regs = 0;
  std::vector<std::pair<Reg, uint64_t>> constants;  ///< set once for all threads
  std::vector<std::pair<Reg, std::string>> variables;
  /// Registers of SPECIALs: name and position (dimension).
  struct Thread {
    Reg reg;
    char kind;  ///< 'g' group, 'l' local, 'i' global
    int dim;
  };
  std::vector<Thread> threads;
  int warp = 1;  ///< threads that run a tensor-core instruction together
};

/// Registers assigned, buffers resolved. Throws InternalError on a program that breaks Spec::Linear.
Bytecode assemble(const Program& program);

/// Runs one tensor-core instruction for all threads (`lanes` of them, values at regs[reg * lanes + thread]).
/// The operand layouts are the vendors' documented ones, not derived from the optimizer's swizzles.
void run_wmma(const Insn& insn, uint64_t* regs, size_t lanes);

}  // namespace quern::interp
