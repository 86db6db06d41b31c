#include "ir/dtype.h"

#include <array>

#include "quern/error.h"

namespace quern {

namespace {
struct ScalarInfo {
  std::string_view name;
  std::string_view c_name;
  int bytes;
};
constexpr std::array<ScalarInfo, kNumScalars> kScalars = {{
    {"void", "void", 0},
    {"bool", "bool", 1},
    {"char", "char", 1},
    {"uchar", "unsigned char", 1},
    {"short", "short", 2},
    {"ushort", "unsigned short", 2},
    {"int", "int", 4},
    {"uint", "unsigned int", 4},
    {"long", "long", 8},
    {"ulong", "unsigned long", 8},
    {"half", "half", 2},
    {"bfloat16", "__bf16", 2},
    {"float", "float", 4},
    {"double", "double", 8},
    {"index", "index", 4},
}};
const ScalarInfo& row(Scalar s) { return kScalars[static_cast<size_t>(s)]; }
}  // namespace

int bytes_of(Scalar s) { return row(s).bytes; }
std::string_view to_string(Scalar s) { return row(s).name; }
std::string_view c_name(Scalar s) { return row(s).c_name; }

std::optional<Scalar> scalar_from_text(std::string_view text) {
  for (int i = 0; i < kNumScalars; ++i)
    if (kScalars[static_cast<size_t>(i)].name == text) return static_cast<Scalar>(i);
  return std::nullopt;
}

FloatFormat float_format(Scalar s) {
  switch (s) {
    case Scalar::Half: return {5, 10};
    case Scalar::BFloat16: return {8, 7};
    case Scalar::Float: return {8, 23};
    case Scalar::Double: return {11, 52};
    default: throw InternalError("float_format of " + std::string(to_string(s)));
  }
}

int DType::itemsize() const {
  if (is_image()) return image_half ? 2 : 4;
  return bytes_of(scalar) * count;
}

std::string to_string(const DType& t) {
  std::string lanes = t.ptr_lanes != 1 ? ".vec(" + std::to_string(t.ptr_lanes) + ")" : "";
  if (t.is_image())
    return std::string("dtypes.") + (t.image_half ? "imageh" : "imagef") + "((" + std::to_string(t.image_height) +
           ", " + std::to_string(t.image_width) + ", 4))" + lanes;
  std::string text = "dtypes." + std::string(to_string(t.scalar));
  if (t.count > 1) text += ".vec(" + std::to_string(t.count) + ")";
  if (t.is_ptr()) text += std::string(".ptr(") + (t.is_local() ? "local=True" : "") + ")" + lanes;
  return text;
}

}  // namespace quern
