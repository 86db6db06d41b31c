#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "evaluate.h"
#include "ir/text.h"
#include "lower/index_types.h"
#include "lower/legalize_parts.h"
#include "lower/lower.h"
#include "lower/narrow_types.h"

namespace quern {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

const std::vector<Scalar>& machine_ints() {
  static const std::vector<Scalar> all = {Scalar::Int8,  Scalar::UInt8,  Scalar::Int16, Scalar::UInt16,
                                          Scalar::Int32, Scalar::UInt32, Scalar::Int64, Scalar::UInt64};
  return all;
}

UOp data(Graph& g, Scalar type, const char* name) {
  const bool is_int = (scalar_bit(type) & kMachineInts) != 0;
  const Int128 low = is_int ? min_value(type) : 0, high = is_int ? std::min<Int128>(max_value(type), INT64_MAX) : 0;
  return g.node(Op::DefineVar, type, {}, g.intern(VarArg{name, static_cast<int64_t>(low), static_cast<int64_t>(high)}));
}

/// As a kernel's value: legalize() takes a SINK of STOREs.
UOp legal(UOp value, const Target& target) {
  Graph& g = value.graph();
  UOp buffer = g.node(Op::DefineGlobal, value.dtype().ptr(), {}, int64_t{0});
  UOp index = g.node(Op::Index, buffer.dtype(), {buffer, g.const_index(0)});
  UOp sink = g.node(Op::Sink, Scalar::Void, {g.node(Op::Store, Scalar::Void, {index, value})});
  return legalize(sink, target).src(0).src(1);
}

bool uses(UOp root, OpSet ops) {
  for (UOp u : toposort(root))
    if (u.is(ops)) return true;
  return false;
}

/// Ints at and near the ends of the type, around zero, and random ones.
std::vector<ConstBits> samples_of_int(Scalar type, std::mt19937_64& random) {
  std::vector<ConstBits> out;
  for (Int128 end : {min_value(type), Int128{0}, max_value(type)})
    for (int d = -3; d <= 3; ++d) out.push_back(const_of_int(type, end + d));
  for (int i = 0; i < 12; ++i) out.push_back(const_of_int(type, static_cast<int64_t>(random()) >> (i * 5)));
  return out;
}

std::vector<ConstBits> samples_of_float(Scalar type, std::mt19937_64& random) {
  std::vector<ConstBits> out;
  for (double v :
       {0.0, -0.0, 1.0, -1.5, kInf, -kInf, std::nan(""), 65504.0, 65520.0, 3e38, -3e38, 1e-40, 6e-8, 0x1p-24, 0x1p-25})
    out.push_back(const_of_float(type, v));
  for (int i = 0; i < 40; ++i)
    out.push_back(const_of_float(type, std::ldexp(static_cast<double>(static_cast<int64_t>(random())),
                                                  -63 + static_cast<int>(random() % 36) - 18)));
  return out;
}

bool same_value(Scalar type, ConstBits a, ConstBits b) {
  if ((scalar_bit(type) & kFloats) && std::isnan(float_of_const(a)) && std::isnan(float_of_const(b))) return true;
  return a == b;
}

// ---- index types ----

TEST(IndexTypes, floor_division_survives_in_machine_ints) {
  struct Span {
    int64_t low, high;
  };
  const Span spans[] = {{0, 100},
                        {-50, 50},
                        {-7, -1},
                        {INT32_MIN, INT32_MAX},
                        {-5, INT32_MAX},
                        {-(int64_t{1} << 40), int64_t{1} << 40},
                        {INT64_MIN, INT64_MAX}};
  for (const Span& s : spans)
    for (int64_t d : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{8}, int64_t{7}, int64_t{-1}, int64_t{-3}, int64_t{-8},
                      int64_t{1000003}, int64_t{1} << 33})
      for (const char* target : {"clang", "ptx:sm_80"}) {
        Graph g;
        UOp x = g.variable("x", s.low, s.high), by = g.const_index(d),
            y = g.variable("y", std::min(d, int64_t{1}), std::max(d, int64_t{1}));
        for (UOp before : {x.idiv(by), x.mod(by), x.idiv(y), x.mod(y)}) {
          UOp after = legal(before.cast(Scalar::Int64), find_target(target));
          for (UOp u : toposort(after)) ASSERT_FALSE(u.dtype().is_index());
          for (int64_t v : {s.low, s.low + 1, s.high, s.high - 1, int64_t{0}, int64_t{-1}, int64_t{1}, int64_t{17},
                            int64_t{-17}, d, -d}) {
            if (v < s.low || v > s.high || (v == INT64_MIN && d == -1)) continue;
            Evaluator at;
            for (UOp u : toposort(after))
              if (u.is(Op::DefineVar)) at.set_int(u, std::get<const VarArg*>(u.arg())->name == "x" ? v : d);
            const Int128 want = before.is(Op::Idiv) ? floor_div(Int128{v}, Int128{d}) : floor_mod(Int128{v}, Int128{d});
            ASSERT_EQ(int_of_const(Scalar::Int64, at(after)), want)
                << print_infix(before) << " at " << v << ", " << d << " in [" << s.low << ", " << s.high << "]\n"
                << print(after);
          }
        }
      }
}

