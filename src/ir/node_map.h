#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "ir/uop.h"

namespace quern {

/// Memory behind NodeScratch and NodeMap: an entry is valid if its epoch is the current one, so that starting anew clears nothing.
template <class Word>
struct ScratchBuffer {
  struct Slot {
    Word value;
    uint32_t epoch;
  };
  std::vector<Slot> slots;
  uint32_t epoch = 0;
};

/// A buffer of this thread's pool, started anew; buffers are kept for the next taker.
template <class Word>
std::unique_ptr<ScratchBuffer<Word>> take_scratch();
template <class Word>
void give_back(std::unique_ptr<ScratchBuffer<Word>> buffer);

/// A small value for each of some nodes, by the node's number: faster than any hash map, and it costs nothing to make, however
/// large the graph.
template <class T>
class NodeScratch {
  static constexpr size_t kBytes = sizeof(T);  // NOLINT(bugprone-sizeof-expression): a pointer's own, where T is one
  static_assert(kBytes <= 8 && std::is_trivially_copyable_v<T>);
  using Word = std::conditional_t<kBytes <= 4, uint32_t, uint64_t>;

 public:
  NodeScratch() : buffer_(take_scratch<Word>()), epoch_(buffer_->epoch) { look(); }
  ~NodeScratch() {
    if (buffer_) give_back(std::move(buffer_));
  }
  NodeScratch(NodeScratch&&) noexcept = default;
  NodeScratch& operator=(NodeScratch&& other) noexcept {
    std::swap(buffer_, other.buffer_);
    std::swap(slots_, other.slots_);
    std::swap(size_, other.size_);
    std::swap(epoch_, other.epoch_);
    return *this;
  }

  /// What was set for `u`, or T{}.
  T get(UOp u) const {
    T value{};
    if (u.id() < size_ && slots_[u.id()].epoch == epoch_)
      std::memcpy(static_cast<void*>(&value), &slots_[u.id()].value, kBytes);
    return value;
  }
  void set(UOp u, T value) {
    if (u.id() >= size_) grow(u.id());
    Slot& slot = slots_[u.id()];
    slot.epoch = epoch_;
    std::memcpy(&slot.value, static_cast<const void*>(&value), kBytes);
  }

 private:
  using Slot = typename ScratchBuffer<Word>::Slot;
  void look() {
    slots_ = buffer_->slots.data();
    size_ = buffer_->slots.size();
  }
  void grow(size_t id) {
    buffer_->slots.resize(std::max(id + 1, size_ * 2));
    look();
  }

  std::unique_ptr<ScratchBuffer<Word>> buffer_;
  Slot* slots_ = nullptr;  // what the buffer has
  size_t size_ = 0;
  uint32_t epoch_;
};

/// A value of any type for each of some nodes.
template <class T>
class NodeMap {
 public:
  /// The entry of `u`, made (as T{}) if absent. Valid until another is made.
  T& operator[](UOp u) {
    uint32_t place = place_.get(u);
    if (place == 0) {
      if (items_.empty()) items_.reserve(16);
      items_.emplace_back();
      place = static_cast<uint32_t>(items_.size());
      place_.set(u, place);
    }
    return items_[place - 1];
  }
  /// The entry of `u`, or T{} if it was never made.
  T get(UOp u) const {
    uint32_t place = place_.get(u);
    return place ? items_[place - 1] : T{};
  }

 private:
  NodeScratch<uint32_t> place_;  // in items_, from 1
  std::vector<T> items_;
};

}  // namespace quern
