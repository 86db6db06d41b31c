#include "cli/npy.h"

#include <charconv>
#include <cstring>
#include <fstream>
#include <regex>

#include <fmt/format.h>

#include "cli/input.h"

namespace quern::cli {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

/// NumPy's name of a dtype.
std::string descr_of(Scalar s) {
  switch (s) {
    case Scalar::Bool: return "|b1";
    case Scalar::Int8: return "|i1";
    case Scalar::UInt8: return "|u1";
    case Scalar::Int16: return "<i2";
    case Scalar::UInt16:
    case Scalar::BFloat16: return "<u2";
    case Scalar::Int32: return "<i4";
    case Scalar::UInt32: return "<u4";
    case Scalar::Int64: return "<i8";
    case Scalar::UInt64: return "<u8";
    case Scalar::Half: return "<f2";
    case Scalar::Float: return "<f4";
    case Scalar::Double: return "<f8";
    default: throw UsageError("no .npy dtype for " + std::string(to_string(s)));
  }
}

/// The value of a key of a header, which is a Python dict's text; false where there is none.
bool find_value(const std::string& header, const char* key, const char* value, std::string& found) {
  std::smatch m;
  if (!std::regex_search(header, m, std::regex(fmt::format("'{}':\\s*{}", key, value)))) return false;
  found = m[1];
  return true;
}

/// The whole file, or only its start if that says that it is no .npy file: it may have no end.
std::string read_whole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw UsageError("cannot open " + path + ": " + std::strerror(errno));
  std::string file(kMagic.size(), '\0');
  try {
    in.exceptions(std::ios::badbit);
    in.read(file.data(), static_cast<std::streamsize>(file.size()));
    file.resize(static_cast<size_t>(in.gcount()));
    if (file != kMagic) throw UsageError(path + " is not a .npy file");
    file.append(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  } catch (const std::ios::failure&) {
    throw UsageError("cannot read " + path + ": " + std::strerror(errno));
  }
  return file;
}

struct Header {
  std::string descr;
  bool fortran_order = false;
  int64_t elements = 1;
  size_t data_start = 0;
};

Header parse_header(const std::string& path, const std::string& file) {
  if (file.size() < 10) throw UsageError(path + ": the .npy header is cut off");
  int major = static_cast<unsigned char>(file[6]);
  size_t length_bytes = major == 1 ? 2 : 4, length = 0;
  if (major < 1 || major > 3) throw UsageError(fmt::format("{}: .npy version {} is not known", path, major));
  for (size_t i = 0; i < length_bytes && 8 + i < file.size(); ++i)
    length |= static_cast<size_t>(static_cast<unsigned char>(file[8 + i])) << (8 * i);
  Header h;
  h.data_start = 8 + length_bytes + length;
  if (h.data_start > file.size()) throw UsageError(path + ": the .npy header is cut off");
  std::string text = file.substr(8 + length_bytes, length);
  std::string order, shape;
  if (!find_value(text, "descr", "'([^']*)'", h.descr))
    throw UsageError(path + ": the .npy header has no dtype of plain numbers");
  if (!find_value(text, "fortran_order", "(True|False)", order))
    throw UsageError(path + ": no fortran_order in the .npy header");
  h.fortran_order = order == "True";
  if (!find_value(text, "shape", "\\(([\\d\\s,]*)\\)", shape))
    throw UsageError(path + ": no shape of whole numbers in the .npy header");
  const std::regex digits("\\d+");
  for (std::sregex_iterator it(shape.begin(), shape.end(), digits), end; it != end; ++it) {
    const std::string size = it->str();
    int64_t n = 0;
    if (std::from_chars(size.data(), size.data() + size.size(), n).ec != std::errc() ||
        __builtin_mul_overflow(h.elements, n, &h.elements))
      throw UsageError(path + ": shape is too large");
  }
  return h;
}

}  // namespace

std::unique_ptr<Buffer> read_npy(const std::string& path, Scalar dtype, int64_t size) {
  std::string file = read_whole(path);
  Header h = parse_header(path, file);
  if (h.descr != descr_of(dtype))
    throw UsageError(
        fmt::format("{} holds {}, the kernel's buffer is {} ({})", path, h.descr, to_string(dtype), descr_of(dtype)));
  if (h.fortran_order) throw UsageError(path + " is in Fortran order; save it in C order");
  if (h.elements != size)
    throw UsageError(fmt::format("{} holds {} elements, the kernel's buffer {}", path, h.elements, size));
  auto buffer = std::make_unique<Buffer>(dtype, size);
  if (file.size() - h.data_start < buffer->bytes())
    throw UsageError(fmt::format("{} is cut off: {} bytes of data instead of {}", path, file.size() - h.data_start,
                                 buffer->bytes()));
  std::memcpy(buffer->data(), file.data() + h.data_start, buffer->bytes());
  return buffer;
}

void write_npy(const std::string& path, const Buffer& buffer) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({},), }}",
                                   descr_of(buffer.dtype()), buffer.size());
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  std::ofstream out(path, std::ios::binary);
  auto length = static_cast<uint16_t>(header.size());
  out << kMagic << '\x01' << '\x00' << static_cast<char>(length & 0xFF) << static_cast<char>(length >> 8) << header;
  out.write(reinterpret_cast<const char*>(buffer.data()), static_cast<std::streamsize>(buffer.bytes()));
  out.close();
  if (!out) throw UsageError("cannot write " + path + ": " + std::strerror(errno));
}

}  // namespace quern::cli
