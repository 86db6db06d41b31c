#include "ir/node_map.h"

namespace quern {

namespace {

template <class Word>
std::vector<std::unique_ptr<ScratchBuffer<Word>>>& pool() {
  thread_local std::vector<std::unique_ptr<ScratchBuffer<Word>>> buffers;
  return buffers;
}

}  // namespace

template <class Word>
std::unique_ptr<ScratchBuffer<Word>> take_scratch() {
  auto& free = pool<Word>();
  std::unique_ptr<ScratchBuffer<Word>> buffer;
  if (free.empty()) {
    buffer = std::make_unique<ScratchBuffer<Word>>();
  } else {
    buffer = std::move(free.back());
    free.pop_back();
  }
  if (++buffer->epoch == 0) {  // after 2^32 uses old entries would look new
    buffer->slots.clear();
    buffer->epoch = 1;
  }
  return buffer;
}

template <class Word>
void give_back(std::unique_ptr<ScratchBuffer<Word>> buffer) {
  pool<Word>().push_back(std::move(buffer));
}

template std::unique_ptr<ScratchBuffer<uint32_t>> take_scratch();
template std::unique_ptr<ScratchBuffer<uint64_t>> take_scratch();
template void give_back(std::unique_ptr<ScratchBuffer<uint32_t>> buffer);
template void give_back(std::unique_ptr<ScratchBuffer<uint64_t>> buffer);

}  // namespace quern
