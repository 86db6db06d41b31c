#include <algorithm>

#include "quern/error.h"

#include "render/c_dialect.h"
#include "render/c_writer.h"
#include "render/facts.h"
#include "render/header.h"

namespace quern {

namespace {

void refuse_images(const Program& p) {
  if (p.target->has_images) return;
  for (const auto& [number, type] : p.buffer_types)
    if (type.is_image())
      throw InvalidKernel("kernel " + p.name + " uses the image " + to_string(type) + " (buffer " +
                          std::to_string(number) + "), and target " + p.target->name + " has no images");
}

bool emulates(const Target& target, Scalar s) {
  return std::find(target.emulated.begin(), target.emulated.end(), s) != target.emulated.end();
}

void collect_launch_dims(Program& p) {
  Launch launch = launch_of(p.linear);
  if (!p.target->has_local && !launch.has_threads) return;
  p.global_size = launch.groups;
  if (!launch.stand_alone) p.local_size = launch.items;
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

const CDialect& dialect_of(const Target& target) {
  switch (target.dialect) {
    case Dialect::Dsp: return dsp_dialect();
    case Dialect::OpenCl:
      if (!target.tensor_cores.empty()) return intel_dialect();
      return emulates(target, Scalar::Half) ? opencl_dialect() : opencl_half_dialect();
    case Dialect::Cuda: return cuda_dialect(!emulates(target, Scalar::BFloat16));
    case Dialect::Hip: return hip_dialect();
    case Dialect::Metal: return metal_dialect();
    default: return c11_dialect();
  }
}

std::string source_of(Program& p) {
  const Target& target = *p.target;
  if (target.dialect == Dialect::Ptx) return render_ptx(p.name, p.linear, target);
  if (target.dialect == Dialect::Llvm) return render_llvm(p.name, p.linear);
  if (target.dialect != Dialect::C && (is_reserved_word(p.name) || p.name == "entry")) p.name += "_";  // "kernel"
  std::string source = CWriter(dialect_of(target), p.linear).write(p.name);
  return target.dialect == Dialect::Dsp ? source + dsp_entry(p) : source;
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

Program render(std::string name, LinearProgram linear, const Target& target, const KernelLayout& layout) {
  Program p = describe(std::move(name), std::move(linear), target);
  refuse_images(p);
  std::string source = source_of(p);  // may change the name
  p.source = header_comment(p, layout) + source;
  return p;
}

}  // namespace quern
