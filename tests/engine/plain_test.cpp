#include "engine/plain.h"

#include <functional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/builder.h"

#include "engine/compile.h"
#include "engine/inputs.h"
#include "engine/slice.h"
#include "ir/text.h"

namespace quern {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Kernels in the interpreter, on inputs by a seed.
struct Plain : testing::Test {
  void take(const KernelBuilder& k) {
    ast = parse(graph, k.build().text());
    program = compile(ast, find_target("llvm"), {.opts = "none"});
    inputs = make_inputs(ast, program, 1);
    device = open_device("INTERP");
  }
  /// out[m, n] = sum over k of a[m, k] * b[k, n]; 12 x 10 x 8.
  void take_matmul() {
    KernelBuilder k;
    Value a = k.load(1, DataType::Float, {12, 10, 8}, {.strides = {8, 0, 1}});
    Value b = k.load(2, DataType::Float, {12, 10, 8}, {.strides = {0, 1, 10}});
    k.store(0, sum(a * b, {2}));
    take(k);
  }
  Buffers run(UOp kernel) {
    Buffers buffers = copy_of(inputs);
    const Program p = compile(kernel, find_target("llvm"), {.opts = "none"});
    device->compile(p)->run(pointers_to(buffers), {});
    return buffers;
  }
  std::vector<std::pair<size_t, int64_t>> axes() {
    std::vector<std::pair<size_t, int64_t>> found;
    for (const SliceAxis& a : slice_axes(ast)) found.emplace_back(a.axis, a.size);
    return found;
  }
  PlainOutputs plain(double max_ops) { return {ast, program, *device, inputs, {}, max_ops, 7}; }
  static float* floats(Buffer& b) { return reinterpret_cast<float*>(b.data()); }

  Graph graph;
  UOp ast;
  Program program;
  Buffers inputs;
  std::shared_ptr<Device> device;
};

TEST_F(Plain, can_be_cut_along_output_axes_only) {
  take_matmul();
  EXPECT_THAT(axes(), ElementsAre(std::pair(0, 12), std::pair(1, 10)));
}

TEST_F(Plain, is_not_cut_where_an_output_is_read) {
  KernelBuilder k;
  k.store(0, k.load(0, DataType::Float, {12, 10}) + 1);
  take(k);
  EXPECT_THAT(axes(), IsEmpty());
  EXPECT_FALSE(plain(1).is_sampled());
}

TEST_F(Plain, is_the_sum_of_its_slices) {
  take_matmul();
  const Buffers whole = run(ast);
  for (auto [axis, size] : axes())
    for (int64_t at = 0; at < size; ++at) {
      const Buffers part = run(slice_of(ast, axis, at, at + 1));
      for (int64_t m = 0; m < 12; ++m)
        for (int64_t n = 0; n < 10; ++n) {
          const int64_t i = 10 * m + n;
          const bool inside = (axis == 0 ? m : n) == at;
          EXPECT_EQ(floats(*part[0])[i], floats(inside ? *whole[0] : *inputs[0])[i]) << axis << " " << i;
        }
    }
}

TEST_F(Plain, is_cut_under_masks_and_flips_too) {
  KernelBuilder k;
  k.store(0, k.load(1, DataType::Float, {6, 5}, {.strides = {-4, 1}, .offset = 20, .mask = {{1, 5}, {0, 4}}}) * 2);
  take(k);
  const Buffers whole = run(ast), part = run(slice_of(slice_of(ast, 0, 2, 6), 1, 3, 5));
  for (int64_t i = 0; i < 30; ++i) {
    const bool inside = i / 5 >= 2 && i % 5 >= 3;
    EXPECT_EQ(floats(*part[0])[i], floats(inside ? *whole[0] : *inputs[0])[i]) << i;
  }
}

TEST_F(Plain, compares_all_or_a_sample_with_the_ends_in_it) {
  take_matmul();
  const Tolerance tolerance = tolerance_of(ast);
  const PlainOutputs all = plain(1e9), some = plain(400);
  EXPECT_FALSE(all.is_sampled());
  EXPECT_TRUE(some.is_sampled());
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 120; ++i) {
    Buffers got = run(ast);
    EXPECT_TRUE(all.compare(pointers_to(got), tolerance).equal);
    EXPECT_TRUE(some.compare(pointers_to(got), tolerance).equal);
    floats(*got[0])[i] += 1;
    EXPECT_THAT(all.compare(pointers_to(got), tolerance).text, HasSubstr("differs in 1 of 120 elements"));
    if (!some.compare(pointers_to(got), tolerance).equal) seen.insert(i);
  }
  EXPECT_LT(seen.size(), 120U);
  EXPECT_GT(seen.size(), 2U);
  EXPECT_TRUE(seen.contains(0));
  EXPECT_TRUE(seen.contains(119));
}

TEST_F(Plain, allows_a_share_of_what_was_compared_not_of_what_there_is) {
  // Ints made from rounded floats: one in a hundred may differ, which is none of the few of a sample.
  KernelBuilder k;
  Value a = k.load(1, DataType::Float, {40, 50, 8}, {.strides = {8, 0, 1}});
  Value b = k.load(2, DataType::Float, {40, 50, 8}, {.strides = {0, 1, 50}});
  k.store(0, sum(a * b, {2}).cast(DataType::Int32));
  take(k);
  const Tolerance tolerance = tolerance_of(ast);
  ASSERT_GT(tolerance.int_fraction, 0);
  const PlainOutputs all = plain(1e9), some = plain(400);
  Buffers got = run(ast);
  reinterpret_cast<int32_t*>(got[0]->data())[0] += 1;
  EXPECT_TRUE(all.compare(pointers_to(got), tolerance).equal);
  EXPECT_FALSE(some.compare(pointers_to(got), tolerance).equal);
}

TEST_F(Plain, tells_an_input_that_was_written) {
  take_matmul();
  Buffers got = run(ast);
  floats(*got[2])[3] += 1;
  for (double ops : {1e9, 400.0})
    EXPECT_EQ(plain(ops).compare(pointers_to(got), tolerance_of(ast)).text, "buffer 2 is an input and was written");
}

}  // namespace
}  // namespace quern
