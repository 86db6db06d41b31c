#pragma once
// A C-style language as data: all that the one printer (c_writer.h) has to know of it. One table a dialect, a file each.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "ir/uop.h"
#include "ir/view.h"
#include "render/facts.h"

namespace quern {

class CPrelude;

struct CTypes {
  std::string_view value;        // of a variable; empty: the language has no such type
  std::string_view memory;       // of an element of a buffer: a bool is a byte
  std::string_view wrapping;     // the unsigned type, no narrower than int, in which arithmetic wraps
  std::string_view declaration;  // what stands above its first use
};
using CTypeTable = std::array<CTypes, kNumScalars>;

/// Functions and constants of float or of double. No name: the operation is not native (a square root: a prelude function).
struct CMath {
  std::string_view sqrt, exp2, log2, sin;
  std::string_view nan, infinity;
};

/// `{n}` in patterns is what the comment says.
struct CDialect {
  std::string_view language;  // for messages
  CTypeTable types;
  ScalarSet bits = 0;    // half, bfloat16 where they are held as the bits of a value: functions convert them
  ScalarSet direct = 0;  // half, bfloat16 where + - * and comparisons are written as they are
  std::array<std::string_view, 3> direct_calls;  // + - * on direct types as functions; empty: as operators

  // Values.
  std::string_view long_suffix, ulong_suffix;
  CMath math_float, math_double;
  std::string_view bitcast;  // {0} type, {1} value; empty: a function through a union
  std::string_view vector;   // {0} type, {1} lanes
  bool named_lanes = true;   // v.x, v.s7; else v[7]
  std::string (*vector_name)(const DType& t);
  std::string (*vector_declaration)(const CDialect& dialect, const DType& t);  // empty: built in
  std::string_view vector_maker;  // body of make_T for declared types: {0} type, {1} lanes; empty: none needed

  // Above the function.
  std::string_view header;
  std::string_view no_contraction;                // keeps a * b + c two roundings
  std::string_view function;                      // in front of helper functions
  std::string_view float_of_half, half_of_float;  // bodies where half is bits; empty: by integer arithmetic

  // The function.
  std::string (*kernel)(const Launch& launch);  // in front of its name
  std::string_view buffer;                      // {0} "const " or nothing, {1} type, {2} name
  std::string_view variable;                    // {0} type, {1} name
  std::string_view no_arguments;
  std::string_view image;        // {0} access, {1} name; empty: no images
  std::string_view image_read;   // {0} image, {1} coordinates
  std::string_view image_write;  // {0} image, {1} coordinates, {2} value
  std::string_view image_header;

  // Threads. work_item: 'g' group, 'l' item of its group, 'i' item of all; dimension.
  std::string (*work_item)(char kind, int dimension) = nullptr;
  std::array<std::string_view, 3>
      work_item_parameters{};                  // extra arguments that g, l and i read; their name is the 2nd word
  std::string_view global_space, local_space;  // of pointers
  std::string_view local;                      // {0} type, {1} name, {2} size
  std::string_view barrier;                    // empty: one thread, which waits for nobody

  // Tensor cores: the name of a prelude function f(a, b, c) -> d, or f(&a, &b, &d) where d holds c before.
  std::string (*wmma)(CPrelude& prelude, const WmmaArg& arg, const DType& a, const DType& b, const DType& c) = nullptr;
  bool wmma_by_address = false;

  std::span<const std::string_view> reserved;  // words no variable may be called, besides C's

  const CTypes& type(Scalar s) const { return types[static_cast<size_t>(s)]; }
  bool is_bits(Scalar s) const { return (scalar_bit(s) & bits) != 0; }
  bool is_direct(Scalar s) const { return (scalar_bit(s) & direct) != 0; }
};

/// "float4"
std::string plain_vector_name(const DType& t);
std::string no_vector_declaration(const CDialect& dialect, const DType& t);
/// x, y, z, w of up to four lanes; s0 ... s9, sa ... sf of more.
std::string lane_name(int lanes, int lane);

/// Types as C spells them; `half` and `bfloat16` by their declarations.
CTypeTable c_types(std::string_view bool_type, CTypes half, CTypes bfloat16);
/// Types of OpenCL C and Metal, whose long has 64 bits.
CTypeTable short_types(CTypes half, CTypes bfloat16, CTypes double_type);

const CDialect& c11_dialect();
const CDialect& dsp_dialect();
const CDialect& opencl_dialect();       // halfs as bits: runs on any device
const CDialect& opencl_half_dialect();  // with cl_khr_fp16
const CDialect& intel_dialect();
const CDialect& cuda_dialect(bool has_bfloat16);
const CDialect& hip_dialect();
const CDialect& metal_dialect();

}  // namespace quern
