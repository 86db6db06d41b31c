#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern {

/// The ways to change a kernel: the reference's ten in its order, then those for CPUs.
enum class OptOp : uint8_t {
  TC,
  UPCAST,
  UPCASTMID,
  UNROLL,
  LOCAL,
  GROUP,
  GROUPTOP,
  NOLOCALS,
  PADTO,
  SWAP,
  THREAD,   ///< the slow part of an axis is shared out among cores
  RFACTOR,  ///< the fast part of a reduce gets accumulators of its own, combined at the end
  PACK      ///< what the loops inside of an axis read of a buffer is copied to scratch memory before them
};

struct Opt {
  OptOp op;
  std::optional<int> axis;
  std::optional<int> amount;
  auto operator<=>(const Opt&) const = default;
};

std::string_view to_string(OptOp op);
std::string to_string(const Opt& opt);                ///< "UPCAST(0,4)", "NOLOCALS"
std::string to_string(const std::vector<Opt>& opts);  ///< separated by spaces
/// Reads one; throws OptError that shows what is wrong.
Opt parse_opt(std::string_view text);
std::vector<Opt> parse_opts(std::string_view text);

/// The search's actions in the reference's order; action n of walks is the one at n - 1.
const std::vector<Opt>& search_actions();
/// Those for CPUs that Quern lays out itself (Target::vector_bytes).
const std::vector<Opt>& cpu_search_actions();

}  // namespace quern
