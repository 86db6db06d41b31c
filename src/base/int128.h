#pragma once
#include <cstdint>
#include <string>

namespace quern {

/// Wide enough to hold every value of every integer dtype and the product of two 64-bit ones.
__extension__ typedef __int128 Int128;

inline Int128 floor_div(Int128 a, Int128 b) {
  Int128 q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
inline Int128 floor_mod(Int128 a, Int128 b) { return a - floor_div(a, b) * b; }
inline Int128 ceil_div(Int128 a, Int128 b) { return -floor_div(-a, b); }
inline int64_t floor_div(int64_t a, int64_t b) { return static_cast<int64_t>(floor_div(Int128{a}, Int128{b})); }
inline int64_t floor_mod(int64_t a, int64_t b) { return static_cast<int64_t>(floor_mod(Int128{a}, Int128{b})); }

std::string to_string(Int128 value);

}  // namespace quern
