#pragma once
#include <cstddef>
#include <functional>

namespace quern {

/// Calls `work` for 0..count-1 on `jobs` threads and `done` for each index in order as results come in. What either
/// throws ends it and comes out of here.
void parallel_in_order(size_t count, int jobs, const std::function<void(size_t)>& work,
                       const std::function<void(size_t)>& done);

}  // namespace quern
