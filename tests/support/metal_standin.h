#pragma once
// Just enough of Metal's types and built-ins for kernels to compile as C++, and to run, an item at a time, where nothing waits
// for another thread. For clang on x86-64.

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#define kernel
#define device
#define constant const
#define threadgroup

using uchar = unsigned char;
using ushort = unsigned short;
using uint = unsigned int;
using ulong = unsigned long;
using half = _Float16;

template <class To, class From>
To as_type(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &x, sizeof to);
  return to;
}

/// Rounds to nearest, ties to even.
struct bfloat {
  ushort bits;
  bfloat() = default;
  explicit bfloat(float x) {
    uint u = as_type<uint>(x);
    bits = static_cast<ushort>(x != x ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16);
  }
  operator float() const { return as_type<float>(static_cast<uint>(bits) << 16); }  // NOLINT: as in Metal
};

template <class T>
struct alignas(2 * sizeof(T)) Vector2 {
  T x, y;
  Vector2() = default;
  Vector2(T a, T b) : x(a), y(b) {}
};
template <class T>
struct alignas(4 * sizeof(T)) Vector4 {
  T x, y, z, w;
  Vector4() = default;
  Vector4(T a, T b, T c, T d) : x(a), y(b), z(c), w(d) {}
};
struct uint3 {
  uint x, y, z;
};

#define VECTORS(type)            \
  using type##2 = Vector2<type>; \
  using type##4 = Vector4<type>;
VECTORS(char)
VECTORS(uchar)
VECTORS(short)
VECTORS(ushort)
VECTORS(int)
VECTORS(uint)
VECTORS(long)
VECTORS(ulong)
VECTORS(half)
VECTORS(bfloat)
VECTORS(float)
#undef VECTORS

namespace metal {

enum class mem_flags { mem_threadgroup };
inline void threadgroup_barrier(mem_flags) { std::abort(); }  // no other thread would come

template <class T>
struct simdgroup_matrix {
  T mine[2];
  T (&thread_elements())[2] { return mine; }
};
using simdgroup_float8x8 = simdgroup_matrix<float>;
using simdgroup_half8x8 = simdgroup_matrix<half>;
template <class D, class A, class B, class C>
void simdgroup_multiply_accumulate(D&, A&, B&, C&) {
  std::abort();  // the rest of the matrices is in other threads
}

namespace precise {
inline float sqrt(float x) { return std::sqrt(x); }
inline float exp2(float x) { return std::exp2(x); }
inline float log2(float x) { return std::log2(x); }
inline float sin(float x) { return std::sin(x); }
}  // namespace precise

}  // namespace metal

/// Calls a kernel whose arguments are all buffers.
template <class... Buffers, std::size_t... I>
void call_with(void (*function)(Buffers...), void** buffers, std::index_sequence<I...>) {
  function(static_cast<Buffers>(buffers[I])...);
}
template <class... Buffers>
void call_with(void (*function)(Buffers...), void** buffers) {
  call_with(function, buffers, std::index_sequence_for<Buffers...>());
}
