#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/error.h"

#include "ir/kernels.h"
#include "ir/spec.h"
#include "ir/text.h"

namespace quern {
namespace {

using testing::HasSubstr;

template <class E, class F>
void expect_error(F&& run, const std::string& message) {
  try {
    run();
    ADD_FAILURE() << "no error, not: " << message;
  } catch (const E& e) {
    EXPECT_THAT(e.what(), HasSubstr(message));
  }
}

/// out[0] = sum of in[i] over 4 elements, as a linear program.
struct Program {
  Graph g;
  UOp zero = g.const_int(Scalar::Int32, 0), four = g.const_int(Scalar::Int32, 4);
  UOp out = g.node(Op::DefineGlobal, DType(Scalar::Float).ptr(), {}, int64_t{0});
  UOp in = g.node(Op::DefineGlobal, DType(Scalar::Float).ptr(), {}, int64_t{1});
  UOp start = g.const_float(Scalar::Float, 0);
  UOp range = g.node(Op::Range, Scalar::Int32, {zero, four}, RangeArg{0, true});
  UOp acc = g.node(Op::DefineAcc, Scalar::Float, {start, range}, g.intern(Lanes{0}));
  UOp address = g.node(Op::Index, in.dtype(), {in, range});
  UOp load = g.node(Op::Load, Scalar::Float, {address});
  UOp sum = acc + load;
  UOp assign = g.node(Op::Assign, Scalar::Float, {acc, sum});
  UOp end = g.node(Op::Endrange, Scalar::Void, {range});
  UOp place = g.node(Op::Index, out.dtype(), {out, zero});
  UOp store = g.node(Op::Store, Scalar::Void, {place, assign});
  std::vector<UOp> uops = {zero, four, out, in, start, range, acc, address, load, sum, assign, end, place, store};
};

TEST(LinearSpec, accepts_a_loop_over_an_accumulator) {
  Program p;
  EXPECT_NO_THROW(verify(p.uops, Spec::Linear));
}

TEST(LinearSpec, refuses_a_program_out_of_order) {
  Program p;
  auto without = [&](UOp u) {
    std::vector<UOp> uops = p.uops;
    std::erase(uops, u);
    return uops;
  };
  auto swapped = [&](size_t i, size_t j) {
    std::vector<UOp> uops = p.uops;
    std::swap(uops[i], uops[j]);
    return uops;
  };
  auto run = [](std::vector<UOp> uops) { return [uops = std::move(uops)] { verify(uops, Spec::Linear); }; };
  expect_error<InternalError>(run(without(p.end)), "[RANGE] never closed");
  expect_error<InternalError>(run(without(p.load)), "[ADD] before its source LOAD");
  expect_error<InternalError>(run(swapped(8, 9)), "[ADD] before its source LOAD");
  std::vector<UOp> twice = p.uops;
  twice.push_back(p.zero);
  expect_error<InternalError>(run(twice), "[CONST] twice in the program");
  twice.back() = p.g.node(Op::Endif, Scalar::Void, {p.g.node(Op::If, Scalar::Void, {p.g.const_bool(true)})});
  expect_error<InternalError>(run(twice), "[ENDIF] before its source IF");
}

TEST(LinearSpec, refuses_what_renderers_do_not_know) {
  Program p;
  Graph& g = p.g;
  UOp vec = g.node(Op::Vectorize, DType(Scalar::Float, 2), {p.start, p.start});
  struct Case {
    std::vector<UOp> uops;
    const char* message;
  };
  const Case cases[] = {
      {{g.const_index(3)}, "[CONST] type is dtypes.index"},
      {{g.view({{View{{4}, {1}, 0, std::nullopt, true}}})}, "[VIEW] not an op of this stage"},
      {{p.start, vec, vec + vec}, "[ADD] a value of dtypes.float.vec(2), not of one lane"},
      {{g.const_float(DType(Scalar::Float, 2), 1)}, "[CONST] a value of dtypes.float.vec(2), not of one lane"},
      {{g.variable("n", 0, 3, Scalar::Int8)}, "[DEFINE_VAR] type is dtypes.char, not dtypes.int or dtypes.long"},
      {{p.start, g.node(Op::DefineAcc, Scalar::Float, {p.start}, g.intern(Lanes{0}))}, "[DEFINE_ACC] no RANGE"},
      {{p.start, vec, g.node(Op::Gep, vec.dtype(), {vec}, g.intern(Lanes{1, 0}))}, "[GEP] takes 2 lanes"},
      {{p.in, p.start, g.node(Op::Store, Scalar::Void, {p.in, p.start})},
       "[STORE] source 0 is a DEFINE_GLOBAL, not an INDEX or a CAST of one"},
      {{p.in, p.zero, g.node(Op::Index, p.in.dtype(), {p.in, p.zero, g.const_bool(true)})},
       "[INDEX] a gate that belongs to the LOAD or STORE"},
      {{p.in, p.zero, p.start, g.node(Op::Index, p.in.dtype(), {p.in, p.zero}),
        g.node(Op::Load, Scalar::Float, {g.node(Op::Index, p.in.dtype(), {p.in, p.zero}), p.start})},
       "[LOAD] an alternative without a gate"},
  };
  for (const Case& c : cases) expect_error<InternalError>([&] { verify(c.uops, Spec::Linear); }, c.message);
}

TEST(KernelSpec, accepts_a_kernel_and_refuses_what_is_none) {
  Graph g;
  UOp kernel = parse(g, test::kAddTwo);
  EXPECT_NO_THROW(verify(kernel, Spec::KernelAst));
  UOp store = kernel.src(0), view = store.src(1), value = store.src(2);
  UOp ints = g.node(Op::DefineGlobal, DType(Scalar::Int32).ptr(), {}, int64_t{0});
  auto sink = [&](UOp s) { return g.node(Op::Sink, Scalar::Void, {s}); };
  auto check = [](UOp root) { return [root] { verify(root, Spec::KernelAst); }; };
  expect_error<InvalidKernel>(check(store), "[STORE] the root is not a SINK");
  expect_error<InvalidKernel>(check(g.node(Op::Sink, Scalar::Void)), "[SINK] a kernel that stores nothing");
  expect_error<InvalidKernel>(check(sink(value)), "[SINK] source 0 is a ADD, not a STORE");
  expect_error<InvalidKernel>(check(sink(kernel)), "[SINK] source 0 is a SINK, not a STORE");
  expect_error<InvalidKernel>(check(sink(g.node(Op::Store, Scalar::Void, {ints, view, value}))),
                              "[STORE] value is dtypes.float, not dtypes.int");
  expect_error<InvalidKernel>(check(sink(g.node(Op::Store, Scalar::Void, {store.src(0), value}))),
                              "[STORE] source 1 is a ADD, not a VIEW");
  expect_error<InvalidKernel>(check(sink(g.node(Op::Store, Scalar::Void, {store.src(0), view}))),
                              "[STORE] 2 sources, not 3");
  UOp range = g.range(0, 4, 0).cast(Scalar::Float);
  expect_error<InvalidKernel>(check(sink(g.node(Op::Store, Scalar::Void, {store.src(0), view, range}))),
                              "[RANGE] not an op of this stage");
}

}  // namespace
}  // namespace quern
