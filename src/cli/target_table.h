#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "target/target.h"

namespace quern::cli {

/// The devices that run a target's programs, where they are and new enough, by name: "CUDA", "INTERP".
std::vector<std::string_view> devices_for(const Target& target);

/// docs/targets.md: what is true of each target on any machine.
std::string targets_page();

}  // namespace quern::cli
