#pragma once
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "lower/lower.h"

namespace quern {

using LaunchLimits = std::optional<std::array<int64_t, 3>>;

/// Sizes a launch may have: `dims` (the fastest first) with neighbours multiplied together until there are at most three and each
/// keeps its limit; where that fails, the product of all dims split anew, factor by factor. Throws InvalidKernel if no split keeps
/// the limits.
Shape limited_dims(std::span<const SInt> dims, const LaunchLimits& limits);

/// An index for each of `dims` out of SPECIALs named prefix0, prefix1, ..., whose sizes are `limited_dims` of them. With
/// `reversed` the last of `dims` is the fastest: it becomes prefix0.
std::vector<UOp> launch_indices(Graph& graph, std::string_view prefix, std::span<const SInt> dims,
                                const LaunchLimits& limits, bool reversed);

/// What a program's SPECIALs ask for; nothing on targets without threads, no local size where they count whole threads ("idx").
struct LaunchSizes {
  std::optional<std::array<SInt, 3>> global;
  std::optional<std::array<SInt, 3>> local;
};
LaunchSizes launch_sizes(const LinearProgram& program, const Target& target);

}  // namespace quern
