#include "engine/inputs.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "ir/eval.h"
#include "shape/shapetracker.h"

namespace quern {

namespace {

using Random = std::mt19937_64;

int64_t uniform(Random& random, int64_t low, int64_t high) {
  // Not std::uniform_int_distribution: its values differ between standard libraries.
  auto span = static_cast<uint64_t>(high - low) + 1;
  return low + static_cast<int64_t>(span == 0 ? random() : random() % span);
}

void set(Buffer& b, int64_t i, ConstBits value) {
  uint64_t raw = memory_bits(b.dtype(), value);
  auto width = static_cast<size_t>(bytes_of(b.dtype()));
  std::memcpy(b.data() + static_cast<size_t>(i) * width, &raw, width);
}

/// What the ops of a kernel ask of its inputs.
struct Traits {
  bool positive = false;  // LOG2, SQRT, RECIP: keep away from zero and below
  bool cipher = false;    // THREEFRY: any bits
  bool gathers = false;   // ints compared with each other: indices
  int64_t largest_dim = 1;
};

Traits traits_of(UOp ast) {
  Traits t;
  for (UOp u : toposort(ast)) {
    t.positive |= u.is({Op::Log2, Op::Sqrt, Op::Recip, Op::Fdiv});
    t.cipher |= u.is(Op::Threefry);
    t.gathers |= u.is(Op::Cmpne) && u.src(0).dtype().is_int();
    if (u.is(Op::View))
      for (const SInt& s : std::get<const ShapeTracker*>(u.arg())->shape())
        if (s.is_int()) t.largest_dim = std::max(t.largest_dim, s.value());
  }
  return t;
}

ConstBits random_value(Random& random, Scalar dtype, const Traits& t) {
  if (scalar_bit(dtype) & kFloats) {
    double v = static_cast<double>(uniform(random, t.positive ? 4 : -16, 16)) / 8;
    return const_of_float(dtype, v);
  }
  if (dtype == Scalar::Bool) return {random() & 1};
  if (t.cipher && bytes_of(dtype) >= 4) return const_of_int(dtype, static_cast<int64_t>(random()));
  if (t.gathers) return const_of_int(dtype, uniform(random, 0, std::min<int64_t>(t.largest_dim, 100) - 1));
  return const_of_int(dtype, uniform(random, (scalar_bit(dtype) & kUnsignedInts) ? 0 : -20, 20));
}

}  // namespace

Buffers make_inputs(UOp ast, const Program& program, uint64_t seed) {
  Traits traits = traits_of(ast);
  Buffers buffers;
  for (int number : program.globals) {
    Scalar dtype = storage_type(program.buffer_types.at(number));
    auto b = std::make_unique<Buffer>(dtype, std::max<int64_t>(1, program.buffer_sizes.at(number)));
    Random random(seed * 1000003 + static_cast<uint64_t>(number));
    // Large buffers repeat what they start with, after a length that no kernel's sizes go well with.
    constexpr int64_t kFresh = 1'000'003;
    for (int64_t i = 0; i < std::min(b->size(), kFresh); ++i) set(*b, i, random_value(random, dtype, traits));
    const size_t period = static_cast<size_t>(kFresh) * static_cast<size_t>(bytes_of(dtype));
    for (size_t at = period; at < b->bytes(); at += period)
      std::memcpy(b->data() + at, b->data(), std::min(period, b->bytes() - at));
    buffers.push_back(std::move(b));
  }
  return buffers;
}

VarValues make_vars(const Program& program, uint64_t seed) {
  VarValues values;
  Random random(seed);
  for (UOp v : launch_variables(program)) {
    const VarArg& arg = *std::get<const VarArg*>(v.arg());
    values[arg.name] = uniform(random, arg.min, arg.max);
  }
  return values;
}

std::string random_walk(UOp ast, const Target& target, int length, uint64_t seed) {
  Random random(seed);
  Kernel kernel = optimize(ast, target, {.opts = "none"});
  for (int i = 0; i < length; ++i) {
    std::vector<int> legal = legal_actions(kernel);
    if (legal.empty()) break;
    auto pick = static_cast<size_t>(uniform(random, 0, static_cast<int64_t>(legal.size()) - 1));
    kernel.apply(actions_for(target)[static_cast<size_t>(legal[pick]) - 1]);
  }
  return kernel.applied_opts().empty() ? "none" : to_string(kernel.applied_opts());
}

}  // namespace quern
