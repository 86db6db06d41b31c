#pragma once
#include <memory>
#include <string>

#include "runtime/device.h"

namespace quern::cli {

/// Reads a NumPy .npy file (version 1 to 3, little endian, C order) into a buffer. The file's dtype must be `dtype` (bfloat16 is
/// stored as uint16) and it must hold `size` elements in any shape; a UsageError says what differs.
std::unique_ptr<Buffer> read_npy(const std::string& path, Scalar dtype, int64_t size);
/// Writes a buffer as a one-dimensional .npy file.
void write_npy(const std::string& path, const Buffer& buffer);

}  // namespace quern::cli
