#include "ir/ops.h"

namespace quern {

namespace {

constexpr size_t kSlots = 256;
constexpr uint8_t kFree = 0xFF;

constexpr size_t slot_of(std::string_view text) {
  auto at = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(text[i])); };
  return (text.size() * 37 + at(0) * 11 + at(text.size() / 2) * 3 + at(text.size() - 1)) % kSlots;
}

/// Open addressing over the op table: reading a kernel looks an op up for every node.
constexpr std::array<uint8_t, kSlots> make_index() {
  std::array<uint8_t, kSlots> index{};
  for (uint8_t& slot : index) slot = kFree;
  for (size_t i = 0; i < kOpTable.size(); ++i) {
    size_t slot = slot_of(kOpTable[i].text);
    while (index[slot] != kFree) slot = (slot + 1) % kSlots;
    index[slot] = static_cast<uint8_t>(i);
  }
  return index;
}
constexpr auto kIndex = make_index();

}  // namespace

std::optional<Op> op_from_text(std::string_view text) {
  if (text.empty()) return std::nullopt;
  for (size_t slot = slot_of(text); kIndex[slot] != kFree; slot = (slot + 1) % kSlots)
    if (kOpTable[kIndex[slot]].text == text) return static_cast<Op>(kIndex[slot]);
  return std::nullopt;
}

}  // namespace quern
