#pragma once
#include <cstdint>

namespace quern {

/// Mixes `value` into `seed` (Fibonacci multiply and xor-shift: cheap, good enough for interning tables).
inline uint64_t hash_mix(uint64_t seed, uint64_t value) {
  uint64_t h = (seed ^ value) * 0x9E3779B97F4A7C15ull;
  return h ^ (h >> 29);
}

}  // namespace quern
