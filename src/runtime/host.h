#pragma once
#include <string>

namespace quern {

/// What code compiled for "this machine" depends on: the processor's model and its instruction sets. The same on machines that run
/// the same code.
const std::string& host_processor();

}  // namespace quern
