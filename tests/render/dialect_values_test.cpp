// Every op on every dtype at edge values as Metal (through a stand-in for its library) and as Hexagon C (through one for its
// runtime), compiled for this machine, against ir/eval.

#include <cstring>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "compile_source.h"
#include "linear_programs.h"

namespace quern {
namespace {

using test::edge_values;
using test::ProgramBuilder;
using test::value_scalars;

/// A result of a kernel: an op over its inputs, or a conversion of the first.
struct Output {
  Op op;
  Scalar type;
};

std::vector<Output> outputs_of(Scalar s, bool has_double) {
  std::vector<Output> all;
  for (Op op : {Op::Add, Op::Sub, Op::Mul, Op::Max, Op::Neg}) all.push_back({op, s});
  for (Op op : {Op::Cmplt, Op::Cmpne}) all.push_back({op, Scalar::Bool});
  std::vector<Op> more{Op::And, Op::Or, Op::Xor, Op::Idiv, Op::Mod, Op::Shl, Op::Shr};
  if (scalar_bit(s) & kFloats) more = {Op::Fdiv, Op::Recip, Op::Sqrt};
  for (Op op : more) all.push_back({op, s});
  for (Scalar to : value_scalars()) {
    if (to == Scalar::Double && !has_double) continue;
    all.push_back({Op::Cast, to});
    if (bytes_of(to) == bytes_of(s)) all.push_back({Op::Bitcast, to});
  }
  return all;
}

ConstBits expected(Output o, Scalar s, ConstBits x, ConstBits y) {
  if (o.op == Op::Cast) return eval_cast(s, o.type, x);
  if (o.op == Op::Bitcast) return eval_bitcast(s, o.type, x);
  ConstBits all[] = {x, y};
  return eval_alu(o.op, s, std::span<const ConstBits>(all, static_cast<size_t>(info(o.op).arity)));
}

bool same_value(Scalar s, ConstBits a, ConstBits b) {
  if (a == b) return true;
  return (scalar_bit(s) & kFloats) && std::isnan(float_of_const(a)) && std::isnan(float_of_const(b));
}

struct Language {
  std::string target;
  std::string compiler;
  std::string command;
  std::string suffix;
  std::string below;  // stands below the source and gives `run`
};

const Language& metal() {
  static const Language language{"metal", "clang++-19", test::kMetalAsCpp, ".cpp",
                                 "\nextern \"C\" void run(void** buffers, int) { call_with(values, buffers); }\n"};
  return language;
}
const Language& hexagon() {
  static const Language language{"dsp", "cc", test::kHexagonAsC, ".c",
                                 "\n#include \"dsp_standin.h\"\n"
                                 "void run(void** buffers, int count) { call_entry(entry, buffers, count, 0, 0); }\n"};
  return language;
}

/// Buffers, 16 bytes into their memory.
struct Memory {
  std::vector<std::vector<char>> bytes;
  std::vector<void*> pointers;
  void add(Scalar s, size_t count) {
    bytes.emplace_back(16 + count * static_cast<size_t>(bytes_of(s)) + 16);
    pointers.push_back(bytes.back().data() + 16);
  }
  void put(size_t buffer, Scalar s, size_t i, ConstBits value) {
    uint64_t bits = memory_bits(s, value);
    auto width = static_cast<size_t>(bytes_of(s));
    std::memcpy(static_cast<char*>(pointers[buffer]) + i * width, &bits, width);
  }
  ConstBits get(size_t buffer, Scalar s, size_t i) const {
    uint64_t bits = 0;
    auto width = static_cast<size_t>(bytes_of(s));
    std::memcpy(&bits, static_cast<const char*>(pointers[buffer]) + i * width, width);
    return from_memory_bits(s, bits);
  }
};

void check(const Language& language, Scalar s) {
  std::vector<Output> outputs = outputs_of(s, language.target != "metal");
  std::vector<ConstBits> edges = edge_values(s);
  size_t n = edges.size(), count = n * n;
  ProgramBuilder b;
  std::vector<UOp> results;
  int number = 0;
  for (const Output& o : outputs) results.push_back(b.buffer(o.type, number++));
  UOp first = b.buffer(s, number), second = b.buffer(s, number + 1);
  UOp i = b.range(static_cast<int64_t>(count), 0);
  UOp x = b.load(b.at(first, i)), y = b.load(b.at(second, i));
  for (size_t k = 0; k < outputs.size(); ++k) {
    Output o = outputs[k];
    b.store(b.at(results[k], i), info(o.op).arity == 1 ? b.add(o.op, o.type, {x}) : b.add(o.op, o.type, {x, y}));
  }
  b.end(i);

  Memory memory;
  for (const Output& o : outputs) memory.add(o.type, count);
  for (int k = 0; k < 2; ++k) memory.add(s, count);
  for (size_t j = 0; j < count; ++j) {
    memory.put(outputs.size(), s, j, edges[j / n]);
    memory.put(outputs.size() + 1, s, j, edges[j % n]);
  }
  test::TemporaryFolder folder;
  std::string library = folder / "values.so";
  ASSERT_EQ(
      test::complaints(language.command + " -O1 -shared -fPIC -o " + library, folder / ("values" + language.suffix),
                       b.program(language.target, "values").source + language.below),
      "");
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  auto run = reinterpret_cast<void (*)(void**, int)>(dlsym(handle, "run"));
  ASSERT_NE(run, nullptr);
  run(memory.pointers.data(), static_cast<int>(memory.pointers.size()));
  dlclose(handle);

  for (size_t k = 0; k < outputs.size(); ++k) {
    Scalar type = outputs[k].type;
    auto text = [](Scalar t, ConstBits c) {
      return scalar_bit(t) & kFloats ? ::testing::PrintToString(float_of_const(c)) : to_string(int_of_const(t, c));
    };
    int wrong = 0;
    for (size_t j = 0; j < count && wrong < 5; ++j) {
      ConstBits a = edges[j / n], c = edges[j % n];
      ConstBits want = expected(outputs[k], s, a, c), got = memory.get(k, type, j);
      if (same_value(type, want, got)) continue;
      ++wrong;
      ADD_FAILURE() << to_string(outputs[k].op) << " " << to_string(s) << " to " << to_string(type) << " of "
                    << text(s, a) << ", " << text(s, c) << " gives " << text(type, got) << ", not " << text(type, want);
    }
  }
}

class DialectValues : public ::testing::TestWithParam<Scalar> {};

TEST_P(DialectValues, agree_with_scalar_evaluation_in_metal) {
  if (GetParam() == Scalar::Double) return;  // Metal has none: see Dialects.refuse_doubles_where_there_are_none
  if (!test::has_compiler(metal().compiler)) GTEST_SKIP() << "there is no clang++-19 on this machine";
  check(metal(), GetParam());
}
TEST_P(DialectValues, agree_with_scalar_evaluation_in_hexagon_c) {
  if (!test::has_compiler(hexagon().compiler)) GTEST_SKIP() << "there is no C compiler on this machine";
  check(hexagon(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Each, DialectValues, ::testing::ValuesIn(value_scalars()),
                         [](const auto& i) { return std::string(to_string(i.param)); });

}  // namespace
}  // namespace quern
