// SIN: the argument is reduced by the bits of 2/pi that matter for its exponent (Payne and Hanek), exactly as integers, so that
// the angle keeps its full precision however large the argument is.
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "lower/transcendental.h"
#include "lower/transcendental_parts.h"

namespace quern {

namespace {

// sin(x) = x + x^3 S(x^2) on [-1, 1], cos(x) = 1 - x^2/2 + x^4 C(x^2) on [-pi/4, pi/4].
constexpr double kSinFloat[] = {-0.1666666716337204, 0.008333327248692513, -0.0001983817492146045,
                                2.7060668799094856e-06};
constexpr double kSinDouble[] = {-0.16666666666666666,   0.008333333333333333,    -0.00019841269841269773,
                                 2.7557319223932436e-06, -2.5052108364436048e-08, 1.605903935332227e-10,
                                 -7.646633386654242e-13, 2.7787599811497133e-15};
constexpr double kCosFloat[] = {0.0416666641831398, -0.0013888278044760227, 2.4542563551221974e-05};
constexpr double kCosDouble[] = {0.041666666666666664,    -0.0013888888888888887, 2.480158730158435e-05,
                                 -2.7557319221175745e-07, 2.08767557130385e-09,   -1.147044864854107e-11,
                                 4.745158038365112e-14};

// 2/pi as a string of bits in words, most significant first, behind as many zeros as make the window of an argument in [1, 2)
// begin at bit 0: the window for an exponent e begins at bit e.
constexpr std::array<uint32_t, 7> kTwoOverPiFloat = {0x51,       0x7CC1B727, 0x220A94FE, 0x13ABE8FA,
                                                     0x9A6EE06D, 0xB14ACC9E, 0x21C820FF};
constexpr std::array<uint32_t, 38> kTwoOverPiDouble = {
    0x0,        0x28B,      0xE60DB939, 0x1054A7F0, 0x9D5F47D4, 0xD377036D, 0x8A5664F1, 0x0E4107F9,
    0x458EAF7A, 0xEF1586DC, 0x91B8E909, 0x374B8019, 0x24BBA827, 0x464873F8, 0x77AC72C4, 0xA69CFBA2,
    0x08D7D4BA, 0xED1213A6, 0x71C09AD1, 0x7DF904E6, 0x4758E60D, 0x4CE7D272, 0x117E2EF7, 0xE4A0EC7F,
    0xE25FFF78, 0x16603FBC, 0xBC462D68, 0x29B47DB4, 0xD9FB3C9F, 0x2C26DD3D, 0x18FD9A79, 0x7FA8B5D4,
    0x9EEB1FAF, 0x97C5ECF4, 0x1CE7DE29, 0x4A4BA9AF, 0xED7EC47E, 0x35742158};

/// pi/2 as its rounded value (and that one's head and tail) and what the rounding lost.
struct HalfPi {
  double rounded, head, tail, lost;
};
constexpr HalfPi kHalfPiFloat{1.5707963705062866, 1.5703125, 0.0004838705062866211, -4.371138828673793e-08};
constexpr HalfPi kHalfPiDouble{1.5707963267948966, 1.5707963109016418, 1.5893254712295857e-08, 6.123233995736766e-17};

/// |x| = quadrant * pi/2 + (high + low): the quadrant modulo 4, the rest in [-pi/4, pi/4] to about twice the precision.
struct Reduced {
  UOp quadrant;  ///< of the unsigned type of the float's size
  UOp high, low;
};

/// An integer as a float: a sum of pieces that do not overlap, largest first, each exact.
struct Pieces {
  UOp top, middle, bottom;
};

/// Words first..first+count of the bit string, each uint64, read from `table` at the word `start / 32` and bit `start % 32`.
/// The word's number selects by its bits, the highest first: each step halves what is left of the table.
template <size_t N>
std::vector<UOp> window(const std::array<uint32_t, N>& table, UOp start, int words, int index_bits) {
  std::vector<UOp> left;
  for (uint32_t w : table) left.push_back(word_like(start, w));
  for (int bit = index_bits - 1; bit >= 0; --bit) {
    size_t step = size_t{1} << bit;
    UOp taken = mask(start, uint64_t{32} << bit).ne(start.const_like(0));
    size_t keep = static_cast<size_t>(words) + step;
    for (size_t i = 0; i < keep; ++i) left[i] = taken.where(left[i + step], left[i]);
    left.resize(keep);
  }
  UOp back = (mask(start, 31) ^ word_like(start, 31)) + start.const_like(1);  // 32 - start % 32
  std::vector<UOp> result;
  for (size_t i = 0; i < static_cast<size_t>(words); ++i)
    result.push_back(mask((shl(left[i], 32) | left[i + 1]).alu(Op::Shr, back), 0xFFFFFFFFu));
  return result;
}

UOp to_float(UOp word, Scalar type) {
  return word.cast(type == Scalar::Double ? Scalar::Int64 : Scalar::Int32).cast(type);
}

/// pieces (in quarter turns) times pi/2, as high + low.
std::pair<UOp, UOp> radians(const Pieces& p, const FloatParts& parts) {
  const HalfPi& pi = parts.type == Scalar::Double ? kHalfPiDouble : kHalfPiFloat;
  UOp sum = p.top + p.middle;
  UOp rest = sub(p.middle, sub(sum, p.top)) + p.bottom;
  UOp high = sum + rest;
  UOp low = sub(rest, sub(high, sum));
  UOp high_head = head(high, parts), high_tail = sub(high, head(high, parts));
  UOp product = times(high, pi.rounded);
  UOp error = sub(times(high_head, pi.head), product) + times(high_head, pi.tail) + times(high_tail, pi.head) +
              times(high_tail, pi.tail);
  UOp tail = error + (times(high, pi.lost) + times(low, pi.rounded));
  UOp angle = product + tail;
  return {angle, sub(tail, sub(angle, product))};
}

UOp negated_if(UOp condition, UOp x) { return condition.where(times(x, -1.0), x); }

/// 62 bits of fraction suffice: no float is closer than 2^-30 to a multiple of pi/2, relative to it.
Reduced reduce_float(UOp bits) {
  const FloatParts& parts = parts_of(Scalar::Float);
  const Scalar wide = Scalar::UInt64;
  UOp start = (shr(bits, 23) + word_like(bits, uint64_t{0} - 127)).cast(wide);
  start = mask(start, 127);
  UOp m = (mask(bits, 0x7FFFFF) | word_like(bits, 0x800000)).cast(wide);
  std::vector<UOp> w = window(kTwoOverPiFloat, start, 3, 2);
  UOp turns = shl(m * w[0], 32) + m * w[1] + shr(m * w[2], 32);  // in quarters, modulo 4: 62 bits of fraction
  UOp quadrant = shr(turns + word_like(turns, uint64_t{1} << 61), 62);
  UOp rest = sub(turns, shl(quadrant, 62));
  UOp negative = rest.bitcast(Scalar::Int64).lt(rest.bitcast(Scalar::Int64).const_like(0));
  UOp size = negative.where(sub(rest.const_like(0), rest), rest);
  Pieces pieces{times(to_float(shr(size, 40), parts.type), 0x1p-22),
                times(to_float(mask(shr(size, 18), 0x3FFFFF), parts.type), 0x1p-44),
                times(to_float(mask(size, 0x3FFFF), parts.type), 0x1p-62)};
  auto [high, low] = radians(pieces, parts);
  return {quadrant.cast(parts.bits), negated_if(negative, high), negated_if(negative, low)};
}

/// The middle four words of the product of a 53-bit number (two words) and six words: modulo 2^192, from bit 64 up.
std::array<UOp, 4> middle_words(UOp m, std::span<const UOp> w) {
  UOp m0 = mask(m, 0xFFFFFFFFu), m1 = shr(m, 32);
  std::array<UOp, 6> sum;
  UOp carry = m.const_like(0);
  for (size_t i = 0; i < 6; ++i) {
    UOp t = m0 * w[5 - i] + carry;
    sum[i] = mask(t, 0xFFFFFFFFu);
    carry = shr(t, 32);
  }
  carry = m.const_like(0);
  for (size_t i = 1; i < 6; ++i) {
    UOp t = m1 * w[6 - i] + sum[i] + carry;
    sum[i] = mask(t, 0xFFFFFFFFu);
    carry = shr(t, 32);
  }
  return {sum[2], sum[3], sum[4], sum[5]};
}

/// 126 bits of fraction: no double is closer than about 2^-62 to a multiple of pi/2.
Reduced reduce_double(UOp bits) {
  const FloatParts& parts = parts_of(Scalar::Double);
  UOp start = mask(shr(bits, 52) + word_like(bits, uint64_t{0} - 1023), 1023);
  UOp m = mask(bits, (uint64_t{1} << 52) - 1) | word_like(bits, uint64_t{1} << 52);
  auto sum = middle_words(m, window(kTwoOverPiDouble, start, 6, 5));
  UOp low_turns = sum[0] | shl(sum[1], 32), high_turns = sum[2] | shl(sum[3], 32);
  UOp quadrant = shr(high_turns + word_like(high_turns, uint64_t{1} << 61), 62);
  UOp rest = sub(high_turns, shl(quadrant, 62));
  UOp zero = rest.const_like(0);
  UOp negative = rest.bitcast(Scalar::Int64).lt(rest.bitcast(Scalar::Int64).const_like(0));
  UOp borrow = low_turns.ne(zero).cast(Scalar::UInt64);
  UOp high = negative.where(sub(sub(zero, rest), borrow), rest);
  UOp low = negative.where(sub(zero, low_turns), low_turns);
  Pieces pieces{times(to_float(shr(high, 20), parts.type), 0x1p-42),
                times(to_float(shl(mask(high, 0xFFFFF), 32) | shr(low, 32), parts.type), 0x1p-94),
                times(to_float(mask(low, 0xFFFFFFFFu), parts.type), 0x1p-126)};
  auto [angle, error] = radians(pieces, parts);
  return {quadrant, negated_if(negative, angle), negated_if(negative, error)};
}

}  // namespace

UOp expand_sin(UOp x) {
  Scalar type = x.dtype().scalar;
  if (type == Scalar::Half || type == Scalar::BFloat16) return expand_sin(x.cast(Scalar::Float)).cast(x.dtype());
  const FloatParts& p = parts_of(type);
  const bool wide = type == Scalar::Double;
  const uint64_t sign_bit = uint64_t{1} << (wide ? 63 : 31);
  UOp bits = x.bitcast(p.bits);
  UOp sign = mask(bits, sign_bit), size_bits = mask(bits, sign_bit - 1);
  UOp size = size_bits.bitcast(type);
  Reduced r = wide ? reduce_double(size_bits) : reduce_float(size_bits);
  UOp direct = less(size, 1.0);
  UOp zero = x.const_like_float(0.0);
  UOp high = direct.where(size, r.high), low = direct.where(zero, r.low);
  UOp quadrant = direct.where(r.quadrant.const_like(0), r.quadrant);

  UOp z = high * high;
  UOp sine = high + (low + high * z * (wide ? polynomial(z, kSinDouble) : polynomial(z, kSinFloat)));
  UOp half_z = times(z, 0.5);
  UOp first = sub(x.const_like_float(1.0), half_z);
  UOp lost = sub(sub(x.const_like_float(1.0), first), half_z);
  UOp cosine = first + (lost + sub(z * z * (wide ? polynomial(z, kCosDouble) : polynomial(z, kCosFloat)), high * low));

  UOp result = mask(quadrant, 1).ne(quadrant.const_like(0)).where(cosine, sine);
  UOp flips = shl(mask(quadrant, 2), wide ? 62 : 30);
  result = (result.bitcast(p.bits) ^ sign ^ flips).bitcast(type);
  return less(size, std::numeric_limits<double>::infinity())
      .where(result, x.const_like_float(std::numeric_limits<double>::quiet_NaN()));
}

}  // namespace quern
