#include "lower/launch_dims.h"

#include <algorithm>
#include <string>

#include "quern/error.h"

#include "shape/sint.h"

namespace quern {

namespace {

constexpr size_t kMaxDims = 3;

bool fits(std::span<const SInt> dims, const std::array<int64_t, 3>& limits) {
  if (dims.size() > kMaxDims) return false;
  for (size_t i = 0; i < dims.size(); ++i)
    if (max_of(dims[i]) > limits[i]) return false;
  return true;
}

std::string listed(std::span<const SInt> dims) {
  std::string text;
  for (const SInt& d : dims) text += (text.empty() ? "" : ", ") + to_string(max_of(d));
  return "(" + text + ")";
}

[[noreturn]] void cannot_limit(std::span<const SInt> dims, const std::array<int64_t, 3>& limits) {
  std::vector<SInt> most(limits.begin(), limits.end());
  throw InvalidKernel("launch dims " + listed(dims) + " cannot be brought under " + listed(most));
}

/// Neighbours merged, the fastest first, until the dims fit: groups of dims (by their first and one past their last), or nothing.
struct Group {
  size_t begin, end;
  SInt size;
};
std::vector<SInt> sizes_of(const std::vector<Group>& groups) {
  std::vector<SInt> sizes;
  for (const Group& g : groups) sizes.push_back(g.size);
  return sizes;
}

std::optional<std::vector<Group>> merged(std::span<const SInt> dims, const std::array<int64_t, 3>& limits) {
  std::vector<Group> groups;
  for (size_t i = 0; i < dims.size(); ++i) groups.push_back({i, i + 1, dims[i]});
  while (!fits(sizes_of(groups), limits)) {
    bool changed = false;
    for (size_t i = 0; i < kMaxDims && i + 1 < groups.size() && !changed; ++i) {
      if (max_of(groups[i].size) * max_of(groups[i + 1].size) > limits[i]) continue;
      groups[i] = {groups[i].begin, groups[i + 1].end, groups[i].size * groups[i + 1].size};
      groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      changed = true;
    }
    if (!changed) return std::nullopt;
  }
  return groups;
}

int64_t smallest_factor(int64_t n) {
  for (int64_t f = 2; f * f <= n; ++f)
    if (n % f == 0) return f;
  return n;
}

/// Constant dims with factors moved from one that is too large to the next, until each keeps its limit; the product stays.
std::optional<std::vector<SInt>> split_dims(std::span<const SInt> dims, const std::array<int64_t, 3>& limits) {
  if (!all_int(dims)) return std::nullopt;
  std::array<int64_t, 3> sizes = {1, 1, 1};
  for (size_t i = 0; i < dims.size(); ++i) sizes[std::min(i, kMaxDims - 1)] *= dims[i].value();
  constexpr int kMostMoves = 200;  // each move takes a factor of at least 2 along; more means going round
  for (int moves = 0; moves < kMostMoves; ++moves) {
    size_t i = 0;
    while (i < kMaxDims && sizes[i] <= limits[i]) ++i;
    if (i == kMaxDims) {
      size_t used = kMaxDims;
      while (used > 1 && sizes[used - 1] == 1) --used;
      return std::vector<SInt>(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(used));
    }
    int64_t factor = smallest_factor(sizes[i]);
    sizes[i] /= factor;
    sizes[(i + 1) % kMaxDims] *= factor;
  }
  return std::nullopt;
}

UOp special(Graph& graph, std::string_view prefix, size_t number, const SInt& size) {
  return graph.node(Op::Special, Scalar::Index, {},
                    graph.intern(SpecialArg{std::string(prefix) + std::to_string(number), size}));
}

/// Takes `flat` apart into an index for each size, the first the fastest.
void unflatten(Graph& graph, UOp flat, std::span<const SInt> sizes, std::vector<UOp>& out) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    UOp size = graph.index_of(sizes[i]);
    out.push_back(i + 1 == sizes.size() ? flat : flat.mod(size));
    flat = flat.idiv(size);
  }
}

}  // namespace

Shape limited_dims(std::span<const SInt> dims, const LaunchLimits& limits) {
  std::vector<SInt> given(dims.begin(), dims.end());
  // Symbolic sizes are left to the launch unless there are too many of them, as the reference does.
  if (!limits || (!all_int(dims) && dims.size() <= kMaxDims)) return given;
  if (auto groups = merged(dims, *limits)) return sizes_of(*groups);
  if (auto split = split_dims(dims, *limits)) return *split;
  cannot_limit(dims, *limits);
}

std::vector<UOp> launch_indices(Graph& graph, std::string_view prefix, std::span<const SInt> dims,
                                const LaunchLimits& limits, bool reversed) {
  std::vector<SInt> fastest_first(dims.begin(), dims.end());
  if (reversed) std::reverse(fastest_first.begin(), fastest_first.end());
  Shape sizes = limited_dims(fastest_first, limits);
  std::vector<UOp> raw, made;
  for (size_t i = 0; i < sizes.size(); ++i) raw.push_back(special(graph, prefix, i, sizes[i]));
  if (sizes == fastest_first) {
    made = raw;
  } else if (auto groups = merged(fastest_first, *limits)) {
    for (size_t i = 0; i < groups->size(); ++i) {
      const Group& g = (*groups)[i];
      unflatten(graph, raw[i], std::span(fastest_first).subspan(g.begin, g.end - g.begin), made);
    }
  } else {
    // The first is the slowest here, so that consecutive threads stay consecutive in the last of the dims.
    UOp flat = raw[0];
    for (size_t i = 1; i < raw.size(); ++i) flat = flat * graph.index_of(sizes[i]) + raw[i];
    std::vector<SInt> slowest_last(fastest_first.rbegin(), fastest_first.rend());
    unflatten(graph, flat, slowest_last, made);
    std::reverse(made.begin(), made.end());
  }
  if (reversed) std::reverse(made.begin(), made.end());
  return made;
}

LaunchSizes launch_sizes(const LinearProgram& program, const Target& target) {
  LaunchSizes sizes;
  const auto is_special = [](UOp u) { return u.is(Op::Special); };
  if (!target.has_local && std::none_of(program.uops.begin(), program.uops.end(), is_special)) return sizes;
  sizes.global = sizes.local = std::array<SInt, 3>{1, 1, 1};
  for (UOp u : program.uops) {
    if (!u.is(Op::Special)) continue;
    const SpecialArg& arg = *std::get<const SpecialArg*>(u.arg());
    auto axis = static_cast<size_t>(arg.name.back() - '0');
    if (arg.name.front() == 'i') sizes.local.reset();
    auto& which = arg.name.front() == 'l' ? sizes.local : sizes.global;
    if (which) (*which)[axis] = arg.size;
  }
  return sizes;
}

}  // namespace quern
