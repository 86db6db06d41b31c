#include "engine/check.h"

#include <algorithm>

#include "quern/error.h"

#include "engine/compile.h"

namespace quern {

namespace {

Int128 total_bytes(const Program& p) {
  Int128 sum = 0;
  for (const auto& [number, size] : p.buffer_sizes)
    sum += Int128{size} * bytes_of(storage_type(p.buffer_types.at(number)));
  return sum;
}

bool uses_images(UOp ast) {
  for (UOp u : toposort(ast))
    if (u.is(Op::DefineGlobal) && u.dtype().is_image()) return true;
  return false;
}

}  // namespace

const KernelCheck::Plain& KernelCheck::plain_of(const Kernel& kernel, const Program& fast) {
  if (plain_) return *plain_;
  bool interpreted = device_.name() == "INTERP" || estimated_ops(fast) <= limits_.max_interpreted_ops;
  std::shared_ptr<Device> oracle = interpreted && device_.name() != "INTERP" ? open_device("INTERP") : nullptr;
  Buffers inputs = make_inputs(kernel.ast(), fast, seed_);
  VarValues vars = make_vars(fast, seed_);
  const double max_ops = interpreted ? limits_.max_device_interpreted_ops : limits_.max_plain_ops;
  PlainOutputs outputs(kernel.ast(), fast, oracle ? *oracle : device_, inputs, vars, max_ops, seed_);
  return plain_.emplace(Plain{interpreted, fast.globals, std::move(inputs), std::move(vars), std::move(outputs)});
}

CheckResult KernelCheck::operator()(const Kernel& kernel) {
  CheckResult result;
  try {
    UOp ast = kernel.ast();
    if (!kernel.target().has_images && uses_images(ast))
      return {CheckResult::Kind::Skipped, "the target has no images"};
    Program fast = compile(kernel);
    if (total_bytes(fast) > limits_.max_bytes) return {CheckResult::Kind::Skipped, "needs too much memory"};
    bool interpreter = device_.name() == "INTERP";
    if (estimated_ops(fast) > (interpreter ? limits_.max_device_interpreted_ops : limits_.max_ops))
      return {CheckResult::Kind::Skipped, "takes too many operations"};
    const Plain& plain = plain_of(kernel, fast);
    result.interpreted = plain.interpreted;
    Buffers buffers = copy_of(plain.inputs);
    const std::vector<Buffer*> pointers = pointers_to(buffers);
    result.sampled = plain.outputs.is_sampled();
    // Opts that make masks known may drop a buffer, or be the first that need it.
    Buffers more;
    std::vector<Buffer*> own;
    for (size_t i = 0; i < fast.globals.size(); ++i) {
      const auto at = std::ranges::find(plain.globals, fast.globals[i]);
      if (at == plain.globals.end() && more.empty()) more = make_inputs(ast, fast, seed_);
      own.push_back(at == plain.globals.end() ? more[i].get()
                                              : pointers[static_cast<size_t>(at - plain.globals.begin())]);
    }
    result.seconds = device_.compile(fast)->run(own, plain.vars);
    Difference d = plain.outputs.compare(pointers, tolerance_of(ast, kernel.tensor_core()));
    result.worst = d.worst;
    if (!d.equal) {
      result.kind = CheckResult::Kind::Mismatch;
      result.note = d.text;
    }
  } catch (const Error& e) {
    result.kind = CheckResult::Kind::Failed;
    result.note = e.what();
  }
  return result;
}

CheckResult check_kernel(const Kernel& kernel, Device& device, uint64_t seed, const CheckLimits& limits) {
  return KernelCheck(device, seed, limits)(kernel);
}

}  // namespace quern
