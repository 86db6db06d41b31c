#include "engine/check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include <fmt/format.h>

#include "quern/error.h"

#include "engine/compile.h"
#include "ir/eval.h"

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

ConstBits get(const Buffer& b, int64_t i) {
  uint64_t raw = 0;
  auto width = static_cast<size_t>(bytes_of(b.dtype()));
  std::memcpy(&raw, b.data() + static_cast<size_t>(i) * width, width);
  return from_memory_bits(b.dtype(), raw);
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

Scalar storage_of(const DType& t) { return t.is_image() && t.image_half ? Scalar::Half : t.scalar; }

bool is_output(const Program& program, int number) {
  return std::find(program.outs.begin(), program.outs.end(), number) != program.outs.end();
}

Int128 total_bytes(const Program& p) {
  Int128 sum = 0;
  for (const auto& [number, size] : p.buffer_sizes)
    sum += Int128{size} * bytes_of(storage_of(p.buffer_types.at(number)));
  return sum;
}

bool uses_images(UOp ast) {
  for (UOp u : toposort(ast))
    if (u.is(Op::DefineGlobal) && u.dtype().is_image()) return true;
  return false;
}

double run(Device& device, const Program& program, const Buffers& buffers, const VarValues& vars) {
  return device.compile(program)->run(pointers_to(buffers), vars);
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

Buffers make_inputs(UOp ast, const Program& program, uint64_t seed) {
  Traits traits = traits_of(ast);
  Buffers buffers;
  for (int number : program.globals) {
    Scalar dtype = storage_of(program.buffer_types.at(number));
    auto b = std::make_unique<Buffer>(dtype, std::max<int64_t>(1, program.buffer_sizes.at(number)));
    Random random(seed * 1000003 + static_cast<uint64_t>(number));
    for (int64_t i = 0; i < b->size(); ++i) set(*b, i, random_value(random, dtype, traits));
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

Difference compare_outputs(const Program& program, std::span<Buffer* const> want, std::span<Buffer* const> got,
                           const Tolerance& tolerance) {
  Difference result;
  for (size_t n = 0; n < program.globals.size(); ++n) {
    int number = program.globals[n];
    if (!is_output(program, number)) {
      if (std::memcmp(want[n]->data(), got[n]->data(), want[n]->bytes()) != 0) {
        result.equal = false;
        result.text = fmt::format("buffer {} is an input and was written", number);
        return result;
      }
      continue;
    }
    const Buffer &a = *want[n], &b = *got[n];
    bool is_float = (scalar_bit(a.dtype()) & kFloats) != 0;
    double scale = 0;
    for (int64_t i = 0; is_float && i < a.size(); ++i) {
      double v = std::fabs(float_of_const(get(a, i)));
      if (std::isfinite(v)) scale = std::max(scale, v);
    }
    int64_t wrong = 0, first = -1;
    for (int64_t i = 0; i < a.size(); ++i) {
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
        (is_float || static_cast<double>(wrong) > tolerance.int_fraction * static_cast<double>(a.size()))) {
      result.equal = false;
      auto show = [&](const Buffer& v) {
        return is_float ? fmt::format("{}", float_of_const(get(v, first)))
                        : to_string(int_of_const(v.dtype(), get(v, first)));
      };
      result.text = fmt::format("output {} differs in {} of {} elements, first at {}: {} instead of {}", number, wrong,
                                a.size(), first, show(b), show(a));
      return result;
    }
  }
  return result;
}

const KernelCheck::Plain& KernelCheck::plain_of(const Kernel& kernel, const Program& fast) {
  if (plain_) return *plain_;
  bool interpreted = device_.name() == "INTERP" || estimated_ops(fast) <= limits_.max_interpreted_ops;
  std::shared_ptr<Device> oracle = interpreted && device_.name() != "INTERP" ? open_device("INTERP") : nullptr;
  Program program = compile(kernel.ast(), kernel.target(), {.opts = "none"});
  Plain plain{interpreted, make_inputs(kernel.ast(), fast, seed_), {}, make_vars(fast, seed_)};
  plain.outputs = copy_of(plain.inputs);
  run(oracle ? *oracle : device_, program, plain.outputs, plain.vars);
  return plain_.emplace(std::move(plain));
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
    result.seconds = run(device_, fast, buffers, plain.vars);
    Difference d = compare_outputs(fast, pointers_to(plain.outputs), pointers_to(buffers),
                                   tolerance_of(ast, kernel.tensor_core()));
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

std::string random_walk(UOp ast, const Target& target, int length, uint64_t seed) {
  Random random(seed);
  Kernel kernel = optimize(ast, target, {.opts = "none"});
  for (int i = 0; i < length; ++i) {
    std::vector<int> legal = legal_actions(kernel);
    if (legal.empty()) break;
    auto pick = static_cast<size_t>(uniform(random, 0, static_cast<int64_t>(legal.size()) - 1));
    kernel.apply(search_actions()[static_cast<size_t>(legal[pick]) - 1]);
  }
  return kernel.applied_opts().empty() ? "none" : to_string(kernel.applied_opts());
}

}  // namespace quern
