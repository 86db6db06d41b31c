#include "ir/scratch.h"

namespace quern {

namespace {

thread_local std::vector<std::unique_ptr<ScratchBuffer>> pool;

}  // namespace

std::unique_ptr<ScratchBuffer> take_scratch() {
  std::unique_ptr<ScratchBuffer> buffer;
  if (pool.empty()) {
    buffer = std::make_unique<ScratchBuffer>();
  } else {
    buffer = std::move(pool.back());
    pool.pop_back();
  }
  if (++buffer->epoch == 0) {  // after 2^32 uses old entries would look new
    buffer->slots.clear();
    buffer->epoch = 1;
  }
  return buffer;
}

void give_back(std::unique_ptr<ScratchBuffer> buffer) { pool.push_back(std::move(buffer)); }

}  // namespace quern