TEST(IndexTypes, a_power_of_two_shifts_whatever_the_sign_and_nothing_else_does) {
  Graph g;
  const Target& clang = find_target("clang");
  UOp x = g.variable("x", -9, 9);
  EXPECT_FALSE(uses(legal(x.idiv(g.const_index(4)).cast(Scalar::Int32), clang), {Op::Idiv}));
  EXPECT_FALSE(uses(legal(x.mod(g.const_index(4)).cast(Scalar::Int32), clang), {Op::Mod}));
  UOp i = data(g, Scalar::Int32, "i");
  EXPECT_TRUE(uses(legal(i.idiv(i.const_like(4)), clang), {Op::Idiv}));
  EXPECT_TRUE(uses(legal(i.mod(i.const_like(4)), clang), {Op::Mod}));
}

TEST(IndexTypes, what_passes_31_bits_is_64_bits_wide_and_nothing_else_is) {
  Graph g;
  UOp gid = g.node(Op::Special, Scalar::Index, {}, g.intern(SpecialArg{"gidx0", SInt(65536)}));
  UOp r = g.range(0, 65536, 0);
  struct Case {
    UOp index;
    Scalar want;
  };
  const Case cases[] = {{gid * 4 + r, Scalar::Int32},
                        {gid * 65536 + r, Scalar::Int64},
                        {(gid * 65536 + r).mod(g.const_index(100)), Scalar::Int32},
                        {(gid * 65536).idiv(g.const_index(65536)) + r, Scalar::Int32}};
  for (const Case& c : cases) {
    UOp buffer = g.node(Op::DefineGlobal, DType(Scalar::Float).ptr(), {}, int64_t{0});
    UOp store = g.node(Op::Store, Scalar::Void,
                       {g.node(Op::Index, buffer.dtype(), {buffer, c.index}), g.const_float(Scalar::Float, 1)});
    UOp after = lower_index_types(g.node(Op::Sink, Scalar::Void, {store}));
    EXPECT_EQ(after.src(0).src(0).src(1).dtype(), DType(c.want)) << print_infix(c.index);
    for (UOp u : toposort(after)) {
      EXPECT_FALSE(u.dtype().is_index());
      if (u.is({Op::Special, Op::Range})) {
        EXPECT_EQ(u.dtype(), DType(Scalar::Int32));
      }
    }
  }
}

TEST(IndexTypes, a_variable_used_as_data_too_stays_one_argument) {
  Graph g;
  UOp as_data = g.node(Op::DefineVar, Scalar::Int64, {}, g.intern(VarArg{"n", 1, 10})),
      as_index = g.variable("n", 1, 10);
  UOp after = legal(as_data + (as_index * 2).cast(Scalar::Int64), find_target("clang"));
  int variables = 0;
  for (UOp u : toposort(after)) variables += u.is(Op::DefineVar);
  EXPECT_EQ(variables, 1);
  EXPECT_EQ(after.dtype(), DType(Scalar::Int64));
}

