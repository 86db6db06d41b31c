#pragma once
#include <string>
#include <string_view>

#include "optimize/kernel.h"
#include "render/program.h"

namespace quern {

/// A kernel's program for a target: optimize, lower, render.
Program compile(const Kernel& kernel, const StageHook& hook = {});
/// Under another name than the kernel's own.
Program compile(const Kernel& kernel, const std::string& function_name, const StageHook& hook = {});
Program compile(UOp ast, const Target& target, const OptimizeOptions& options = {}, const StageHook& hook = {});

/// The same without source, for kernels that a target cannot express too (images on a target without): what is decided is told all
/// the same.
Program compile_decisions(const Kernel& kernel);

}  // namespace quern
