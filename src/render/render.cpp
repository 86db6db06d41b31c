#include <algorithm>

#include "quern/error.h"

#include "render/facts.h"

namespace quern {

namespace {

void refuse_images(const Program& p) {
  if (p.target->has_images) return;
  for (const auto& [number, type] : p.buffer_types)
    if (type.is_image())
      throw InvalidKernel("kernel " + p.name + " uses the image " + to_string(type) + " (buffer " +
                          std::to_string(number) + "), and target " + p.target->name + " has no images");
}

/// Sizes of the work items by their names: gidx0, lidx1, idx2.
void collect_launch_dims(Program& p) {
  std::array<SInt, 3> global{1, 1, 1}, local{1, 1, 1};
  bool groups = true;
  for (UOp u : p.linear.uops) {
    if (!u.is(Op::Special)) continue;
    const SpecialArg& special = *std::get<const SpecialArg*>(u.arg());
    auto dim = static_cast<size_t>(special.name.back() - '0');
    if (dim >= 3) throw InternalError("a work item called '" + special.name + "'");
    if (special.name.front() == 'i') groups = false;
    (special.name.front() == 'l' ? local : global)[dim] = special.size;
  }
  if (!p.target->has_local) return;
  p.global_size = global;
  if (groups) p.local_size = local;
}

void collect_outputs(Program& p) {
  for (UOp u : p.linear.uops) {
    if (!u.is(Op::Store)) continue;
    UOp buffer = access_of(u.src(0)).buffer;
    if (buffer.is(Op::DefineGlobal)) p.outs.push_back(static_cast<int>(std::get<int64_t>(buffer.arg())));
  }
  std::sort(p.outs.begin(), p.outs.end());
  p.outs.erase(std::unique(p.outs.begin(), p.outs.end()), p.outs.end());
}

}  // namespace

Program describe(std::string name, LinearProgram linear, const Target& target) {
  std::vector<UOp> buffers = buffers_of(linear);
  Program p;
  p.name = std::move(name);
  p.target = &target;
  p.linear = std::move(linear);
  p.vars = variables_of(p.linear);
  for (UOp b : buffers) {
    int number = static_cast<int>(std::get<int64_t>(b.arg()));
    p.globals.push_back(number);
    p.buffer_types[number] = b.dtype();
  }
  collect_launch_dims(p);
  collect_outputs(p);
  p.estimates = estimate(p.linear);
  return p;
}

Program render(std::string name, LinearProgram linear, const Target& target) {
  Program p = describe(std::move(name), std::move(linear), target);
  refuse_images(p);
  switch (target.dialect) {
    case Dialect::C:
    case Dialect::Dsp: p.source = render_c(p.name, p.linear, target); break;
    case Dialect::Llvm: p.source = render_llvm(p.name, p.linear, target); break;
    default: break;
  }
  return p;
}

}  // namespace quern
