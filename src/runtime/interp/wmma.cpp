#include <bit>
#include <cmath>
#include <vector>

#include "quern/error.h"

#include "ir/eval.h"
#include "runtime/interp/bytecode.h"

namespace quern::interp {

namespace {

struct Place {
  int lane;
  int element;
};

/// Which thread of the group holds an element of A (row, k), B (k, column), C and D (row, column), and where in its vector.
struct FragmentLayout {
  int threads;
  Place (*a)(int row, int k);
  Place (*b)(int k, int column);
  Place (*c)(int row, int column);
  double (*rounded)(double operand) = nullptr;  ///< what the instruction makes of an element of A or B; null: itself
};

// NVIDIA PTX ISA, "Matrix fragments for mma.m16n8k16 with .f16/.bf16": four threads share a row of A and C; B is by column.
constexpr FragmentLayout kCuda16x8x16{
    32, [](int row, int k) { return Place{(row % 8) * 4 + (k % 8) / 2, k % 2 + (row / 8) * 2 + (k / 8) * 4}; },
    [](int k, int column) { return Place{column * 4 + (k % 8) / 2, k % 2 + (k / 8) * 2}; },
    [](int row, int column) { return Place{(row % 8) * 4 + column / 2, column % 2 + (row / 8) * 2}; }};

/// A float with 10 bits of mantissa, the nearest one; of two, the one away from zero.
double rounded_to_tf32(double value) {
  if (!std::isfinite(value)) return value;
  constexpr uint32_t kDropped = (1u << 13) - 1;
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  return static_cast<double>(std::bit_cast<float>((bits + (kDropped + 1) / 2) & ~kDropped));
}

// NVIDIA PTX ISA, "Matrix fragments for mma.m16n8k8 with .tf32"; the kernels round with cvt.rna.
constexpr FragmentLayout kCuda16x8x8{
    32, [](int row, int k) { return Place{(row % 8) * 4 + k % 4, row / 8 + (k / 4) * 2}; },
    [](int k, int column) { return Place{column * 4 + k % 4, k / 4}; }, kCuda16x8x16.c, rounded_to_tf32};

// AMD RDNA3 ISA, wave32 WMMA: lanes 0-15 hold the rows of A and the columns of B, lanes 16-31 hold them again; D's even rows are
// in the lower half of the wave, its odd rows in the upper one.
constexpr FragmentLayout kRdna3{32, [](int row, int k) { return Place{row, k}; },
                                [](int k, int column) { return Place{column, k}; },
                                [](int row, int column) { return Place{(row % 2) * 16 + column, row / 2}; }};

Place metal_place(int row, int column) {
  return {(column / 2) % 2 + (row % 4) * 2 + (column / 4) * 8 + (row / 4) * 16, column % 2};
}
// Apple simdgroup 8x8: two neighbouring columns a thread, quads of 4 x 4.
constexpr FragmentLayout kMetal8x8{32, metal_place, metal_place, metal_place};

// Intel subgroup matrix-mad, 8 lanes: A packs two k a 32-bit lane and all rows in the vector; B and C are by column.
constexpr FragmentLayout kIntel8x8x16{8, [](int row, int k) { return Place{k / 2, k % 2 + row * 2}; },
                                      [](int k, int column) { return Place{column, k}; },
                                      [](int row, int column) { return Place{column, row}; }};

// Apple AMX: an outer product of two vectors in one thread.
constexpr FragmentLayout kAmx{1, [](int row, int) { return Place{0, row}; },
                              [](int, int column) { return Place{0, column}; },
                              [](int row, int column) { return Place{0, row * 16 + column}; }};

// Dot products of vectors: a row of A for all lanes, each lane's column of B on its own.
template <int kSteps>
constexpr FragmentLayout kDots{1, [](int, int k) { return Place{0, k}; },
                               [](int k, int column) { return Place{0, column * kSteps + k}; },
                               [](int, int column) { return Place{0, column}; }};

const FragmentLayout& layout_of(const WmmaArg& arg) {
  if (arg.device == "CUDA" || arg.device == "NV") return arg.dims[2] == 8 ? kCuda16x8x8 : kCuda16x8x16;
  if (arg.device == "AMD" || arg.device == "HIP") return kRdna3;
  if (arg.device == "METAL") return kMetal8x8;
  if (arg.device == "GPU") return kIntel8x8x16;
  if (arg.device == "CLANG") return kAmx;
  if (arg.device == "CPU") return arg.dims[2] == 2 ? kDots<2> : kDots<4>;
  throw InternalError("interp: no tensor core layout for " + arg.device);
}

}  // namespace

void run_wmma(const Insn& insn, uint64_t* regs, size_t lanes) {
  const WmmaArg& arg = *std::get<const WmmaArg*>(insn.uop.arg());
  const FragmentLayout& layout = layout_of(arg);
  const int n = arg.dims[0], m = arg.dims[1], k = arg.dims[2];
  const auto group = static_cast<size_t>(layout.threads);
  if (lanes % group != 0)
    throw DeviceError(arg.name + " needs groups of " + std::to_string(group) + " threads, the work group has " +
                      std::to_string(lanes));
  std::vector<double> out(static_cast<size_t>(m) * static_cast<size_t>(n));
  for (size_t base = 0; base < lanes; base += group) {
    auto at = [&](Reg reg, Place p) -> uint64_t& {
      return regs[static_cast<size_t>(reg + p.element) * lanes + base + static_cast<size_t>(p.lane)];
    };
    const bool is_int = DType(arg.dtype_out).is_int();  // of 32 bits at most: a double holds every sum exactly
    auto value = [&](Reg reg, Place p) {
      return is_int ? static_cast<double>(static_cast<int64_t>(at(reg, p))) : std::bit_cast<double>(at(reg, p));
    };
    auto bits = [&](double x) {
      return is_int ? const_of_int(arg.dtype_out, static_cast<Int128>(x)).bits : std::bit_cast<uint64_t>(x);
    };
    auto operand = [&](Reg reg, Place p) { return layout.rounded ? layout.rounded(value(reg, p)) : value(reg, p); };
    if (&layout == &kRdna3)
      for (int row = 0; row < 16; ++row)
        for (int e = 0; e < 16; ++e)
          for (Reg matrix : {insn.src[0], insn.src[1]})
            if (at(matrix, {row, e}) != at(matrix, {row + 16, e}))
              throw DeviceError(arg.name + ": lanes " + std::to_string(row) + " and " + std::to_string(row + 16) +
                                " must hold the same operand");
    const auto width = static_cast<size_t>(n);
    for (int row = 0; row < m; ++row)
      for (int column = 0; column < n; ++column) {
        double sum = value(insn.src[2], layout.c(row, column));
        for (int i = 0; i < k; ++i)
          sum += operand(insn.src[0], layout.a(row, i)) * operand(insn.src[1], layout.b(i, column));
        out[static_cast<size_t>(row) * width + static_cast<size_t>(column)] =
            is_int ? sum : round_to(arg.dtype_out, sum);
      }
    for (int row = 0; row < m; ++row)
      for (int column = 0; column < n; ++column)
        at(insn.dst, layout.c(row, column)) = bits(out[static_cast<size_t>(row) * width + static_cast<size_t>(column)]);
  }
}

}  // namespace quern::interp
