// Views, wide indices, tails, launch dims, deep graphs and variables: the public cases C11, C37 to C40, S6 to S8.

#include <gtest/gtest.h>

#include "engine/compile.h"
#include "everywhere.h"
#include "ir/text.h"
#include "shape/shapetracker.h"

namespace quern {
namespace {

using namespace test;
using enum DataType;

/// Types of the positions that a kernel's program reads and writes at.
std::vector<Scalar> position_types(const KernelGraph& kernel, const char* target) {
  Graph g;
  std::vector<Scalar> types;
  for (UOp u : compile(parse(g, kernel.text()), find_target(target), {.opts = "none"}).linear.uops)
    if (u.is(Op::Index)) types.push_back(u.src(1).dtype().scalar);
  return types;
}

constexpr const char* kTargets[] = {"clang", "llvm", "opencl", "cuda:sm_80"};

TEST(WideIndices, are_computed_in_64_bits) {  // C11
  {
    Graph g;  // a padded view of overlapping windows
    View padded =
        make_view({512, 3, 116, 116}, {37632, 12544, 112, 1}, -226, Mask{{0, 512}, {0, 3}, {2, 114}, {2, 114}});
    View repeated = make_view({512, 3, 1840, 1840}, {40368, 13456, 116, 1});
    View windows = make_view({512, 1, 512, 112, 112, 3, 7, 7}, {10156800, 0, 0, 3680, 2, 3385600, 425040, 231});
    const ShapeTracker st{{padded, repeated, windows}};
    UOp total = reduce(Op::Add, load(g, 1, Scalar::Float, st), {5, 6, 7});
    const KernelGraph kernel = kernel_of({store(g, 0, tracker({512, 1, 512, 112, 112, 1, 1, 1}), total)});
    for (const char* target : kTargets) {
      SCOPED_TRACE(target);
      Graph fresh;
      bool has_long = false;
      for (UOp u : compile(parse(fresh, kernel.text()), find_target(target), {.opts = "none"}).linear.uops)
        has_long |= u.dtype() == DType(Scalar::Int64);
      EXPECT_TRUE(has_long);
    }
  }
  {
    KernelBuilder k;  // more than 2^31 elements are written
    k.store(0, k.load(1, Int8, {58, 1, 3, 16, 1}).expand({58, 262144, 3, 16, 3}));
    for (const char* target : kTargets) {
      const std::vector<Scalar> types = position_types(k.build(), target);
      EXPECT_EQ(std::count(types.begin(), types.end(), Scalar::Int64), 1) << target;
    }
  }
  {
    KernelBuilder k;  // fits in 32
    k.store(0, k.load(1, Int8, {58, 1}).expand({58, 1024}));
    for (const char* target : kTargets)
      for (Scalar s : position_types(k.build(), target)) EXPECT_EQ(s, Scalar::Int32) << target;
  }
}

TEST(WideIndices, past_32_bits_on_the_way_reach_the_right_element) {  // C11
  // Axis 1 is read at a stride past 2^31 and is masked to its first element; axis 0 counts down from far beyond.
  Graph g;
  const int64_t far = int64_t{3} << 31;
  View below = make_view({8, 2}, {1, far}, 0, Mask{{0, 8}, {0, 1}});
  UOp x = load(g, 1, Scalar::Int32, {{below}});
  const Elements want = tabulate(Int32, 16, [](size_t i) { return i % 2 == 0 ? static_cast<int>(i / 2) + 1 : 0; });
  expect_everywhere(kernel_of({store(g, 0, tracker({8, 2}), x)}),
                    {{1, tabulate(Int32, 8, [](size_t i) { return i + 1; })}}, {{0, want}});
  // i * 2^31 + j back to its parts
  Graph h;
  View wide = make_view({4, far}, {1, 0});
  View corner = make_view({4, 4}, {far, 1}, far - 4);
  UOp y = load(h, 1, Scalar::Int32, {{wide, corner}});
  expect_everywhere(kernel_of({store(h, 0, tracker({4, 4}), y)}), {{1, count_up(Int32, 4)}},
                    {{0, tabulate(Int32, 16, [](size_t i) { return i / 4; })}});
}

/// rows x inner by inner x columns, computed in `sum_type`.
void expect_matmul(DataType type, DataType sum_type, size_t rows, size_t inner, size_t columns, const How& how = {}) {
  const auto m = static_cast<int64_t>(rows), l = static_cast<int64_t>(inner), n = static_cast<int64_t>(columns);
  KernelBuilder k;
  Value a = k.load(1, type, {m, l}).reshape({m, 1, l}).cast(sum_type);
  Value b = k.load(2, type, {l, n}).permute({1, 0}).reshape({1, n, l}).cast(sum_type);
  k.store(0, sum(a * b, {2}));
  const auto left = [](size_t i) { return static_cast<int>((i * 7) % 13) - 6; };
  const auto right = [](size_t i) { return static_cast<int>((i * 5) % 11) - 5; };
  const Elements want = tabulate(sum_type, rows * columns, [&](size_t e) {
    int total = 0;
    for (size_t i = 0; i < inner; ++i) total += left(e / columns * inner + i) * right(i * columns + e % columns);
    return total;
  });
  expect_everywhere(k.build(), {{1, tabulate(type, rows * inner, left)}, {2, tabulate(type, inner * columns, right)}},
                    {{0, want}}, how);
}

TEST(Tails, of_matmuls_are_right_at_all_opts) {  // C37
  const How how = {.opts = {"UPCAST(0,4) UPCAST(1,4)", "UPCAST(1,4) UNROLL(0,4)",
                            "PADTO(0,32) PADTO(1,32) UPCAST(0,4) UPCAST(1,4)", "PADTO(2,32) UNROLL(0,8)",
                            "PADTO(0,32) LOCAL(0,16) PADTO(1,32) LOCAL(1,16)"}};
  expect_matmul(Int8, Int32, 15, 37, 7, how);
  expect_matmul(Float, Float, 1, 1024, 32, how);
  expect_matmul(Float, Float, 1, 200, 96, how);
  expect_matmul(Half, Float, 17, 33, 19, how);
}

TEST(Tails, of_matmuls_on_tensor_cores_are_right) {
  How how = {.opts = {"TC(0,0)", "TC(0,2)", "TC(0,2) UPCAST(0,2)"}};
  expect_matmul(Half, Float, 32, 32, 32, how);
  expect_matmul(Half, Float, 20, 24, 36, how);
}

TEST(Views, reshaped_through_padding_keep_their_offset) {  // C38
  {
    KernelBuilder k;
    k.store(0, k.load(1, Int32, {2, 5, 5}).pad({{2, 0}, {0, 0}, {0, 0}}).reshape({2, 2, 5, 5}).reshape({4, 5, 5}));
    expect_everywhere(k.build(), {{1, count_up(Int32, 50)}},
                      {{0, tabulate(Int32, 100, [](size_t i) { return i < 50 ? 0 : i - 50; })}});
  }
  {
    KernelBuilder k;
    k.store(0, k.load(1, Int32, {1, 2, 2}).pad({{0, 0}, {0, 0}, {2, 2}}).reshape({1, 2, 3, 2}).reshape({1, 2, 6}));
    expect_everywhere(k.build(), {{1, ints(Int32, {1, 2, 3, 4})}},
                      {{0, ints(Int32, {0, 0, 1, 2, 0, 0, 0, 0, 3, 4, 0, 0})}});
  }
  {
    KernelBuilder k;  // through a flip, a crop and another reshape
    k.store(0, k.load(1, Int32, {6})
                   .pad({{1, 1}})
                   .reshape({2, 4})
                   .flip({1})
                   .pad({{0, 1}, {1, 0}})
                   .reshape({15})
                   .shrink({{1, 13}})
                   .reshape({3, 4}));
    expect_everywhere(k.build(), {{1, tabulate(Int32, 6, [](size_t i) { return i + 1; })}},
                      {{0, ints(Int32, {3, 2, 1, 0, 0, 0, 6, 5, 4, 0, 0, 0})}});
  }
}

TEST(Views, shifted_buffers_are_the_previous_input) {  // C40
  const int64_t n = 1 << 16;
  const auto half = static_cast<size_t>(n / 2);
  KernelBuilder k;  // the upper half of a buffer, then the new half
  k.store(0,
          k.load(1, Int32, {n}).shrink({{n / 2, n}}).pad({{0, n / 2}}) + k.load(2, Int32, {n / 2}).pad({{n / 2, 0}}));
  for (const char* device : {"CPU", "CLANG", "INTERP"}) {
    SCOPED_TRACE(device);
    try {
      CompiledKernel shift = compile(k.build(), {.device = device});
      std::vector<int32_t> from(static_cast<size_t>(n)), to(static_cast<size_t>(n)), added(half);
      for (int step = 1; step <= 4; ++step) {
        for (size_t i = 0; i < half; ++i) added[i] = step * 1000000 + static_cast<int>(i);
        shift.run({array(to), array(from), array(added)});
        EXPECT_TRUE(std::equal(added.begin(), added.end(), to.begin() + static_cast<std::ptrdiff_t>(half)));
        EXPECT_TRUE(std::equal(from.begin() + static_cast<std::ptrdiff_t>(half), from.end(), to.begin()));
        std::swap(from, to);
      }
    } catch (const DeviceError& e) {
      EXPECT_STRNE(device, "INTERP") << e.what();  // always here
    }
  }
}

TEST(Views, results_that_are_kept_stay_what_they_were) {  // C40
  KernelBuilder k;
  k.store(0, k.load(1, Int32, {1}) + 1);
  CompiledKernel next = compile(k.build(), {.device = "INTERP"});
  std::vector<std::vector<int32_t>> results = {{0}};
  for (int i = 0; i < 4; ++i) {
    results.push_back({-1});
    next.run({array(results.back()), array(results[results.size() - 2])});
  }
  EXPECT_EQ(results, (std::vector<std::vector<int32_t>>{{0}, {1}, {2}, {3}, {4}}));
}

TEST(Views, a_buffer_read_and_assigned_holds_the_new_value) {  // S8
  KernelBuilder k;                                             // a = a * 2 + b, at the same place
  Value a = k.load(0, Int32, {8});
  k.store(0, a * 2 + k.load(1, Int32, {8}));
  for (const char* opts : {"none", "heuristic", "UPCAST(0,4)"})
    for (const char* device : {"CPU", "CLANG", "INTERP"}) {
      try {
        CompiledKernel compiled = compile(k.build(), {.device = device, .opts = opts});
        std::vector<int32_t> values(8, 1), b(8, 2);
        compiled.run({array(values), array(b)});
        EXPECT_EQ(values, std::vector<int32_t>(8, 4)) << device << " " << opts;
      } catch (const DeviceError& e) {
        EXPECT_STRNE(device, "INTERP") << e.what();
      }
    }
}

TEST(Views, past_the_end_of_the_view_below_start_again) {
  const std::vector<std::pair<View, View>> stacks = {{make_view({2}, {1}), make_view({8}, {1})},
                                                     {make_view({2, 3}, {3, 1}), make_view({8}, {1})},
                                                     {make_view({3, 2}, {1, 3}), make_view({4, 2}, {2, 1})}};
  const auto element = [](size_t stack, size_t i) {
    if (stack == 2) return static_cast<int>((i / 2 % 3) + i % 2 * 3);
    return static_cast<int>(i % (stack == 0 ? 2 : 6));
  };
  for (size_t s = 0; s < stacks.size(); ++s) {
    SCOPED_TRACE(s);
    Graph g;
    const auto& [below, above] = stacks[s];
    UOp x = load(g, 1, Scalar::Int32, {{below, above}});
    expect_everywhere(kernel_of({store(g, 0, tracker(above.shape), x)}), {{1, count_up(Int32, s == 0 ? 2 : 6)}},
                      {{0, tabulate(Int32, 8, [&](size_t i) { return element(s, i); })}});
  }
}

TEST(Views, stores_under_a_mask_write_nothing_else) {
  Graph g;
  const ShapeTracker part{{make_view({8}, {1}, 0, Mask{{2, 6}})}};
  const KernelGraph kernel = kernel_of({store(g, 0, part, load(g, 1, Scalar::Int32, tracker({8})))});
  for (const char* target : {"clang", "llvm", "opencl", "cuda:sm_80"})
    for (const char* opts : {"none", "heuristic", "UPCAST(0,4)", "UPCAST(0,2)"}) {
      CompiledKernel compiled = compile(kernel, {.device = "INTERP", .target = target, .opts = opts});
      std::vector<int32_t> out(8, -1), in = {0, 1, 2, 3, 4, 5, 6, 7};
      compiled.run({array(out), array(in)});
      EXPECT_EQ(out, (std::vector<int32_t>{-1, -1, 2, 3, 4, 5, -1, -1})) << target << " " << opts;
    }
}

TEST(LaunchDims, over_the_limit_are_split_and_put_together_again) {  // S6
  // 65536 of 65535 allowed in the second dim of cuda
  KernelBuilder k;
  Value v = k.load(1, Int32, {2, 65536, 2}, {.strides = {1, 2, 131072}});
  k.store(0, v, {.strides = {131072, 1, 65536}});
  const size_t n = size_t{65536} * 4;
  const Elements want = tabulate(Int32, n, [](size_t at) {
    const size_t i = at / 131072, j = at % 65536, l = at / 65536 % 2;
    return i + j * 2 + l * 131072;
  });
  expect_everywhere(k.build(), {{1, count_up(Int32, n)}}, {{0, want}},
                    {.opts = {"LOCAL(1,2)", "UPCAST(1,4)"}, .few_opts = true});
}

/// x * 1.0001 + 1, `length` times.
TEST(DeepChains, compile_and_run) {  // S7
  for (int length : {400, 1500}) {
    SCOPED_TRACE(length);
    KernelBuilder k;
    Value v = k.load(1, Float, {1});
    double want = 1;
    for (int i = 0; i < length; ++i) {
      v = v * 1.0001 + 1;
      want = want * 1.0001 + 1;
    }
    k.store(0, v);
    for (const char* device : {"CPU", "CLANG", "INTERP"}) {
      try {
        CompiledKernel compiled = compile(k.build(), {.device = device});
        std::vector<float> in = {1}, out = {0};
        compiled.run({array(out), array(in)});
        EXPECT_NEAR(out[0], want, want * 1e-4) << device;
      } catch (const DeviceError& e) {
        EXPECT_STRNE(device, "INTERP") << e.what();
      }
    }
    for (const char* target : {"clang", "llvm"}) EXPECT_FALSE(render_source(k.build(), target).empty());
  }
}

TEST(DeepChains, of_choices_compile_and_run) {
  KernelBuilder k;
  Value v = k.load(1, Int32, {4});
  Value x = v;
  for (int i = 0; i < 600; ++i) x = where(less(x, 1000 + i), x + v, x - 7);
  k.store(0, x);
  const Elements in = ints(Int32, {1, 2, 3, 5});
  const Elements want = tabulate(Int32, 4, [&](size_t e) {
    const auto start = static_cast<int>(int_of_const(Scalar::Int32, in.values[e]));
    int value = start;
    for (int i = 0; i < 600; ++i) value = value < 1000 + i ? value + start : value - 7;
    return value;
  });
  expect_everywhere(k.build(), {{1, in}}, {{0, want}}, {.few_opts = true});
}

TEST(Variables, bound_the_length_of_a_reduce) {  // S8
  Graph g;
  UOp n = g.variable("n", 1, 10);
  const ShapeTracker rows{{make_view({4, SInt(n)}, {10, 1})}};
  UOp total = reduce(Op::Add, load(g, 1, Scalar::Int32, rows), {1});
  const KernelGraph kernel = kernel_of({store(g, 0, tracker({4, 1}), total)});
  for (int64_t value : {1, 2, 7, 10}) {
    SCOPED_TRACE(value);
    const Elements want = tabulate(Int32, 4, [&](size_t r) {
      int64_t sum = 0;
      for (int64_t i = 0; i < value; ++i) sum += static_cast<int64_t>(r) * 10 + i;
      return sum;
    });
    expect_everywhere(kernel, {{1, count_up(Int32, 40)}}, {{0, want}}, {.variables = {{"n", value}}});
  }
}

TEST(Variables, choose_an_element_of_an_axis) {  // S8: t[variable] of (32, 8, 4)
  Graph g;
  UOp at = g.variable("at", 0, 31);
  const ShapeTracker slice{{make_view({8, 4}, {4, 1}, SInt(at * int64_t{32}))}};
  const KernelGraph kernel = kernel_of({store(g, 0, tracker({8, 4}), load(g, 1, Scalar::Int32, slice))});
  for (int64_t value : {0, 7, 31}) {
    SCOPED_TRACE(value);
    expect_everywhere(kernel, {{1, count_up(Int32, 1024)}},
                      {{0, tabulate(Int32, 32, [&](size_t i) { return static_cast<int64_t>(i) + value * 32; })}},
                      {.variables = {{"at", value}}});
  }
}

TEST(Variables, bound_what_is_inside_a_mask) {  // S8
  Graph g;
  UOp n = g.variable("n", 0, 8);
  const ShapeTracker part{{make_view({8}, {1}, 0, Mask{{0, SInt(n)}})}};
  const KernelGraph kernel = kernel_of({store(g, 0, tracker({8}), load(g, 1, Scalar::Int32, part) + int64_t{1})});
  for (int64_t value : {0, 3, 8}) {
    SCOPED_TRACE(value);
    expect_everywhere(kernel, {{1, filled(Int32, 8, 5)}},
                      {{0, tabulate(Int32, 8, [&](size_t i) { return static_cast<int64_t>(i) < value ? 6 : 1; })}},
                      {.variables = {{"n", value}}});
  }
}

}  // namespace
}  // namespace quern
