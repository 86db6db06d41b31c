#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern {

/// The ten ways to change a kernel, in the reference's order.
enum class OptOp : uint8_t { TC, UPCAST, UPCASTMID, UNROLL, LOCAL, GROUP, GROUPTOP, NOLOCALS, PADTO, SWAP };

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

/// The search's actions in the reference's order; action n of walks is kActions[n - 1].
const std::vector<Opt>& search_actions();

}  // namespace quern
