#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/quern.h"

namespace quern {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

std::vector<float> iota(size_t n, float start = 0) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), start);
  return v;
}

/// Runs a kernel in the interpreter: its output is buffer 0, the inputs are the buffers from 1 on.
template <class T>
std::vector<T> run(const KernelBuilder& k, size_t outputs, std::vector<std::vector<T>> inputs,
                   const std::string& opts = "none", const std::map<std::string, int64_t>& variables = {}) {
  CompiledKernel kernel = compile(k.build(), {.device = "INTERP", .opts = opts});
  std::vector<T> out(outputs);
  std::vector<Array> arrays{array(out)};
  for (const BufferArgument& b : kernel.buffers())
    if (b.number > 0) arrays.push_back(array(inputs[static_cast<size_t>(b.number - 1)]));
  kernel.run(arrays, variables);
  return out;
}

TEST(Builder, gives_the_kernel_it_was_told) {
  KernelBuilder k;
  k.store(0, k.load(1, DataType::Float, {8}) + 2);
  const std::string text =
      "UOp(Ops.SINK,dtypes.void,arg=None,src=(UOp(Ops.STORE,dtypes.void,arg=None,src=(UOp(Ops.DEFINE_GLOBAL,dtypes."
      "float.ptr(),"
      "arg=0,src=()),x2:=UOp(Ops.VIEW,dtypes.void,arg=ShapeTracker(views=(View(shape=(8,),strides=(1,),offset=0,mask="
      "None,"
      "contiguous=True),)),src=()),UOp(Ops.ADD,dtypes.float,arg=None,src=(UOp(Ops.LOAD,dtypes.float,arg=None,src=("
      "UOp(Ops.DEFINE_GLOBAL,dtypes.float.ptr(),arg=1,src=()),x2,)),UOp(Ops.CONST,dtypes.float,arg=2.0,src=()),)),)),)"
      ")";
  EXPECT_EQ(k.build().text(), text);
  EXPECT_EQ(KernelGraph::from_text(k.build().indented_text()).text(), text);
}

TEST(Builder, multiplies_matrices) {
  KernelBuilder k;
  Value a = k.load(1, DataType::Float, {2, 3}).reshape({2, 1, 3});
  Value b = k.load(2, DataType::Float, {3, 4}).permute({1, 0}).reshape({1, 4, 3});
  Value c = sum(a * b, {-1});
  EXPECT_THAT(c.shape(), testing::ElementsAre(2, 4, 1));
  k.store(0, maximum(c, 30));
  for (const char* opts : {"none", "heuristic"})
    EXPECT_THAT(run<float>(k, 8, {iota(6), iota(12)}, opts), ElementsAreArray({30, 30, 30, 30, 56, 68, 80, 92}))
        << opts;
}

TEST(Builder, moves_elements_without_copies) {
  struct Case {
    const char* what;
    std::function<Value(const Value&)> move;
    std::vector<float> result;
  };
  for (const auto& [what, move, result] : std::vector<Case>{
           {"reshape", [](const Value& v) { return v.reshape({3, 2}); }, {0, 1, 2, 3, 4, 5}},
           {"permute", [](const Value& v) { return v.permute({1, 0}); }, {0, 3, 1, 4, 2, 5}},
           {"expand",
            [](const Value& v) { return v.reshape({2, 3, 1}).expand({2, 3, 2}); },
            {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}},
           {"pad", [](const Value& v) { return v.pad({{1, 0}, {0, 1}}); }, {0, 0, 0, 0, 0, 1, 2, 0, 3, 4, 5, 0}},
           {"pad a sum",
            [](const Value& v) { return (v + 1).pad({{0, 1}, {1, 0}}); },
            {0, 1, 2, 3, 0, 4, 5, 6, 0, 0, 0, 0}},
           {"shrink", [](const Value& v) { return v.shrink({{0, 2}, {1, 3}}); }, {1, 2, 4, 5}},
           {"flip", [](const Value& v) { return v.flip({1}); }, {2, 1, 0, 5, 4, 3}},
           {"flip a padded reshape",
            [](const Value& v) { return v.pad({{0, 0}, {1, 1}}).reshape({10}).flip({0}); },
            {0, 5, 4, 3, 0, 0, 2, 1, 0, 0}},
       }) {
    KernelBuilder k;
    k.store(0, move(k.load(1, DataType::Float, {2, 3})));
    EXPECT_THAT(run<float>(k, result.size(), {iota(6)}), ElementsAreArray(result)) << what;
  }
}