TEST(IndexTypes, random_expressions_keep_their_value) {
  constexpr unsigned kSeed = 5;
  std::mt19937_64 random(kSeed);
  auto draw = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  for (int trial = 0; trial < 2000; ++trial) {
    Graph g;
    std::vector<UOp> pool;
    for (const char* name : {"a", "b", "c"}) {
      const int64_t low = draw(-100000, 100000);
      pool.push_back(g.variable(name, low, low + draw(0, 200000)));
    }
    for (int step = 0; step < 8; ++step) {
      UOp x = pool[static_cast<size_t>(draw(0, static_cast<int64_t>(pool.size()) - 1))],
          y = pool[static_cast<size_t>(draw(0, static_cast<int64_t>(pool.size()) - 1))];
      UOp c = g.const_index(draw(0, 3) ? draw(1, 20) : draw(-100000, -1)), made;
      switch (draw(0, 7)) {
        case 0: made = x + y; break;
        case 1: made = x * c; break;
        case 2: made = x.idiv(c); break;
        case 3: made = x.mod(c); break;
        case 4: made = x.max(y); break;
        case 5: made = x.lt(y).where(x, c); break;
        case 6: made = x.alu(Op::Sub, y); break;
        default: made = y.vmin() > 0 || y.vmax() < 0 ? x.idiv(y) : x + c; break;
      }
      if (made.vmin() > -(Int128{1} << 62) && made.vmax() < (Int128{1} << 62)) pool.push_back(made);
    }
    UOp before = pool.back().cast(Scalar::Int64), after = legal(before, find_target("clang"));
    for (int n = 0; n < 10; ++n) {
      Evaluator index, machine;
      std::map<std::string, int64_t> values;
      for (size_t i = 0; i < 3; ++i) {
        const VarArg& v = *std::get<const VarArg*>(pool[i].arg());
        index.set_int(pool[i], values[v.name] = draw(v.min, v.max));
      }
      for (UOp u : toposort(after))
        if (u.is(Op::DefineVar)) machine.set_int(u, values[std::get<const VarArg*>(u.arg())->name]);
      ASSERT_EQ(index(before).bits, machine(after).bits) << "seed " << kSeed << ", trial " << trial << "\n"
                                                         << print(before) << "\n"
                                                         << print(after);
    }
  }
}

// ---- forms ----

TEST(Legalize, keeps_the_value_of_every_op_on_every_int_and_uses_only_what_the_target_has) {
  constexpr unsigned kSeed = 3;
  std::mt19937_64 random(kSeed);
  for (const char* name : {"clang", "llvm", "cuda:sm_80", "ptx:sm_80", "metal"}) {
    const Target& target = find_target(name);
    for (Scalar type : machine_ints()) {
      Graph g;
      UOp x = data(g, type, "x"), y = data(g, type, "y");
      std::vector<UOp> exprs = {x + y,
                                x.alu(Op::Sub, y),
                                x.alu(Op::Neg),
                                x.max(y),
                                x * -1,
                                x * 8,
                                x.idiv(y),
                                x.mod(y),
                                x + y * -1,
                                x * y + x,
                                x.cast(Scalar::Bool),
                                x.cast(Scalar::Int64),
                                x.cast(Scalar::UInt8),
                                g.node(Op::Mulacc, type, {x, y, x})};
      for (int64_t c : {1, 2, 8, 64, 7, -1, -2, -8})
        for (Op op : {Op::Idiv, Op::Mod, Op::Mul}) exprs.push_back(x.alu(op, x.const_like(c)));
      for (UOp before : exprs) {
        UOp after = legal(before, target);
        for (UOp u : toposort(after)) {
          if (u.is(kAluOps)) {
            EXPECT_TRUE(target.native_ops.contains(u.op())) << name << " has no " << to_string(u.op());
          }
          if (u.is(Op::Cast)) {
            EXPECT_FALSE(u.dtype().is_bool());
          }
        }
        for (ConstBits a : samples_of_int(type, random))
          for (ConstBits b : samples_of_int(type, random)) {
            Evaluator at;
            at.set(x, a);
            at.set(y, b);
            ASSERT_EQ(at(before).bits, at(after).bits)
                << name << " seed " << kSeed << " " << print(before) << "\nbecomes " << print(after) << "\nat "
                << static_cast<int64_t>(a.bits) << ", " << static_cast<int64_t>(b.bits);
          }
      }
    }
  }
}

