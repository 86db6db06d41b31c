#include "engine/compile.h"

#include <algorithm>
#include <optional>

#include "shape/shapetracker.h"

namespace quern {

namespace {

struct Access {
  Op op;
  int64_t number;
  DType type;
  int64_t elements;  ///< by the reference's estimate
  int64_t needed;    ///< one past the largest element that may be touched
};

/// One past the largest element that the first view may touch, whatever is stacked on it; nothing if that is symbolic.
std::optional<Int128> extent(const View& v) {
  Int128 last = v.offset.is_int() ? v.offset.value() : 0;
  bool known = v.offset.is_int();
  for (size_t i = 0; i < v.shape.size(); ++i) {
    const Bounds range = v.mask ? (*v.mask)[i] : Bounds{0, v.shape[i]};
    if (!range.first.is_int() || !range.second.is_int() || !v.strides[i].is_int()) known = false;
    if (!known) return std::nullopt;
    if (range.first.value() >= range.second.value()) return 0;
    last += Int128{v.strides[i].value()} * (v.strides[i].value() > 0 ? range.second.value() - 1 : range.first.value());
  }
  return last + 1;
}

int64_t elements_needed(const ShapeTracker& st, int64_t estimate) {
  std::optional<Int128> first = extent(st.views.front());
  return first && *first < estimate ? static_cast<int64_t>(std::max<Int128>(*first, 0)) : estimate;
}

/// Every access of a global buffer in the AST, in order of a walk from the leaves.
std::vector<Access> accesses(UOp ast) {
  std::vector<Access> all;
  for (UOp u : toposort(ast)) {
    if (!u.is({Op::Load, Op::Store}) || !u.src(0).is(Op::DefineGlobal)) continue;
    const ShapeTracker& st = *std::get<const ShapeTracker*>(u.src(1).arg());
    int64_t estimate = real_size(ast.graph(), st);
    all.push_back(
        {u.op(), std::get<int64_t>(u.src(0).arg()), u.src(0).dtype(), estimate, elements_needed(st, estimate)});
  }
  return all;
}

/// Bytes of the buffers: per direction and buffer the largest access. At most INT64_MAX.
int64_t buffer_bytes(const std::vector<Access>& all) {
  std::map<std::pair<Op, int64_t>, Int128> largest;
  for (const Access& a : all) {
    Int128& bytes = largest[{a.op, a.number}];
    bytes = std::max(bytes, Int128{a.elements} * a.type.itemsize());
  }
  Int128 sum = 0;
  for (const auto& [key, bytes] : largest) sum += bytes;
  return static_cast<int64_t>(std::min<Int128>(sum, INT64_MAX));
}

void add_buffers(Program& program, UOp ast) {
  std::vector<Access> all = accesses(ast);
  program.estimates.buffer_bytes = buffer_bytes(all);
  for (const Access& a : all) {
    int number = static_cast<int>(a.number);
    int64_t& size = program.buffer_sizes[number];
    size = a.type.is_image() ? int64_t{a.type.image_height} * a.type.image_width * 4 : std::max(size, a.needed);
    program.buffer_types[number] = a.type;
  }
}

}  // namespace

Program compile(const Kernel& kernel, const StageHook& hook) { return compile(kernel, kernel.name(), hook); }

Program compile(const Kernel& kernel, const std::string& function_name, const StageHook& hook) {
  LinearProgram linear = lower(kernel.optimized_ast(), kernel.target(), hook);
  Program program = render(function_name, std::move(linear), kernel.target(), {kernel.axes(), kernel.applied_opts()});
  add_buffers(program, kernel.ast());
  return program;
}

Program compile_decisions(const Kernel& kernel) {
  Program program = describe(kernel.name(), lower(kernel.optimized_ast(), kernel.target()), kernel.target());
  add_buffers(program, kernel.ast());
  return program;
}

Program compile(UOp ast, const Target& target, const OptimizeOptions& options, const StageHook& hook) {
  return compile(optimize(ast, target, options), hook);
}

}  // namespace quern
