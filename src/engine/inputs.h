#pragma once
#include <cstdint>
#include <string>

#include "optimize/kernel.h"
#include "render/program.h"
#include "runtime/device.h"

namespace quern {

// What random kernels are tried on. The same seed gives the same everywhere.

/// Buffers for a program (in order of Program::globals), the inputs filled by a seed with values that mean something for the
/// kernel: ints that gather stay inside what they index, floats are small multiples of 1/8 (so that most sums are exact in any
/// order), positive where a logarithm, a root or a quotient is taken; random bits for ciphers.
Buffers make_inputs(UOp ast, const Program& program, uint64_t seed);
/// Values of variables between their bounds, by a seed.
VarValues make_vars(const Program& program, uint64_t seed);
/// `length` random legal opts, by a seed: "UPCAST(0,4) LOCAL(0,8)".
std::string random_walk(UOp ast, const Target& target, int length, uint64_t seed);

}  // namespace quern