TEST(Legalize, keeps_the_value_of_every_op_on_every_float) {
  constexpr unsigned kSeed = 4;
  std::mt19937_64 random(kSeed);
  for (const char* name : {"clang", "llvm", "cuda:sm_75", "ptx:sm_80", "opencl"}) {
    const Target& target = find_target(name);
    for (Scalar type : {Scalar::Half, Scalar::BFloat16, Scalar::Float, Scalar::Double}) {
      Graph g;
      UOp x = data(g, type, "x"), y = data(g, type, "y");
      const UOp exprs[] = {x + y,
                           x * y,
                           x.alu(Op::Sub, y),
                           x.alu(Op::Neg),
                           x.alu(Op::Recip),
                           x.alu(Op::Sqrt),
                           x.lt(y),
                           x.ne(y),
                           x.lt(y).where(x, y),
                           x * -1,
                           x + y * -1,
                           (x * y) * x + y,
                           x.cast(Scalar::Bool),
                           x.cast(Scalar::Int32),
                           x.cast(Scalar::UInt8),
                           x.cast(Scalar::Int64),
                           x.cast(Scalar::Half),
                           x.cast(Scalar::BFloat16),
                           x.cast(Scalar::Float),
                           x.cast(Scalar::Double),
                           x + x.const_like_float(0.1)};
      for (UOp before : exprs) {
        UOp after = legal(before, target);
        for (UOp u : toposort(after)) {
          if (u.is(kAluOps)) {
            EXPECT_TRUE(target.native_ops.contains(u.op())) << name << " has no " << to_string(u.op());
          }
          for (Scalar narrow : target.emulated)
            if (u.is(kAluOps - OpSet{Op::Where})) {
              EXPECT_NE(u.src(0).dtype(), DType(narrow)) << name << " " << print(u);
            }
        }
        for (ConstBits a : samples_of_float(type, random))
          for (ConstBits b : samples_of_float(type, random)) {
            Evaluator at;
            at.set(x, a);
            at.set(y, b);
            ConstBits want = at(before), got = at(after);
            ASSERT_TRUE(same_value(before.dtype().scalar, want, got))
                << name << " seed " << kSeed << " " << print(before) << "\nbecomes " << print(after) << "\nat "
                << float_of_const(a) << ", " << float_of_const(b) << ": " << float_of_const(got) << ", not "
                << float_of_const(want);
          }
      }
    }
  }
}

TEST(Legalize, a_maximum_keeps_nan_on_either_side) {
  const double values[] = {0.0, -0.0, 1.0, -1.0, kInf, -kInf, std::nan("")};
  for (Scalar type : {Scalar::Half, Scalar::BFloat16, Scalar::Float, Scalar::Double}) {
    Graph g;
    UOp x = data(g, type, "x"), y = data(g, type, "y");
    for (double a : values)
      for (double b : values) {
        Evaluator at;
        at.set_float(x, a);
        at.set_float(y, b);
        const double want = std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b);
        for (UOp before : {x.max(y), x.max(x.const_like_float(b)), y.const_like_float(a).max(y)}) {
          const double got = float_of_const(at(legal(before, find_target("clang"))));
          EXPECT_TRUE(got == want || (std::isnan(got) && std::isnan(want)))
              << "max(" << a << ", " << b << ") is " << got;
        }
        // A rectifier gives 0, not -0.
        if (a == 0) {
          EXPECT_FALSE(std::signbit(float_of_const(at(legal(x.max(x.const_like_float(0.0)), find_target("clang"))))));
        }
      }
  }
}

TEST(Legalize, contracts_only_what_a_reduction_accumulates) {
  const Target& ptx = find_target("ptx:sm_80");
  Graph g;
  UOp x = data(g, Scalar::Float, "x"), y = data(g, Scalar::Float, "y");
  EXPECT_FALSE(uses(legal(x * y + x, ptx), {Op::Mulacc}));
  UOp r = g.range(0, 10, 0, true);
  UOp acc = g.node(Op::DefineAcc, Scalar::Float, {g.const_float(Scalar::Float, 0), r}, g.intern(Lanes{0}));
  UOp sum = g.node(Op::Assign, Scalar::Float, {acc, acc + x * (y + x * y)});
  UOp after = legal(sum, ptx);
  int contracted = 0;
  for (UOp u : toposort(after)) contracted += u.is(Op::Mulacc);
  EXPECT_EQ(contracted, 1);
  UOp i = data(g, Scalar::Int32, "i");
  EXPECT_TRUE(uses(legal(i * i + i, ptx), {Op::Mulacc}));
  EXPECT_FALSE(uses(legal(sum, find_target("clang")), {Op::Mulacc}));
}

