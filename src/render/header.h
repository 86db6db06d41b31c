#pragma once
#include <string>

#include "render/program.h"

namespace quern {

/// The comment above a program's source, in every language: its name, target and outputs; the kernel's axes and opts, where it
/// was made from one; how it is launched.
std::string header_comment(const Program& program, const KernelLayout& layout);

}  // namespace quern