TEST(Builder, reads_and_writes_by_layout) {
  KernelBuilder k;
  Value v = k.load(1, DataType::Float, {3}, {.strides = {2}, .offset = 1, .mask = {{0, 2}}});
  k.store(0, v + 10, {.strides = {-1}, .offset = 2});
  EXPECT_THAT(run<float>(k, 3, {iota(6)}), ElementsAreArray({10, 13, 11}));
}

TEST(Builder, repeats_axes_of_size_1_to_fit) {
  KernelBuilder k;
  k.store(0, k.load(1, DataType::Float, {2, 1}) * 10 + k.load(2, DataType::Float, {3}));
  EXPECT_THAT(run<float>(k, 6, {{1, 2}, {0, 1, 2}}), ElementsAreArray({10, 11, 12, 20, 21, 22}));
}

TEST(Builder, computes_on_integers_as_the_semantics_say) {
  struct Case {
    const char* what;
    std::function<Value(const Value&, const Value&)> f;
    std::vector<int> result;  // of a = -7 7 5 -2147483648, b = 2 -2 0 -1
  };
  for (const auto& [what, f, result] : std::vector<Case>{
           {"/", [](auto& a, auto& b) { return a / b; }, {-3, -3, 0, std::numeric_limits<int>::min()}},
           {"%", [](auto& a, auto& b) { return a % b; }, {-1, 1, 0, 0}},
           {"-", [](auto& a, auto& b) { return a - b; }, {-9, 9, 5, -2147483647}},
           {"minimum", [](auto& a, auto& b) { return minimum(a, b); }, {-7, -2, 0, std::numeric_limits<int>::min()}},
           {"maximum", [](auto& a, auto& b) { return maximum(a, b); }, {2, 7, 5, -1}},
           {"<<", [](auto& a, auto&) { return a << 1; }, {-14, 14, 10, 0}},
           {">>", [](auto& a, auto&) { return a >> 1; }, {-4, 3, 2, -1073741824}},
           {"^", [](auto& a, auto& b) { return a ^ b; }, {-5, -7, 5, 2147483647}},
           {"less", [](auto& a, auto& b) { return less(a, b).cast(DataType::Int32); }, {1, 0, 0, 1}},
           {"less_equal", [](auto& a, auto&) { return less_equal(a, 5).cast(DataType::Int32); }, {1, 0, 1, 1}},
           {"equal", [](auto& a, auto&) { return equal(a, 7).cast(DataType::Int32); }, {0, 1, 0, 0}},
           {"where", [](auto& a, auto& b) { return where(less(a, 0), b, a); }, {2, 7, 5, -1}},
           {"bitcast",
            [](auto& a, auto&) { return a.bitcast(DataType::UInt32).bitcast(DataType::Int32); },
            {-7, 7, 5, std::numeric_limits<int>::min()}},
       }) {
    KernelBuilder k;
    k.store(0, f(k.load(1, DataType::Int32, {4}), k.load(2, DataType::Int32, {4})));
    EXPECT_THAT(run<int>(k, 4, {{-7, 7, 5, std::numeric_limits<int>::min()}, {2, -2, 0, -1}}), ElementsAreArray(result))
        << what;
  }
}

TEST(Builder, computes_functions_of_floats) {
  KernelBuilder k;
  Value v = k.load(1, DataType::Double, {3});
  k.store(0, exp2(v) + log2(v) * sin(v) - sqrt(v) / reciprocal(v));
  const std::vector<double> in = {0.5, 1, 2.75};
  const std::vector<double> out = run<double>(k, 3, {in});
  for (size_t i = 0; i < in.size(); ++i)
    EXPECT_NEAR(out[i], std::exp2(in[i]) + std::log2(in[i]) * std::sin(in[i]) - std::sqrt(in[i]) * in[i], 1e-13);
}