TEST(NarrowTypes, casts_round_once_from_every_type) {
  constexpr unsigned kSeed = 6;
  std::mt19937_64 random(kSeed);
  for (Scalar to : {Scalar::Half, Scalar::BFloat16}) {
    for (Scalar from : machine_ints()) {
      Graph g;
      UOp x = data(g, from, "x"), after = round_to_narrow(x, to);
      for (int n = 0; n < 3000; ++n) {
        const ConstBits v = const_of_int(from, static_cast<int64_t>(random()) >> (random() % 60));
        Evaluator at;
        at.set(x, v);
        ASSERT_EQ(at(after), eval_cast(from, to, v))
            << to_string(from) << " to " << to_string(to) << " of " << static_cast<int64_t>(v.bits);
      }
    }
    // Doubles a hair's breadth off the middle between two values.
    Graph g;
    UOp x = data(g, Scalar::Double, "x"), after = round_to_narrow(x, to);
    const int bits = float_format(to).mantissa_bits;
    for (int n = 0; n < 3000; ++n) {
      const double whole = std::ldexp(
          static_cast<double>((1 << (bits + 1)) + 2 * static_cast<int>(random() % (1u << bits)) + 1), -bits - 1);
      const double off =
          std::ldexp(static_cast<double>(static_cast<int>(random() % 3) - 1), -40 - static_cast<int>(random() % 10));
      const double v = std::ldexp((whole + off) * (random() & 1 ? 1 : -1), static_cast<int>(random() % 60) - 40);
      Evaluator at;
      at.set_float(x, v);
      ASSERT_EQ(at(after), eval_cast(Scalar::Double, to, const_of_float(Scalar::Double, v)))
          << to_string(to) << " of " << v;
    }
  }
}

TEST(NarrowTypes, bfloat16_survives_the_way_to_float_and_back) {
  Graph g;
  UOp x = data(g, Scalar::BFloat16, "x");
  UOp wide = widen_to_float(x), back = round_to_narrow(wide, Scalar::BFloat16);
  for (uint64_t bits = 0; bits < 65536; ++bits) {
    const ConstBits v = from_memory_bits(Scalar::BFloat16, bits);
    Evaluator at;
    at.set(x, v);
    ASSERT_TRUE(same_value(Scalar::Float, at(wide), v)) << bits;
    ASSERT_TRUE(same_value(Scalar::Float, at(back), v)) << bits;
  }
}

TEST(Legalize, floats_become_ints_through_64_bits) {
  Graph g;
  UOp x = data(g, Scalar::Float, "x");
  struct Case {
    double value;
    int64_t want;
  };
  UOp byte = legal(x.cast(Scalar::UInt8), find_target("clang"));
  for (const Case& c : {Case{-2, 254}, Case{-1.5, 255}, Case{-0.5, 0}, Case{300, 44}}) {
    Evaluator at;
    at.set_float(x, c.value);
    EXPECT_EQ(int_of_const(Scalar::UInt8, at(byte)), c.want) << c.value;
  }
  for (UOp u : toposort(byte))
    if (u.is(Op::Cast) && u.src(0).dtype().is_float()) {
      EXPECT_EQ(u.dtype(), DType(Scalar::Int64));
    }
}

TEST(Legalize, vectors_are_spelled_out) {
  Graph g;
  ConstVector lanes;
  for (double v : {1.0, 2.0, 3.0, 4.0}) lanes.push_back(const_of_float(Scalar::Float, v));
  UOp vector = g.const_vector(DType(Scalar::Float, 4), lanes);
  UOp after = legal(vector, find_target("clang"));
  EXPECT_TRUE(after.is(Op::Vectorize));
  EXPECT_FALSE(uses(after, {Op::Vconst}));
  UOp splat = legal(g.const_float(DType(Scalar::Float, 4), 1.5), find_target("clang"));
  EXPECT_TRUE(splat.is(Op::Vectorize));
  EXPECT_EQ(splat.src(0), g.const_float(Scalar::Float, 1.5));
}

}  // namespace
}  // namespace quern
