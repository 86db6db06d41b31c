#include "lower/threefry.h"

#include <array>

#include "lower/arith.h"

namespace quern {

namespace {

constexpr int64_t kWord = int64_t{1} << 32;

struct Words {
  UOp low, high;
};

// Multiplications and divisions rather than shifts: the rules that remove 64-bit arithmetic know those.
Words halves(UOp x) { return {x.cast(Scalar::UInt32), x.idiv(x.const_like(kWord)).cast(Scalar::UInt32)}; }

UOp rotated(UOp x, int bits) { return x * (int64_t{1} << bits) + x.idiv(x.const_like(int64_t{1} << (32 - bits))); }

}  // namespace

UOp expand_threefry(UOp counter, UOp key) {
  static constexpr std::array<std::array<int, 4>, 2> kRotations = {{{13, 15, 26, 6}, {17, 29, 16, 24}}};
  const Words k = halves(key);
  const std::array<UOp, 3> schedule = {k.high, k.low ^ k.high ^ word_like(k.low, 0x1BD11BDA), k.low};
  Words x = halves(counter);
  x = {x.low + schedule[2], x.high + schedule[0]};
  for (size_t round = 0; round < 5; ++round) {
    for (int bits : kRotations[round % 2]) {
      x.low = x.low + x.high;
      x.high = x.low ^ rotated(x.high, bits);
    }
    x.low = x.low + schedule[round % 3];
    x.high = x.high + schedule[(round + 1) % 3] + static_cast<int64_t>(round + 1);
  }
  return x.high.cast(Scalar::UInt64) * kWord | x.low.cast(Scalar::UInt64);
}

}  // namespace quern