TEST(Builder, reduces_over_any_axes_and_computes_on) {
  KernelBuilder k;
  Value v = k.load(1, DataType::Float, {2, 3});
  k.store(0, max(v, {1}) - sum(v, {-1}) * 0.5 + product(v, {1}));
  EXPECT_THAT(run<float>(k, 2, {iota(6, 1)}), ElementsAreArray({6.F, 118.5F}));
}

TEST(Builder, takes_variables_at_run_time) {
  KernelBuilder k;
  k.store(0, k.load(1, DataType::Int32, {2}) * k.variable("scale", 1, 9));
  EXPECT_THAT(run<int>(k, 2, {{3, 4}}, "none", {{"scale", 7}}), ElementsAreArray({21, 28}));
}

TEST(Builder, refuses_what_makes_no_sense_with_the_values) {
  KernelBuilder k, other;
  Value a = k.load(1, DataType::Float, {2, 3}), i = k.load(2, DataType::Int32, {2, 3}), s = sum(a, {1});
  struct Case {
    std::function<void()> run;
    const char* message;
  };
  const Case cases[] = {
      {[&] { a + i; }, "[ADD] source 0 (LOAD) is dtypes.float, not dtypes.int"},
      {[&] { exp2(i); }, "[EXP2] EXP2 is not defined on dtypes.int"},
      {[&] { a + k.load(3, DataType::Float, {2, 4}); }, "[ADD] shapes (2, 3) and (2, 4) do not fit together"},
      {[&] { a + other.load(1, DataType::Float, {2, 3}); }, "[ADD] values of two builders"},
      {[&] { i + 1.5; }, "[CONST] 1.500000 is not a value of dtypes.int"},
      {[&] { sum(a, {2}); }, "[REDUCE_AXIS] axis 2 of the shape (2, 3)"},
      {[&] { sum(a, {0, -2}); }, "[REDUCE_AXIS] axis 0 twice"},
      {[&] { s.permute({1, 0}); }, "[permute] a reduced value of shape (2, 1): store it and load it again"},
      {[&] { k.constant(DataType::Float, 1).reshape({1}); }, "[reshape] a constant has no shape"},
      {[&] { k.constant(DataType::Bool, 2); }, "[CONST] 2 is not a value of dtypes.bool"},
      {[&] { a.reshape({4, 2}); }, "[reshape]"},
      {[&] { a.bitcast(DataType::Half); }, "[BITCAST] source 0 (LOAD) is dtypes.float, not 2 bytes"},
      {[&] { k.load(1, DataType::Float, {0}); }, "[LOAD] shape (0,) has no elements"},
      {[&] { k.load(-1, DataType::Float, {1}); }, "[DEFINE_GLOBAL] buffer number -1"},
      {[&] { k.load(1, DataType::Float, {4}, {.mask = {{0, 5}}}); }, "[LOAD] mask (0, 5) of an axis of 4"},
      {[&] { k.load(1, DataType::Float, {4}, {.strides = {1, 1}}); },
       "[LOAD] 2 strides and 0 mask ranges for the shape (4,)"},
      {[&] { k.store(0, k.constant(DataType::Float, 1)); }, "[STORE] a constant without a shape"},
      {[&] { k.variable("a b", 0, 1); }, "[DEFINE_VAR] \"a b\" is not a name"},
      {[&] { k.load(1, static_cast<DataType>(77), {4}); }, "a type that does not exist: 77"},
      {[&] { a.cast(static_cast<DataType>(-1)); }, "a type that does not exist: -1"},
      {[&] { (void)size_of(static_cast<DataType>(13)); }, "a type that does not exist: 13"},
      {[&] { KernelBuilder().build(); }, "[SINK] a kernel that stores nothing"},
  };
  for (const Case& c : cases) {
    try {
      c.run();
      ADD_FAILURE() << "no error, not: " << c.message;
    } catch (const InvalidKernel& e) {
      EXPECT_THAT(e.what(), HasSubstr(c.message));
    }
  }
}

}  // namespace
}  // namespace quern
