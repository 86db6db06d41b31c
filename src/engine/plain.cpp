#include "engine/plain.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include <fmt/format.h>

#include "engine/compile.h"
#include "ir/eval.h"
#include "shape/shapetracker.h"

namespace quern {

namespace {

constexpr int kParts = 4;  // of the outputs, where they are sampled

ConstBits get(const Buffer& b, int64_t i) {
  uint64_t raw = 0;
  auto width = static_cast<size_t>(bytes_of(b.dtype()));
  std::memcpy(&raw, b.data() + static_cast<size_t>(i) * width, width);
  return from_memory_bits(b.dtype(), raw);
}

/// Runs a program that uses some of the buffers that `numbers` tells the numbers of.
void run_on(Device& device, const Program& program, const std::vector<int>& numbers, const Buffers& buffers,
            const VarValues& vars) {
  std::vector<Buffer*> pointers;
  for (int number : program.globals) {
    const auto at = std::ranges::find(numbers, number) - numbers.begin();
    pointers.push_back(buffers[static_cast<size_t>(at)].get());
  }
  device.compile(program)->run(pointers, vars);
}

}  // namespace

double estimated_ops(const Program& p) {
  auto value = [](const SInt& s) {
    return static_cast<double>(s.is_int() ? s.value() : static_cast<int64_t>(s.expr().vmax()));
  };
  return value(p.estimates.ops) + value(p.estimates.load_store_bytes) / 4;
}

Buffers copy_of(const Buffers& from) {
  Buffers copy;
  for (const auto& b : from) {
    copy.push_back(std::make_unique<Buffer>(b->dtype(), b->size()));
    std::memcpy(copy.back()->data(), b->data(), b->bytes());
  }
  return copy;
}

Tolerance tolerance_of(UOp ast, const TensorCore* core) {
  double epsilon = core != nullptr && core->tf32 ? std::ldexp(1.0, -10) : 0, terms = 1;
  bool rounds = false;
  for (UOp u : toposort(ast)) {
    if (u.dtype().is_float() && !u.dtype().is_ptr())
      epsilon = std::max(epsilon, std::ldexp(1.0, -float_format(u.dtype().scalar).mantissa_bits));
    if (u.is(Op::ReduceAxis)) {
      rounds |= u.dtype().is_float();
      for (UOp x : toposort(u.src(0)))
        if (x.is(Op::View)) {
          double n = 1;
          const Shape& shape = std::get<const ShapeTracker*>(x.arg())->shape();
          for (int32_t axis : std::get<const ReduceArg*>(u.arg())->axes)
            if (static_cast<size_t>(axis) < shape.size())
              n *= static_cast<double>(max_of(shape[static_cast<size_t>(axis)]));
          terms = std::max(terms, n);
        }
    }
  }
  Tolerance t;
  t.relative = epsilon * 32;
  t.of_scale = epsilon * (16 + 4 * std::sqrt(terms));
  t.int_fraction = rounds ? 0.01 : 0;
  return t;
}

PlainOutputs::PlainOutputs(UOp ast, const Program& layout, Device& device, const Buffers& inputs, const VarValues& vars,
                           double max_ops, uint64_t seed)
    : globals_(layout.globals), outs_(layout.outs), target_(layout.target), want_(copy_of(inputs)) {
  const Program plain = quern::compile(ast, *target_, {.opts = "none"});
  const std::vector<SliceAxis> axes = estimated_ops(plain) > max_ops ? slice_axes(ast) : std::vector<SliceAxis>();
  if (!axes.empty())
    run_parts(ast, axes, estimated_ops(plain), device, vars, max_ops, seed);
  else
    run_on(device, plain, globals_, want_, vars);
}

bool PlainOutputs::is_output(size_t at) const { return std::ranges::find(outs_, globals_[at]) != outs_.end(); }

void PlainOutputs::run_parts(UOp ast, const std::vector<SliceAxis>& axes, double all_ops, Device& device,
                             const VarValues& vars, double max_ops, uint64_t seed) {
  // What is computed is the same whatever stood there before; all else is not.
  Buffers other = copy_of(want_);
  for (size_t n = 0; n < globals_.size(); ++n) {
    if (!is_output(n)) continue;
    std::memset(want_[n]->data(), 0x00, want_[n]->bytes());
    std::memset(other[n]->data(), 0xFF, other[n]->bytes());
  }
  std::mt19937_64 random(seed);
  const double part_ops = max_ops / (2 * kParts);
  for (int part = 0; part < kParts; ++part) {
    UOp slice = ast;
    double ops = all_ops;
    for (const SliceAxis& a : axes) {
      if (ops <= part_ops) break;
      const auto length = static_cast<int64_t>(std::max(1.0, std::floor(static_cast<double>(a.size) * part_ops / ops)));
      const auto last = static_cast<uint64_t>(a.size - length);
      const auto begin = static_cast<int64_t>(part == 0 ? 0 : part == 1 ? last : random() % (last + 1));
      slice = slice_of(slice, a.axis, begin, begin + length);
      ops *= static_cast<double>(length) / static_cast<double>(a.size);
    }
    const Program program = quern::compile(slice, *target_, {.opts = "none"});
    run_on(device, program, globals_, want_, vars);
    run_on(device, program, globals_, other, vars);
  }
  for (size_t n = 0; n < globals_.size(); ++n) {
    std::vector<bool>& known = known_.emplace_back(static_cast<size_t>(want_[n]->size()));
    for (int64_t i = 0; i < want_[n]->size(); ++i)
      known[static_cast<size_t>(i)] = get(*want_[n], i) == get(*other[n], i);
  }
}

Difference PlainOutputs::compare(std::span<Buffer* const> got, const Tolerance& tolerance) const {
  Difference result;
  for (size_t n = 0; n < globals_.size(); ++n) {
    const int number = globals_[n];
    if (!is_output(n)) {
      if (std::memcmp(want_[n]->data(), got[n]->data(), want_[n]->bytes()) != 0) {
        result.equal = false;
        result.text = fmt::format("buffer {} is an input and was written", number);
        return result;
      }
      continue;
    }
    const Buffer &a = *want_[n], &b = *got[n];
    bool is_float = (scalar_bit(a.dtype()) & kFloats) != 0;
    double scale = 0;
    const auto is_known = [&](int64_t i) { return known_.empty() || known_[n][static_cast<size_t>(i)]; };
    for (int64_t i = 0; is_float && i < a.size(); ++i) {
      if (!is_known(i)) continue;
      double v = std::fabs(float_of_const(get(a, i)));
      if (std::isfinite(v)) scale = std::max(scale, v);
    }
    int64_t wrong = 0, first = -1, compared = 0;
    for (int64_t i = 0; i < a.size(); ++i) {
      if (!is_known(i)) continue;
      ++compared;
      ConstBits x = get(a, i), y = get(b, i);
      if (x == y) continue;
      if (is_float) {
        double u = float_of_const(x), v = float_of_const(y);
        if ((std::isnan(u) && std::isnan(v)) || u == v) continue;
        double allowed = tolerance.relative * std::max(std::fabs(u), std::fabs(v)) + tolerance.of_scale * scale;
        double off = std::fabs(u - v);
        if (std::isfinite(u) && std::isfinite(v))
          result.worst = std::max(result.worst, off / std::max(allowed, 1e-300));
        if (off <= allowed) continue;
      }
      if (first < 0) first = i;
      ++wrong;
    }
    if (wrong > 0 &&
        (is_float || static_cast<double>(wrong) > tolerance.int_fraction * static_cast<double>(compared))) {
      result.equal = false;
      auto show = [&](const Buffer& v) {
        return is_float ? fmt::format("{}", float_of_const(get(v, first)))
                        : to_string(int_of_const(v.dtype(), get(v, first)));
      };
      result.text = fmt::format("output {} differs in {} of {} elements, first at {}: {} instead of {}", number, wrong,
                                compared, first, show(b), show(a));
      return result;
    }
  }
  return result;
}

}  // namespace quern
