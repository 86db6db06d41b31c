#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quern {

/// Scalar types in the reference's promotion order. `Index` is the type of index arithmetic: an unbounded integer with floor
/// division; it has no size and never reaches a renderer.
enum class Scalar : uint8_t {
  Void,
  Bool,
  Int8,
  UInt8,
  Int16,
  UInt16,
  Int32,
  UInt32,
  Int64,
  UInt64,
  Half,
  BFloat16,
  Float,
  Double,
  Index
};
inline constexpr int kNumScalars = 15;

/// A set of scalar types as a bit mask.
using ScalarSet = uint16_t;
constexpr ScalarSet scalar_bit(Scalar s) { return static_cast<ScalarSet>(1u << static_cast<unsigned>(s)); }
inline constexpr ScalarSet kAnyScalar = 0x7FFF;
inline constexpr ScalarSet kSignedInts =
    scalar_bit(Scalar::Int8) | scalar_bit(Scalar::Int16) | scalar_bit(Scalar::Int32) | scalar_bit(Scalar::Int64);
inline constexpr ScalarSet kUnsignedInts =
    scalar_bit(Scalar::UInt8) | scalar_bit(Scalar::UInt16) | scalar_bit(Scalar::UInt32) | scalar_bit(Scalar::UInt64);
inline constexpr ScalarSet kMachineInts = kSignedInts | kUnsignedInts;  ///< ints that wrap
inline constexpr ScalarSet kIndexOnly = scalar_bit(Scalar::Index);
inline constexpr ScalarSet kAllInts = kMachineInts | kIndexOnly;
inline constexpr ScalarSet kFloats =
    scalar_bit(Scalar::Half) | scalar_bit(Scalar::BFloat16) | scalar_bit(Scalar::Float) | scalar_bit(Scalar::Double);
inline constexpr ScalarSet kBoolOnly = scalar_bit(Scalar::Bool);

enum class Space : uint8_t { Value, Global, Local, Image };

/// What an op gives: a scalar or a vector of up to 256 lanes, a pointer to global or local memory, or an image.
/// Plain value; two dtypes are the same iff all members are equal.
struct DType {
  Scalar scalar = Scalar::Void;  ///< element type; for images the type a read gives (Float)
  Space space = Space::Value;
  bool image_half = false;    ///< imageh: stored as half
  uint16_t count = 1;         ///< lanes of the value, or of what is pointed to
  uint16_t ptr_lanes = 1;     ///< a vector of pointers (while indices are expanded)
  uint32_t image_height = 0;  ///< images are height x width x 4
  uint32_t image_width = 0;

  constexpr DType() = default;
  constexpr DType(Scalar s, uint16_t lanes = 1) : scalar(s), count(lanes) {}  // NOLINT: a scalar is a dtype
  bool operator==(const DType&) const = default;

  bool is_ptr() const { return space != Space::Value; }  ///< pointer or image
  bool is_image() const { return space == Space::Image; }
  bool is_local() const { return space == Space::Local; }
  bool is_in(ScalarSet set) const { return (scalar_bit(scalar) & set) != 0; }
  bool is_float() const { return is_in(kFloats); }
  bool is_int() const { return is_in(kAllInts); }
  bool is_unsigned() const { return is_in(kUnsignedInts); }
  bool is_bool() const { return scalar == Scalar::Bool; }
  bool is_index() const { return scalar == Scalar::Index; }
  bool is_void() const { return scalar == Scalar::Void; }
  /// Lanes of the op's result: pointer lanes for pointers.
  int lanes() const { return is_ptr() ? ptr_lanes : count; }

  /// The same type with one lane (pointers: unchanged but for pointer lanes).
  DType scalar_type() const {
    DType t = *this;
    (is_ptr() ? t.ptr_lanes : t.count) = 1;
    return t;
  }
  /// `n` lanes of this one-lane type; void has no lanes.
  DType vec(int n) const {
    DType t = *this;
    if (!is_void() || is_ptr()) (is_ptr() ? t.ptr_lanes : t.count) = static_cast<uint16_t>(n);
    return t;
  }
  /// Pointer to values of this type.
  DType ptr(Space where = Space::Global) const {
    DType t = *this;
    t.space = where;
    t.ptr_lanes = 1;
    return t;
  }
  /// What a pointer points to; an image's reads are float.
  DType base() const { return DType(scalar, count); }
  /// Bytes of one value (pointee for pointers); half for imageh.
  int itemsize() const;
};

inline DType image_type(bool half, uint32_t height, uint32_t width) {
  DType t(Scalar::Float);
  t.space = Space::Image;
  t.image_half = half;
  t.image_height = height;
  t.image_width = width;
  return t;
}

int bytes_of(Scalar s);
/// Bits of precision after the leading one, and the exponent's bits, of a float type.
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
};
FloatFormat float_format(Scalar s);

/// The reference's short name: "int", "uchar", "half", "index".
std::string_view to_string(Scalar s);
std::optional<Scalar> scalar_from_text(std::string_view text);
/// The reference notation: "dtypes.float.vec(4)", "dtypes.half.ptr()", "dtypes.imageh((8, 4, 4))".
std::string to_string(const DType& t);
/// The C name the reference uses in tensor core names: "float", "half", "__bf16".
std::string_view c_name(Scalar s);

}  // namespace quern
