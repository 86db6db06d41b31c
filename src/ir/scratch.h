#pragma once
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "ir/uop.h"

namespace quern {

/// Memory behind NodeScratch: an entry is valid if its epoch is the current one, so that starting anew clears nothing.
struct ScratchBuffer {
  struct Slot {
    uint64_t value;
    uint32_t epoch;
  };
  std::vector<Slot> slots;
  uint32_t epoch = 0;
};

/// A buffer of this thread's pool, started anew; buffers are kept for the next taker.
std::unique_ptr<ScratchBuffer> take_scratch();
void give_back(std::unique_ptr<ScratchBuffer> buffer);

/// A small value for each of some nodes, by the node's number. Unlike a NodeMap it costs nothing to make, however large the
/// graph: for short work done often.
template <class T>
class NodeScratch {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);

 public:
  NodeScratch() : buffer_(take_scratch()) {}
  ~NodeScratch() { give_back(std::move(buffer_)); }
  NodeScratch(const NodeScratch&) = delete;
  NodeScratch& operator=(const NodeScratch&) = delete;

  /// What was set for `u`, or T{}.
  T get(UOp u) const {
    T value{};
    if (u.id() < buffer_->slots.size() && buffer_->slots[u.id()].epoch == buffer_->epoch)
      std::memcpy(static_cast<void*>(&value), &buffer_->slots[u.id()].value, sizeof(T));
    return value;
  }
  void set(UOp u, T value) {
    if (u.id() >= buffer_->slots.size()) buffer_->slots.resize(std::max<size_t>(u.id() + 1, buffer_->slots.size() * 2));
    ScratchBuffer::Slot& slot = buffer_->slots[u.id()];
    slot.epoch = buffer_->epoch;
    std::memcpy(&slot.value, static_cast<const void*>(&value), sizeof(T));
  }

 private:
  std::unique_ptr<ScratchBuffer> buffer_;
};

}  // namespace quern
