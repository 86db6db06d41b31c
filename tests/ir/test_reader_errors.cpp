#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/error.h"

#include "ir/kernels.h"
#include "ir/text.h"

namespace quern {
namespace {

using testing::HasSubstr;

const std::string kFive = "UOp(Ops.CONST,dtypes.int,arg=5,src=())";
const std::string kHalfFive = "UOp(Ops.CONST,dtypes.half,arg=5.0,src=())";

TEST(ReaderErrors, tell_where_a_text_stops_being_a_kernel_and_what_was_expected) {
  struct Case {
    std::string text;
    int line, column;
    std::string expected;
  };
  for (const auto& [text, line, column, expected] : std::vector<Case>{
           {"", 1, 1, "\"UOp(\" or a node's name"},
           {"   \n  ", 2, 3, "\"UOp(\" or a node's name"},
           {"hello", 1, 1, "\"UOp(\" or a node's name"},
           {"UOp(Ops.FROB,dtypes.int,arg=None,src=())", 1, 9, "the name of an op"},
           {"UOp(Ops.CONST,dtypes.quad,arg=1,src=())", 1, 22, "the name of a dtype"},
           {"UOp(Ops.CONST,int,arg=1,src=())", 1, 15, "\"dtypes.\""},
           {"UOp(Ops.CONST,dtypes.int.vec(2).vec(2),arg=1,src=())", 1, 33, "a dtype of one lane before vec"},
           {"UOp(Ops.CONST,dtypes.int.vec(0),arg=1,src=())", 1, 30, "an integer from 1 to 65535"},
           {"UOp(Ops.CONST,dtypes.int.ptr().ptr(),arg=1,src=())", 1, 32, "a dtype of values before ptr"},
           {"UOp(Ops.CONST,dtypes.int.foo(),arg=1,src=())", 1, 26, "vec or ptr"},
           {"UOp(Ops.CONST,dtypes.int,\n  val=1,src=())", 2, 3, "\"arg\""},
           {"UOp(Ops.CONST,dtypes.int,arg=12345678901234567890123456789012,src=())", 1, 30,
            "an integer of at most 30 digits"},
           {"UOp(Ops.CONST,dtypes.float,arg=1e999,src=())", 1, 32, "a number in the range of double"},
           {"UOp(Ops.CONST,dtypes.float,arg=1.2.3,src=())", 1, 32, "a number"},
           {"UOp(Ops.CONST,dtypes.float,arg=infinity,src=())", 1, 32, "a number"},
           {"UOp(Ops.DEFINE_GLOBAL,dtypes.int.ptr(),arg=99999999999,src=())", 1, 44, "an integer from 0 to 2147483647"},
           {"UOp(Ops.DEFINE_VAR,dtypes.int,arg=(start,0,1),src=())", 1, 36, "a quoted string"},
           {"UOp(Ops.DEFINE_VAR,dtypes.int,arg=('start", 1, 42, "''' at the end of the string"},
           {"UOp(Ops.EXP2,dtypes.half,arg=None,src=(x0,))", 1, 40, "a name defined before its use (x0 is not)"},
           {"UOp(Ops.EXP2,dtypes.half,arg=None,src=(x0:=x1,))", 1, 44, "\"UOp(\""},
           {"x0:=UOp(Ops.EXP2,dtypes.half,arg=None,src=(x0,))", 1, 44,
            "a name defined before its use (x0 is used inside its own definition: a cycle)"},
           {"UOp(Ops.ADD,dtypes.int,arg=None,src=(x0:=" + kFive + ",x0:=" + kFive + ",))", 1, 81,
            "a name that is not taken (x0 is defined before)"},
           {kFive + " " + kFive, 1, 40, "the end of the text"},
           {kFive + ")", 1, 39, "the end of the text"},
           {"UOp(Ops.EXP2,dtypes.half,arg=None,src=(" + kHalfFive + ";))", 1, 81, "',' or ')'"},
       }) {
    SCOPED_TRACE(text);
    Graph graph;
    try {
      parse(graph, text);
      ADD_FAILURE() << "read without an error";
    } catch (const ParseError& e) {
      EXPECT_EQ(e.line(), line);
      EXPECT_EQ(e.column(), column);
      EXPECT_EQ(e.expected(), expected);
      EXPECT_THAT(e.what(), HasSubstr("line " + std::to_string(line) + ", column " + std::to_string(column)));
      EXPECT_THAT(e.what(), HasSubstr("expected " + expected + ", found "));
    } catch (const Error& e) {
      ADD_FAILURE() << "another error: " << e.what();
    }
  }
}

std::string with_view(const std::string& inside) {
  return "UOp(Ops.VIEW,dtypes.void,arg=ShapeTracker(views=(" + inside + ",)),src=())";
}

TEST(ReaderErrors, name_the_node_that_makes_no_sense_and_why) {
  struct Case {
    std::string text, message;
  };
  const std::string variable = "UOp(Ops.DEFINE_VAR,dtypes.int,arg=('n',-5,5),src=())";
  for (const auto& [text, message] : std::vector<Case>{
           {"UOp(Ops.ADD,dtypes.int,arg=None,src=(" + kFive + ",))", "[ADD] 1 source, not 2 (line 1, column 1)"},
           {"UOp(Ops.CONST,dtypes.int,arg=5,src=(" + kFive + ",))", "[CONST] 1 source, not 0"},
           {"UOp(Ops.ADD,dtypes.int,arg=None,src=(" + kFive + ",\n" + kHalfFive + ",))",
            "[ADD] source 1 (CONST) is dtypes.half, not dtypes.int (line 1, column 1)"},
           {"UOp(Ops.CMPLT,dtypes.int,arg=None,src=(" + kFive + "," + kFive + ",))",
            "[CMPLT] type is dtypes.int, not dtypes.bool"},
           {"UOp(Ops.EXP2,dtypes.int,arg=None,src=(" + kFive + ",))", "[EXP2] EXP2 is not defined on dtypes.int"},
           {"UOp(Ops.XOR,dtypes.half,arg=None,src=(" + kHalfFive + "," + kHalfFive + ",))",
            "[XOR] XOR is not defined on dtypes.half"},
           {"UOp(Ops.WHERE,dtypes.int,arg=None,src=(" + kFive + "," + kFive + "," + kFive + ",))",
            "[WHERE] source 0 (CONST) is dtypes.int, not dtypes.bool"},
           {"UOp(Ops.BITCAST,dtypes.half,arg=None,src=(" + kFive + ",))",
            "[BITCAST] source 0 (CONST) is dtypes.int, not 2 bytes"},
           {"UOp(Ops.VECTORIZE,dtypes.int.vec(3),arg=None,src=(" + kFive + "," + kFive + ",))",
            "[VECTORIZE] 2 sources for dtypes.int.vec(3)"},
           {"UOp(Ops.CONST,dtypes.int,arg=None,src=())", "[CONST] payload is None, not a number (line 1, column 30)"},
           {"UOp(Ops.CONST,dtypes.int,arg=1.5,src=())", "[CONST] 1.5 is not a value of dtypes.int"},
           {"UOp(Ops.CONST,dtypes.int,arg=nan,src=())", "[CONST] nan is not a value of dtypes.int"},
           {"UOp(Ops.CONST,dtypes.ulong,arg=18446744073709551616,src=())",
            "[CONST] 18446744073709551616 is not a value of dtypes.ulong"},
           {"UOp(Ops.CONST,dtypes.bool,arg=2,src=())", "[CONST] 2 is not a value of dtypes.bool"},
           {"UOp(Ops.CONST,dtypes.void,arg=2,src=())", "[CONST] a constant of dtypes.void"},
           {"UOp(Ops.CONST,dtypes.int.ptr(),arg=2,src=())", "[CONST] type is dtypes.int.ptr(), not of a value"},
           {"UOp(Ops.ADD,dtypes.int,arg=3,src=(" + kFive + "," + kFive + ",))", "[ADD] payload is a number, not None"},
           {"UOp(Ops.VIEW,dtypes.void,arg=(1,),src=())", "[VIEW] payload is a tuple, not a ShapeTracker"},
           {"UOp(Ops.DEFINE_GLOBAL,dtypes.int,arg=0,src=())",
            "[DEFINE_GLOBAL] type is dtypes.int, not a pointer or an image"},
           {"UOp(Ops.DEFINE_VAR,dtypes.int,arg=('a b',0,1),src=())", "[DEFINE_VAR] \"a b\" is not a name"},
           {"UOp(Ops.DEFINE_VAR,dtypes.int,arg=('n',2,1),src=())", "[DEFINE_VAR] n has no values: 2 to 1"},
           {"UOp(Ops.DEFINE_VAR,dtypes.char,arg=('n',0,300),src=())",
            "[DEFINE_VAR] n goes from 0 to 300, beyond dtypes.char"},
           {"UOp(Ops.REDUCE_AXIS,dtypes.int,arg=(Ops.SUB,(0,)),src=(" + kFive + ",))",
            "[REDUCE_AXIS] a reduce by SUB, not by ADD, MUL or MAX"},
           {"UOp(Ops.GEP,dtypes.int,arg=(4,),src=(UOp(Ops.CONST,dtypes.int.vec(4),arg=0,src=()),))",
            "[GEP] lane 4 of dtypes.int.vec(4)"},
           {"UOp(Ops.EXPAND,dtypes.int,arg=((0,3),),src=(UOp(Ops.CONST,dtypes.int.vec(4),arg=0,src=()),))",
            "[EXPAND] dtypes.int.vec(4) for axes of 3 elements of dtypes.int"},
           {"UOp(Ops.BUFFER,dtypes.int.ptr(),arg=None,src=())", "[BUFFER] not an op of kernels"},
           {"UOp(Ops.ENDRANGE,dtypes.void,arg=None,src=(" + kFive + ",))", "[ENDRANGE] ends a CONST, not a RANGE"},
           {with_view("View(shape=(2,3),strides=(1,),offset=0,mask=None,contiguous=False)"),
            "[VIEW] 1 strides for 2 axes"},
           {with_view("View(shape=(-2,),strides=(1,),offset=0,mask=None,contiguous=False)"),
            "[VIEW] a size that may be negative"},
           {with_view("View(shape=(" + variable + ",),strides=(1,),offset=0,mask=None,contiguous=False)"),
            "[VIEW] a size that may be negative"},
           {with_view("View(shape=(4,),strides=(1,),offset=0,mask=((0,5),),contiguous=False)"),
            "[VIEW] mask (0, 5) of an axis of 4"},
           {with_view("View(shape=(4,4),strides=(4,1),offset=0,mask=((0,4),),contiguous=False)"),
            "[VIEW] 1 mask ranges for 2 axes"},
           {with_view("View(shape=(4294967296,4294967296),strides=(0,0),offset=0,mask=None,contiguous=False)"),
            "[VIEW] more than 2^63 elements"},
           {with_view("View(shape=(4294967296,),strides=(4294967296,),offset=0,mask=None,contiguous=False)"),
            "[VIEW] reaches past 64 bits"},
           {"UOp(Ops.VIEW,dtypes.void,arg=ShapeTracker(views=()),src=())", "[VIEW] no views"},
           {with_view("View(shape=(UOp(Ops.LOAD,dtypes.int,arg=None,src=()),),strides=(1,),offset=0,mask=None,"
                      "contiguous=False)"),
            "[LOAD] not an op of symbolic ints"},
       }) {
    SCOPED_TRACE(text);
    Graph graph;
    try {
      parse(graph, text);
      ADD_FAILURE() << "read without an error";
    } catch (const InvalidKernel& e) {
      EXPECT_THAT(e.what(), HasSubstr(message));
    } catch (const Error& e) {
      ADD_FAILURE() << "another error: " << e.what();
    }
  }
}

TEST(ReaderErrors, come_for_a_text_cut_off_anywhere) {
  const std::string& text = test::kAddTwo;
  for (size_t n = 0; n < text.size(); ++n) {
    Graph graph;
    EXPECT_THROW(parse(graph, text.substr(0, n)), ParseError) << n;
  }
}

TEST(ReaderErrors, come_for_a_million_open_parentheses) {
  std::string text;
  for (int i = 0; i < 1000000; ++i) text += "UOp(Ops.EXP2,dtypes.half,arg=None,src=(";
  Graph graph;
  EXPECT_THROW(parse(graph, text), ParseError);
  EXPECT_THROW(parse(graph, std::string(1000000, '(')), ParseError);
}

}  // namespace
}  // namespace quern
