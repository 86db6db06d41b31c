#include "everywhere.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <set>

#include <gtest/gtest.h>

#include "engine/check.h"
#include "ir/text.h"
#include "runtime/device.h"
#include "shape/shapetracker.h"

namespace quern::test {

namespace {

/// Where a kernel runs, and for what it is compiled.
struct Place {
  const char* device;
  const char* target;
  bool every_opt;  // else none and the heuristics' only: a process a compilation
};

constexpr Place kPlaces[] = {
    {"CPU", "llvm", true},        {"CPU", "cpu:avx512", true},        {"CLANG", "clang", false},
    {"INTERP", "clang", true},    {"INTERP", "opencl", true},         {"INTERP", "cuda:sm_80", true},
    {"INTERP", "cpu:avx2", true}, {"INTERP", "cpu:avx512bf16", true},
};

const std::vector<std::string> kUsualOpts = {
    "UPCAST(0,4)",
    "UPCAST(0,3)",
    "UPCAST(1,2) UPCAST(0,2)",
    "PADTO(0,32) UPCAST(0,4)",
    "UNROLL(0,4)",
    "UNROLL(0,0)",
    "LOCAL(0,4)",
    "LOCAL(0,2) UPCAST(0,2)",
    "GROUP(0,4)",
    "GROUP(0,8) UNROLL(0,4)",
    "GROUPTOP(0,16)",
    "GROUPTOP(0,4) UNROLL(0,0)",
    "LOCAL(0,4) GROUP(0,4) UPCAST(0,2)",
    "UPCAST(0,16) THREAD(0,2)",
    "PADTO(0,16) UPCAST(0,32)",
    "RFACTOR(0,4)",
    "PADTO(1,8) RFACTOR(0,8) UPCAST(0,2)",
    "UPCAST(0,16) UPCAST(1,16)",
    "PACK(0,1)",
    "PACK(0,2)",
    "PACK(1,1)",
    "PACK(1,1) THREAD(0,0)",
    "UPCAST(0,2) UPCAST(1,16) SWAP(0,1) PACK(1,2) THREAD(0,2)",
    "PADTO(1,8) UPCAST(1,8) PACK(0,2) PACK(0,3)",
};
constexpr int kWalks = 2, kWalkLength = 5;

bool is_here(const char* name) {
  static const std::set<std::string> here = [] {
    std::set<std::string> names;
    for (const DeviceInfo& d : devices())
      if (d.available) names.insert(d.name);
    return names;
  }();
  return here.contains(name);
}

std::vector<std::string> opts_for(const KernelGraph& kernel, const Place& place, const How& how) {
  std::vector<std::string> all = {"none", "heuristic"};
  if (!place.every_opt) return all;
  all.insert(all.end(), how.opts.begin(), how.opts.end());
  if (how.few_opts) return all;
  all.insert(all.end(), kUsualOpts.begin(), kUsualOpts.end());
  Graph graph;
  UOp ast = parse(graph, kernel.text());
  for (uint64_t seed = 1; seed <= kWalks; ++seed)
    all.push_back(random_walk(ast, find_target(place.target), kWalkLength, seed));
  return all;
}

struct Memory {
  Array array;
  std::vector<std::byte> bytes;
  explicit Memory(DataType type, size_t n) : bytes((n * static_cast<size_t>(size_of(type)) + 64), std::byte{0xA5}) {
    const auto start = reinterpret_cast<uintptr_t>(bytes.data());
    array = {type, bytes.data() + (64 - start % 64) % 64, static_cast<int64_t>(n)};
  }
  std::byte* at(size_t i) { return static_cast<std::byte*>(array.data) + i * static_cast<size_t>(size_of(array.type)); }
};

Memory memory_of(const Elements& e) {
  Memory m(e.type, e.size());
  for (size_t i = 0; i < e.size(); ++i) {
    const uint64_t raw = memory_bits(scalar_of(e.type), e.values[i]);
    std::memcpy(m.at(i), &raw, static_cast<size_t>(size_of(e.type)));
  }
  return m;
}

ConstBits read(Memory& m, size_t i) {
  uint64_t raw = 0;
  std::memcpy(&raw, m.at(i), static_cast<size_t>(size_of(m.array.type)));
  return from_memory_bits(scalar_of(m.array.type), raw);
}

std::string text(DataType type, ConstBits c) {
  const Scalar s = scalar_of(type);
  return DType(s).is_float() ? ::testing::PrintToString(float_of_const(c)) : to_string(int_of_const(s, c));
}

bool same(DataType type, ConstBits want, ConstBits got, const How& how) {
  if (want == got) return true;
  if (!DType(scalar_of(type)).is_float()) return false;
  const double u = float_of_const(want), v = float_of_const(got);
  if (std::isnan(u) && std::isnan(v)) return true;
  if (u == v) return !how.signed_zeros;
  return std::isfinite(u) && std::isfinite(v) &&
         std::fabs(u - v) <= how.tolerance * std::max(std::fabs(u), std::fabs(v));
}

std::string difference(Memory& got, const Elements& want, const How& how) {
  std::string wrong;
  size_t count = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const ConstBits v = read(got, i);
    if (same(want.type, want.values[i], v, how) || ++count > 4) continue;
    wrong +=
        "\n  element " + std::to_string(i) + " is " + text(want.type, v) + ", not " + text(want.type, want.values[i]);
  }
  return count > 4 ? wrong + "\n  and " + std::to_string(count - 4) + " more" : wrong;
}

void run_and_compare(const CompiledKernel& compiled, const Filled& inputs, const Filled& outputs, const How& how) {
  std::map<int, Memory> memory;
  std::vector<Array> arrays;
  for (const BufferArgument& b : compiled.buffers()) {
    const auto in = inputs.find(b.number);
    const auto out = outputs.find(b.number);
    if (in == inputs.end() && out == outputs.end()) {
      ADD_FAILURE() << "buffer " << b.number << " has no values";
      return;
    }
    Memory& m = memory
                    .emplace(b.number,
                             in != inputs.end() ? memory_of(in->second) : Memory(out->second.type, out->second.size()))
                    .first->second;
    arrays.push_back(m.array);
  }
  compiled.run(arrays, how.variables);
  for (const auto& [number, want] : outputs) {
    const auto got = memory.find(number);
    ASSERT_NE(got, memory.end()) << "the program does not write buffer " << number;
    const std::string wrong = difference(got->second, want, how);
    EXPECT_TRUE(wrong.empty()) << "buffer " << number << wrong;
  }
}

}  // namespace

