// Texts that are no kernels, or none that make sense: each is refused with the type and message that say why, at compile() at the
// latest, for every target and under opts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "errors.h"

namespace quern {
namespace {

using test::Outcome;
using test::outcome_of;
using testing::AnyOf;
using testing::HasSubstr;

std::string view(const std::string& shape, const std::string& strides, const std::string& offset = "0",
                 const std::string& mask = "None") {
  return "UOp(Ops.VIEW,dtypes.void,arg=ShapeTracker(views=(View(shape=" + shape + ",strides=" + strides +
         ",offset=" + offset + ",mask=" + mask + ",contiguous=False),)),src=())";
}
std::string global(const std::string& number, const std::string& type = "int") {
  return "UOp(Ops.DEFINE_GLOBAL,dtypes." + type + ".ptr(),arg=" + number + ",src=())";
}
std::string load(const std::string& v, const std::string& number = "1", const std::string& type = "int") {
  return "UOp(Ops.LOAD,dtypes." + type + ",arg=None,src=(" + global(number, type) + "," + v + ",))";
}
std::string store(const std::string& v, const std::string& value, const std::string& number = "0",
                  const std::string& type = "int") {
  return "UOp(Ops.STORE,dtypes.void,arg=None,src=(" + global(number, type) + "," + v + "," + value + ",))";
}
std::string sink(const std::string& stores) { return "UOp(Ops.SINK,dtypes.void,arg=None,src=(" + stores + ",))"; }
std::string alu(const std::string& op, const std::string& type, const std::string& sources) {
  return "UOp(Ops." + op + ",dtypes." + type + ",arg=None,src=(" + sources + ",))";
}
std::string reduce(const std::string& axes, const std::string& value, const std::string& type = "int") {
  return "UOp(Ops.REDUCE_AXIS,dtypes." + type + ",arg=(Ops.ADD," + axes + "),src=(" + value + ",))";
}

const std::string kFour = view("(4,)", "(1,)"), kOne = view("(1,)", "(0,)"), kEight = view("(8,)", "(1,)");
const std::string kTwoByFour = view("(2,4)", "(4,1)");
const std::string kInt = "UOp(Ops.CONST,dtypes.int,arg=3,src=())", kReal = "UOp(Ops.CONST,dtypes.float,arg=3.0,src=())";

struct Case {
  const char* what;
  std::string text;
  const char* type;
  const char* message;
};

void expect_refused(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    for (const char* target : {"clang", "llvm", "opencl", "cuda:sm_80"})
      for (const char* opts : {"none", "heuristic"}) {
        const Outcome o = outcome_of(
            [&] { compile(KernelGraph::from_text(c.text), {.device = "INTERP", .target = target, .opts = opts}); });
        EXPECT_EQ(o.type, c.type) << target << ", " << opts << ": " << o.message;
        EXPECT_THAT(o.message, HasSubstr(c.message)) << target << ", " << opts;
      }
  }
}

TEST(Kernels, that_are_no_texts_of_kernels_are_refused) {
  const std::string good = sink(store(kFour, load(kFour)));
  ASSERT_EQ(outcome_of([&] { compile(KernelGraph::from_text(good), {.device = "INTERP"}); }).type, "none");
  expect_refused({
      {"nothing", "", "ParseError", "line 1, column 1"},
      {"blanks", " \n\t ", "ParseError", "line 2"},
      {"a number", "42", "ParseError", "expected"},
      {"another language", "int main() { return 0; }", "ParseError", "expected"},
      {"an unknown op", "UOp(Ops.FROBNICATE,dtypes.void,arg=None,src=())", "ParseError", "FROBNICATE"},
      {"an unknown type", "UOp(Ops.CONST,dtypes.quad,arg=1,src=())", "ParseError", "quad"},
      {"a name never made", sink("x7"), "ParseError", "x7"},
      {"zero bytes", std::string("UOp(\0\0\0", 7), "ParseError", "expected"},
      {"bytes of no text", "UOp(\xff\xfe", "ParseError", "found \"??\""},
      {"a character cut off", "UOp(\xe2\x82", "ParseError", "found \"??\""},
      {"a character of three bytes", "UOp(\xe2\x82\xac", "ParseError", "found \"\xe2\x82\xac\""},
      {"a terminal's commands", "UOp(\x1b[2J\xc2\x9b", "ParseError", "found \"?[2J??\""},
      {"two kernels", good + good, "ParseError", "the end of the text"},
  });
}

TEST(Kernels, cut_off_anywhere_are_refused) {
  const std::string good = sink(store(kFour, alu("ADD", "int", reduce("(0,)", load(kFour)) + "," + kInt)));
  for (size_t n = 0; n < good.size(); ++n)
    EXPECT_EQ(outcome_of([&] { KernelGraph::from_text(good.substr(0, n)); }).type, "ParseError") << n;
}

TEST(Kernels, with_a_character_changed_are_refused_or_read) {
  const std::string good = sink(store(kOne, reduce("(0,)", load(kFour))));
  const std::string with = "(),9-x\0 =.";
  for (size_t n = 0; n < good.size(); ++n)
    for (char c : with) {
      std::string bad = good;
      bad[n] = c;
      const Outcome o = outcome_of([&] { compile(KernelGraph::from_text(bad), {.device = "INTERP"}); });
      EXPECT_THAT(o.type, AnyOf("none", "ParseError", "InvalidKernel")) << bad << "\n" << o.message;
    }
}

TEST(Kernels, that_are_ill_typed_are_refused) {
  const std::string a = load(kFour), f = load(kFour, "2", "float");
  expect_refused({
      {"operands of two types", sink(store(kFour, alu("ADD", "int", a + "," + f))), "InvalidKernel", "[ADD]"},
      {"a result of another type", sink(store(kFour, alu("ADD", "float", a + "," + a), "0", "float")), "InvalidKernel",
       "[ADD]"},
      {"a comparison of two types", sink(store(kFour, alu("CMPLT", "bool", a + "," + f), "0", "bool")), "InvalidKernel",
       "[CMPLT] source 1 (LOAD) is dtypes.float, not dtypes.int"},
      {"a comparison that gives an int", sink(store(kFour, alu("CMPNE", "int", a + "," + a))), "InvalidKernel",
       "[CMPNE] type is dtypes.int, not dtypes.bool"},
      {"a choice by an int", sink(store(kFour, alu("WHERE", "int", a + "," + a + "," + a))), "InvalidKernel",
       "[WHERE] source 0 (LOAD) is dtypes.int, not dtypes.bool"},
      {"one operand of two", sink(store(kFour, alu("MUL", "int", a))), "InvalidKernel", "[MUL] 1 source, not 2"},
      {"three operands of two", sink(store(kFour, alu("MUL", "int", a + "," + a + "," + a))), "InvalidKernel",
       "[MUL] 3 sources, not 2"},
      {"a sine of ints", sink(store(kFour, alu("SIN", "int", a))), "InvalidKernel",
       "[SIN] SIN is not defined on dtypes.int"},
      {"a remainder of floats", sink(store(kFour, alu("MOD", "float", f + "," + f), "0", "float")), "InvalidKernel",
       "[MOD]"},
      {"bits of another size", sink(store(kFour, alu("BITCAST", "half", a), "0", "half")), "InvalidKernel",
       "[BITCAST]"},
      {"a load of another type",
       sink(store(kFour, "UOp(Ops.LOAD,dtypes.float,arg=None,src=(" + global("1") + "," + kFour + ",))", "0", "float")),
       "InvalidKernel", "[LOAD] type is dtypes.float, not dtypes.int"},
      {"a store of another type", sink(store(kFour, f)), "InvalidKernel",
       "[STORE] value is dtypes.float, not dtypes.int"},
      {"arithmetic on a buffer", sink(store(kFour, alu("ADD", "int", global("1") + "," + a))), "InvalidKernel",
       "[ADD]"},
      {"arithmetic on a view", sink(store(kFour, alu("ADD", "int", kFour + "," + a))), "InvalidKernel", "[ADD]"},
      {"a vector stored",
       sink(store(kFour, "UOp(Ops.VECTORIZE,dtypes.int.vec(2),arg=None,src=(" + a + "," + a + ",))")), "InvalidKernel",
       "[VECTORIZE]"},
      {"a constant of no value", sink(store(kFour, "UOp(Ops.CONST,dtypes.int,arg=None,src=())")), "InvalidKernel",
       "[CONST]"},
      {"a float as an int", sink(store(kFour, "UOp(Ops.CONST,dtypes.int,arg=1.5,src=())")), "InvalidKernel", "[CONST]"},
  });
}

TEST(Kernels, of_wrong_structure_are_refused) {
  const std::string a = load(kFour);
  expect_refused({
      {"a constant alone", kInt, "InvalidKernel", "SINK"},
      {"no stores", "UOp(Ops.SINK,dtypes.void,arg=None,src=())", "InvalidKernel", "stores nothing"},
      {"a value in the sink", sink(a), "InvalidKernel", "not a STORE"},
      {"a sink in a sink", sink(sink(store(kFour, a))), "InvalidKernel", "not a STORE"},
      {"a store without a view", sink("UOp(Ops.STORE,dtypes.void,arg=None,src=(" + global("0") + "," + a + ",))"),
       "InvalidKernel", "[STORE]"},
      {"a load without a view", sink(store(kFour, "UOp(Ops.LOAD,dtypes.int,arg=None,src=(" + global("1") + ",))")),
       "InvalidKernel", "[LOAD]"},
      {"a load of a constant",
       sink(store(kFour, "UOp(Ops.LOAD,dtypes.int,arg=None,src=(" + kInt + "," + kFour + ",))")), "InvalidKernel",
       "[LOAD]"},
      {"a valid without a view",
       sink(store(kFour, "UOp(Ops.VALID,dtypes.bool,arg=None,src=(" + kInt + ",))", "0", "bool")), "InvalidKernel",
       "[VALID]"},
      {"a range", sink(store(kFour, "UOp(Ops.RANGE,dtypes.int,arg=(0,False),src=(" + kInt + "," + kInt + ",))")),
       "InvalidKernel", "[RANGE]"},
      {"an index",
       sink(store(kFour, "UOp(Ops.INDEX,dtypes.int.ptr(),arg=None,src=(" + global("1") + "," + kInt + ",))")),
       "InvalidKernel", ""},
      {"a special", sink(store(kFour, "UOp(Ops.SPECIAL,dtypes.int,arg=('gidx0',4),src=())")), "InvalidKernel",
       "[SPECIAL]"},
      {"a negative buffer number", sink(store(kFour, load(kFour, "-1"))), "ParseError", "-1"},
      {"a huge buffer number", sink(store(kFour, load(kFour, "9223372036854775807"))), "ParseError",
       "9223372036854775807"},
      {"one buffer, two types",
       sink(store(kFour, alu("CAST", "int", load(kFour, "1", "float"))) + "," +
            store(kFour, load(kFour, "1", "int"), "2")),
       "InvalidKernel", "buffer 1"},
      {"an output twice", sink(store(kFour, a) + "," + store(kFour, alu("ADD", "int", a + "," + kInt))),
       "InvalidKernel", "buffer 0"},
      {"the same store twice", sink(store(kFour, a) + "," + store(kFour, a)), "InvalidKernel", "the same store twice"},
      {"a view of a value",
       sink(store(kFour,
                  "UOp(Ops.VIEW,dtypes.int,arg=ShapeTracker(views=(View(shape=(4,),strides=(1,),offset=0,mask="
                  "None,contiguous=True),)),src=(" +
                      a + ",))")),
       "InvalidKernel", "[verify] VIEW"},
      {"one variable, two bounds",
       sink(store(kFour, alu("ADD", "int",
                             "UOp(Ops.DEFINE_VAR,dtypes.int,arg=('n',0,3),src=()),UOp(Ops.DEFINE_VAR,dtypes.int,"
                             "arg=('n',0,5),src=())"))),
       "InvalidKernel", "n"},
  });
}

TEST(Kernels, of_shapes_that_do_not_fit_are_refused) {
  const std::string a = load(kFour);
  expect_refused({
      {"values of two shapes", sink(store(kFour, alu("ADD", "int", a + "," + load(kEight, "2")))), "InvalidKernel",
       "(4,) and (8,)"},
      {"values of two ranks", sink(store(kFour, alu("ADD", "int", a + "," + load(view("(2,2)", "(2,1)"), "2")))),
       "InvalidKernel", "(4,) and (2, 2)"},
      {"a value of another shape than its store", sink(store(kEight, a)), "InvalidKernel", "(8,) and (4,)"},
      {"a sum stored as it was", sink(store(kFour, reduce("(0,)", a))), "InvalidKernel", "(4,) and (1,)"},
      {"an axis there is not", sink(store(kOne, reduce("(3,)", a))), "InvalidKernel", "axis 3 of the shape (4,)"},
      {"a negative axis", sink(store(kOne, reduce("(-1,)", a))), "InvalidKernel", "axis -1"},
      {"an axis twice", sink(store(kOne, reduce("(0,0)", a))), "InvalidKernel", "axis 0 twice"},
      {"a reduce of a constant", sink(store(kOne, reduce("(0,)", kInt))), "InvalidKernel", "without a shape"},
      {"a sum of a sum's axis",
       sink(store(kOne, alu("ADD", "int", reduce("(0,)", a) + "," + reduce("(0,)", load(kEight, "2"))))),
       "InvalidKernel", "4"},
      {"outputs of two sizes", sink(store(kFour, a) + "," + store(kEight, load(kEight, "2"), "3")), "InvalidKernel",
       "8 elements"},
      {"no axes", sink(store(view("()", "()"), load(view("()", "()")))), "none", ""},
      {"more strides than axes", sink(store(kFour, load(view("(4,)", "(1,1)")))), "InvalidKernel",
       "2 strides for 1 axes"},
      {"a negative size", sink(store(kFour, load(view("(-4,)", "(1,)")))), "InvalidKernel", "negative"},
      {"no elements", sink(store(view("(0,)", "(1,)"), load(view("(0,)", "(1,)")))), "InvalidKernel", "(0,)"},
      {"no elements to sum", sink(store(kOne, reduce("(0,)", load(view("(0,)", "(1,)"))))), "InvalidKernel", "(0,)"},
      {"a mask past its axis", sink(store(kFour, load(view("(4,)", "(1,)", "0", "((0,5),)")))), "InvalidKernel",
       "mask (0, 5) of an axis of 4"},
      {"a mask that ends before it begins", sink(store(kFour, load(view("(4,)", "(1,)", "0", "((3,1),)")))),
       "InvalidKernel", "mask (3, 1)"},
      {"a mask from before the axis", sink(store(kFour, load(view("(4,)", "(1,)", "0", "((-1,2),)")))), "InvalidKernel",
       "mask (-1, 2)"},
      {"a mask of other axes", sink(store(kFour, load(view("(4,)", "(1,)", "0", "((0,4),(0,4))")))), "InvalidKernel",
       "2 mask ranges for 1 axes"},
      {"a read before the buffer", sink(store(kFour, load(view("(4,)", "(1,)", "-2")))), "InvalidKernel",
       "element -2 of buffer 1"},
      {"a read before the buffer by a stride", sink(store(kFour, load(view("(4,)", "(-1,)", "1")))), "InvalidKernel",
       "-2"},
      {"a write before the buffer", sink(store(view("(4,)", "(1,)", "-1"), a)), "InvalidKernel", "-1"},
      {"a write of several values to a place", sink(store(view("(4,)", "(0,)"), a)), "InvalidKernel", "same element"},
      {"a write of more values than places", sink(store(view("(2,4)", "(1,1)"), load(kTwoByFour))), "InvalidKernel",
       "same element: shape (2, 4), strides (1, 1)"},
      {"a write where two axes meet", sink(store(view("(4,4)", "(2,3)"), load(view("(4,4)", "(4,1)")))),
       "InvalidKernel", "same element"},
      {"a write backwards where two axes meet", sink(store(view("(4,4)", "(-2,3)", "6"), load(view("(4,4)", "(4,1)")))),
       "InvalidKernel", "same element"},
      {"a write of axes that never meet", sink(store(view("(2,4)", "(2,5)"), load(kTwoByFour))), "none", ""},
      {"a write of a mask's one row", sink(store(view("(2,4)", "(1,1)", "0", "((0,1),(0,4))"), load(kTwoByFour))),
       "none", ""},
  });
}

TEST(Kernels, of_sizes_past_64_bits_are_refused) {
  const std::string max = "9223372036854775807";
  expect_refused({
      {"2^64 elements", sink(store(kFour, load(view("(4294967296,4294967296)", "(0,0)")))), "InvalidKernel", "2^63"},
      {"a size past 64 bits", sink(store(kFour, load(view("(99999999999999999999,)", "(1,)")))), "ParseError", ""},
      {"a size of 40 digits", sink(store(kFour, load(view("(" + std::string(40, '9') + ",)", "(1,)")))), "ParseError",
       ""},
      {"a stride to past 64 bits", sink(store(kFour, load(view("(4,)", "(" + max + ",)")))), "InvalidKernel",
       "64 bits"},
      {"an offset to past 64 bits", sink(store(kFour, load(view("(4,)", "(1,)", max)))), "InvalidKernel", "64 bits"},
      {"an output of 2^62 elements twice",
       sink(store(view("(4611686018427387904,2)", "(2,1)"), load(view("(4611686018427387904,2)", "(2,1)")))),
       "InvalidKernel", "2^63"},
  });
}

TEST(Kernels, that_are_huge_are_compiled_or_refused) {
  // 2^62 elements: more than any memory, but a kernel.
  const std::string huge = view("(4611686018427387904,)", "(1,)");
  for (const char* target : {"clang", "opencl", "cuda:sm_80"})
    for (const char* opts : {"none", "heuristic"}) {
      const Outcome o = outcome_of([&] {
        compile(KernelGraph::from_text(sink(store(huge, load(huge)))),
                {.device = "INTERP", .target = target, .opts = opts});
      });
      EXPECT_THAT(o.type, AnyOf("none", "InvalidKernel")) << target << ": " << o.message;
    }
}

TEST(Kernels, nested_ever_so_deep_are_read_compiled_and_freed) {
  std::string value = load(kFour), close;
  std::string open;
  for (int i = 0; i < 20000; ++i) {
    open += "UOp(Ops.XOR,dtypes.int,arg=None,src=(";
    close += ",UOp(Ops.CONST,dtypes.int,arg=" + std::to_string(i + 1) + ",src=()),))";
  }
  const std::string text = sink(store(kFour, open + value + close));
  EXPECT_EQ(outcome_of([&] { compile(KernelGraph::from_text(text), {.device = "INTERP"}); }).message, "");
  EXPECT_EQ(outcome_of([&] { KernelGraph::from_text(open); }).type, "ParseError");
}

}  // namespace
}  // namespace quern
