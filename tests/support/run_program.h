#pragma once
// Buffers as plain vectors around a device's run.

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ir/eval.h"
#include "runtime/device.h"

namespace quern::test {

inline void put(Buffer& b, size_t i, ConstBits value) {
  uint64_t bits = memory_bits(b.dtype(), value);
  auto width = static_cast<size_t>(bytes_of(b.dtype()));
  std::memcpy(b.data() + i * width, &bits, width);
}

inline ConstBits get(const Buffer& b, size_t i) {
  uint64_t bits = 0;
  auto width = static_cast<size_t>(bytes_of(b.dtype()));
  std::memcpy(&bits, b.data() + i * width, width);
  return from_memory_bits(b.dtype(), bits);
}

/// A device that compiles, and the C compiler it uses for that.
struct DeviceCase {
  std::string name;
  std::string compiler;
  std::string text() const { return compiler.empty() ? name : name + "_" + compiler; }
};
inline void PrintTo(const DeviceCase& d, std::ostream* out) { *out << d.text(); }

inline const std::vector<DeviceCase>& compiling_devices() {
  static const std::vector<DeviceCase> all = {{"CPU", ""}, {"CLANG", "clang-19"}, {"CLANG", "gcc"}};
  return all;
}

/// Null where this machine does not have it.
inline std::shared_ptr<Device> open_case(const DeviceCase& d) {
  Settings settings;
  if (!d.compiler.empty()) settings.set("CC", d.compiler);
  for (const DeviceInfo& info : devices(settings))
    if (info.name == d.name && info.available) return open_device(d.name, settings);
  return nullptr;
}

/// Letters, digits and _ only, as gtest wants its names.
inline std::string test_name(std::string text) {
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return text;
}

inline std::unique_ptr<Buffer> buffer_of(Scalar s, const std::vector<double>& values) {
  auto b = std::make_unique<Buffer>(s, static_cast<int64_t>(values.size()));
  bool real = (scalar_bit(s) & kFloats) != 0;
  for (size_t i = 0; i < values.size(); ++i)
    put(*b, i, real ? const_of_float(s, values[i]) : const_of_int(s, static_cast<Int128>(values[i])));
  return b;
}

inline std::vector<double> values_of(const Buffer& b) {
  std::vector<double> values;
  bool real = (DType(b.dtype())).is_float();
  for (int64_t i = 0; i < b.size(); ++i) {
    ConstBits c = get(b, static_cast<size_t>(i));
    values.push_back(real ? float_of_const(c) : static_cast<double>(int_of_const(b.dtype(), c)));
  }
  return values;
}

/// Runs `program` over these buffers, in order of number.
inline void run(Device& device, const Program& program, const std::vector<std::unique_ptr<Buffer>>& buffers,
                const VarValues& vars = {}) {
  std::vector<Buffer*> raw;
  for (const auto& b : buffers) raw.push_back(b.get());
  device.compile(program)->run(raw, vars);
}

}  // namespace quern::test
