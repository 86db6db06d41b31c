#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "quern/error.h"

#include "runtime/device.h"

namespace quern {

namespace {

size_t checked_bytes(Scalar dtype, int64_t size) {
  auto element = static_cast<uint64_t>(bytes_of(dtype));
  if (size < 0 || static_cast<uint64_t>(size) > (std::numeric_limits<int64_t>::max() - Buffer::kAlignment) / element)
    throw DeviceError("a buffer of " + std::to_string(size) + " " + std::string(to_string(dtype)) + "s cannot be made");
  return static_cast<size_t>(size) * element;
}

}  // namespace

Buffer::Buffer(Scalar dtype, int64_t size) : dtype_(dtype), size_(size), data_(nullptr, Free{}) {
  if (bytes_of(dtype) == 0 || dtype == Scalar::Index)
    throw DeviceError("no buffer holds values of dtypes." + std::string(to_string(dtype)));
  size_t needed = checked_bytes(dtype, size);
  size_t rounded = std::max(kAlignment, (needed + kAlignment - 1) / kAlignment * kAlignment);
  constexpr size_t kAddressSpace = size_t{1} << 47;
  auto* memory = needed < kAddressSpace ? static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)) : nullptr;
  if (memory == nullptr) throw DeviceError("out of memory for a buffer of " + std::to_string(needed) + " bytes");
  std::memset(memory, 0, rounded);
  data_.reset(memory);
}

std::vector<Buffer*> pointers_to(const Buffers& buffers) {
  std::vector<Buffer*> pointers;
  for (const std::unique_ptr<Buffer>& b : buffers) pointers.push_back(b.get());
  return pointers;
}

size_t Buffer::bytes() const { return static_cast<size_t>(size_) * static_cast<size_t>(bytes_of(dtype_)); }

}  // namespace quern