Scalar scalar_of(DataType type) { return static_cast<Scalar>(static_cast<int>(type) + 1); }
DataType data_type_of(Scalar scalar) { return static_cast<DataType>(static_cast<int>(scalar) - 1); }

Elements ints(DataType type, const std::vector<Int128>& values) {
  Elements all{type, {}};
  for (Int128 v : values) all.values.push_back(const_of_int(scalar_of(type), v));
  return all;
}

Elements reals(DataType type, const std::vector<double>& values) {
  Elements all{type, {}};
  for (double v : values) all.values.push_back(const_of_float(scalar_of(type), v));
  return all;
}

Elements filled(DataType type, size_t n, double value) {
  return tabulate(type, n, [&](size_t) { return value; });
}

Elements count_up(DataType type, size_t n) {
  return tabulate(type, n, [](size_t i) { return i; });
}

void expect_everywhere(const KernelGraph& kernel, const Filled& inputs, const Filled& outputs, const How& how) {
  int runs = 0;
  for (const Place& place : kPlaces) {
    if (!is_here(place.device) || (how.in_process_only && !place.every_opt)) continue;
    std::set<std::string> tried;  // lists as they were applied: the same program need not run twice
    for (const std::string& opts : opts_for(kernel, place, how)) {
      SCOPED_TRACE(std::string(place.device) + " for " + place.target + ", opts " + opts);
      try {
        CompiledKernel compiled = compile(kernel, {.device = place.device, .target = place.target, .opts = opts});
        if (!tried.insert(compiled.opts()).second) continue;
        run_and_compare(compiled, inputs, outputs, how);
        ++runs;
      } catch (const OptError&) {
        continue;  // not a list for this kernel and target
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
  EXPECT_GE(runs, 4) << "hardly any opts applied";
  if (::testing::Test::HasFailure()) SUCCEED() << kernel.indented_text();
}

Value folded(KernelBuilder& k, DataType type, ConstBits value, int64_t n) {
  const Scalar s = scalar_of(type);
  Value c = DType(s).is_float() ? k.constant(type, float_of_const(value))
                                : k.constant(type, static_cast<int64_t>(int_of_const(s, value)));
  return where(k.load(90, DataType::Bool, {n}), c, c);
}

KernelGraph kernel_of(const std::vector<UOp>& stores) {
  return KernelGraph::from_text(print(stores[0].graph().node(Op::Sink, Scalar::Void, stores)));
}

UOp load(Graph& g, int number, Scalar scalar, const ShapeTracker& st) {
  UOp buffer = g.node(Op::DefineGlobal, DType(scalar).ptr(), {}, int64_t{number});
  return g.node(Op::Load, scalar, {buffer, g.view(st)});
}

UOp store(Graph& g, int number, const ShapeTracker& st, UOp value) {
  UOp buffer = g.node(Op::DefineGlobal, value.dtype().ptr(), {}, int64_t{number});
  return g.node(Op::Store, Scalar::Void, {buffer, g.view(st), value});
}

UOp reduce(Op op, UOp value, std::vector<int32_t> axes) {
  Graph& g = value.graph();
  return g.node(Op::ReduceAxis, value.dtype(), {value}, g.intern(ReduceArg{op, std::move(axes)}));
}

UOp count_from_one(Graph& g, int64_t n, size_t along, size_t over, size_t axes) {
  // Row `over` of ones(n + 1, 2n - 1), of which columns n - 1 and on are inside, read one element further each row.
  View ones = make_view({n + 1, 2 * n - 1}, {0, 0}, 0, Mask{{0, n + 1}, {n - 1, 2 * n - 1}});
  Shape shape(axes, 1);
  std::vector<SInt> strides(axes, 0);
  shape[along] = shape[over] = n;
  strides[along] = 1;
  strides[over] = 2 * n;
  UOp valid = g.node(Op::Valid, Scalar::Bool, {g.view({{std::move(ones), make_view(shape, strides)}})});
  UOp one = g.const_int(Scalar::Int32, 1);
  return reduce(Op::Add, valid.where(one, one.const_like(0)), {static_cast<int32_t>(over)});
}

}  // namespace quern::test
