#pragma once
// Just enough of Metal's types and built-ins for kernels to compile as C++, and to run, an item at a time, where nothing waits
// for another thread. For clang on x86-64.

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <tuple>

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

/// Of an argument of a kernel: a buffer's address, a variable by its address, or the next of the places of the work item.
template <class T>
struct Argument {
  static T of(void* const*&, const uint3*& place) { return *place++; }
};
template <class T>
struct Argument<T*> {
  static T* of(void* const*& next, const uint3*&) { return static_cast<T*>(*next++); }
};
template <class T>
struct Argument<const T&> {
  static const T& of(void* const*& next, const uint3*&) { return *static_cast<const T*>(*next++); }
};

template <class... Arguments>
void call_with(void (*function)(Arguments...), void* const* arguments, std::initializer_list<uint3> places = {}) {
  const uint3* place = places.begin();
  std::apply(function, std::tuple<Arguments...>{Argument<Arguments>::of(arguments, place)...});
}

/// Does it for each work item, one after the other: do_it(group, item, position).
template <class F>
void for_each_item(const long* groups, const long* items, F do_it) {
  auto each = [](const long* sizes, auto body) {
    for (uint z = 0; z < sizes[2]; z++)
      for (uint y = 0; y < sizes[1]; y++)
        for (uint x = 0; x < sizes[0]; x++) body(uint3{x, y, z});
  };
  uint3 size{static_cast<uint>(items[0]), static_cast<uint>(items[1]), static_cast<uint>(items[2])};
  each(groups, [&](uint3 g) {
    each(items, [&](uint3 i) { do_it(g, i, uint3{g.x * size.x + i.x, g.y * size.y + i.y, g.z * size.z + i.z}); });
  });
}
