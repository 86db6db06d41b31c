#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/error.h"

#include "ir/kernels.h"
#include "ir/spec.h"
#include "ir/text.h"

namespace quern {
namespace {

using test::kAddTwo;

std::string node_text(std::string_view op, std::string_view dtype, std::string_view arg, std::string_view src = "") {
  return "UOp(Ops." + std::string(op) + "," + std::string(dtype) + ",arg=" + std::string(arg) + ",src=(" +
         std::string(src) + "))";
}

std::string without_spaces(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  return text;
}

/// Prints as it was read, in both styles, and reads back as the same node.
void expect_round_trip(const std::string& text) {
  SCOPED_TRACE(text.substr(0, 400));
  Graph graph;
  UOp root = parse(graph, text);
  const std::string flat = print(root), indented = print(root, TextStyle::Indented);
  EXPECT_EQ(flat, text);
  EXPECT_EQ(parse(graph, flat), root);
  EXPECT_EQ(parse(graph, indented), root);
  EXPECT_EQ(without_spaces(indented), flat);
  Graph other;
  EXPECT_EQ(print(parse(other, indented)), flat);
}

TEST(Reader, gives_back_what_it_read_for_every_kind_of_payload) {
  const std::string acc_start = node_text("CONST", "dtypes.float", "0.0") + ",";
  const std::string ptr = node_text("DEFINE_GLOBAL", "dtypes.half.ptr()", "3");
  const std::string vec4 = node_text("NOOP", "dtypes.float.vec(4)", "None");
  const std::string vec2 = node_text("NOOP", "dtypes.half.vec(2)", "None");
  const std::string zero = node_text("CONST", "dtypes.index", "0"), ten = node_text("CONST", "dtypes.index", "10");
  for (const std::string& text : {
           kAddTwo,
           ptr,
           node_text("DEFINE_GLOBAL", "dtypes.imageh((1239,256,4))", "1"),
           node_text("DEFINE_GLOBAL", "dtypes.imagef((8,4,4))", "0"),
           node_text("DEFINE_LOCAL", "dtypes.float.vec(4).ptr(local=True)", "('temp1',256)"),
           node_text("DEFINE_VAR", "dtypes.int", "('start_pos',1,128)"),
           node_text("DEFINE_VAR", "dtypes.index", "('n',-3,128)"),
           node_text("SPECIAL", "dtypes.index", "('gidx0',16)"),
           node_text("SPECIAL", "dtypes.int", "('lidx1'," + node_text("DEFINE_VAR", "dtypes.int", "('n',1,4)") + ")"),
           node_text("RANGE", "dtypes.index", "(2,True)", zero + "," + ten + ","),
           node_text("GEP", "dtypes.float", "(3,)", vec4 + ","),
           node_text("GEP", "dtypes.float.vec(2)", "(1,0)", vec4 + ","),
           node_text("VCONST", "dtypes.int.vec(3)", "(1,-2,3)"),
           node_text("VCONST", "dtypes.float.vec(2)", "(nan,-0.0)"),
           node_text("EXPAND", "dtypes.float", "((1,2),(7,2))", vec4 + ","),
           node_text("CONTRACT", "dtypes.half.vec(6)", "((0,3),)", vec2 + ","),
           node_text("DEFINE_ACC", "dtypes.float", "(0,)", acc_start),
           node_text("DEFINE_ACC", "dtypes.float", "(0,2,3)", acc_start),
           node_text("REDUCE_AXIS", "dtypes.float.vec(4)", "(Ops.MAX,(0,2))", vec4 + ","),
           node_text("SINK", "dtypes.void", "KernelInfo(local_dims=2,upcasted=1,dont_use_locals=False)"),
           node_text("WMMA", "dtypes.float.vec(4)",
                     "('WMMA_8_16_16_half_float',(8,16,16),dtypes.half,dtypes.float,'CUDA',32,(((4,2),(3,2)),((2,2),),("
                     ")),(5,6))",
                     "x0:=" + vec2 + ",x0," + vec4 + ","),
       })
    expect_round_trip(text);
  Graph graph;
  const std::string label = node_text("NOOP", "dtypes.void", "'it\\'s a \\\\ label'");
  EXPECT_EQ(print(parse(graph, label)), label);
}

TEST(Reader, keeps_constants_to_the_bit) {
  struct Case {
    std::string dtype, arg;
  };
  for (const auto& [dtype, arg] : std::vector<Case>{{"float", "0.1"},
                                                    {"float", "-0.0"},
                                                    {"float", "inf"},
                                                    {"float", "-inf"},
                                                    {"float", "nan"},
                                                    {"half", "1e-05"},
                                                    {"double", "5e-324"},
                                                    {"double", "1.7976931348623157e+308"},
                                                    {"float", "1e+16"},
                                                    {"float", "1234567.0"},
                                                    {"float", "1e-07"},
                                                    {"float", "0.0001"},
                                                    {"float", "123456789012345.6"},
                                                    {"int", "-2147483648"},
                                                    {"long", "-9223372036854775808"},
                                                    {"ulong", "18446744073709551614"},
                                                    {"bool", "True"},
                                                    {"bool", "False"},
                                                    {"uchar", "254"},
                                                    {"uchar", "-1"},
                                                    {"index", "-7"}})
    expect_round_trip(node_text("CONST", "dtypes." + dtype, arg));

  Graph graph;
  UOp tenth = parse(graph, node_text("CONST", "dtypes.float", "0.1"));
  EXPECT_EQ(tenth.const_float(), 0.1);  // not yet rounded to float
  EXPECT_NE(parse(graph, node_text("CONST", "dtypes.float", "0.0")),
            parse(graph, node_text("CONST", "dtypes.float", "-0.0")));
  EXPECT_EQ(print(parse(graph, node_text("CONST", "dtypes.float", "9007199254740993.0"))),
            node_text("CONST", "dtypes.float", "9007199254740992.0"));
}

TEST(Reader, wraps_integers_to_their_type) {
  struct Case {
    const char *dtype, *arg, *printed;
  };
  for (const auto& [dtype, arg, printed] : std::vector<Case>{{"dtypes.uint", "4294967295", "-1"},
                                                             {"dtypes.uchar", "255", "-1"},
                                                             {"dtypes.int", "4294967295", "-1"},
                                                             {"dtypes.ulong", "18446744073709551615", "-1"},
                                                             {"dtypes.int", "True", "1"},
                                                             {"dtypes.float", "3", "3.0"},
                                                             {"dtypes.bool", "1", "True"}}) {
    Graph graph;
    EXPECT_EQ(print(parse(graph, node_text("CONST", dtype, arg))), node_text("CONST", dtype, printed));
  }
}

std::string view_text(std::string_view shape, std::string_view strides, std::string_view offset = "0",
                      std::string_view mask = "None", std::string_view contiguous = "False") {
  return node_text("VIEW", "dtypes.void",
                   "ShapeTracker(views=(View(shape=" + std::string(shape) + ",strides=" + std::string(strides) +
                       ",offset=" + std::string(offset) + ",mask=" + std::string(mask) +
                       ",contiguous=" + std::string(contiguous) + "),))");
}

TEST(Reader, reads_symbolic_views_as_index_arithmetic_with_names_of_their_own) {
  const std::string n = node_text("DEFINE_VAR", "dtypes.int", "('n',1,100)"),
                    one = node_text("CONST", "dtypes.int", "1");
  const std::string product = node_text("MUL", "dtypes.int", "None",
                                        "x0:=" + node_text("ADD", "dtypes.int", "None", n + "," + one + ",") + ",x0,");
  const std::string text = view_text("(" + n + ",4)", "(" + product + ",1)", "-3", "((0," + n + "),(1,4))");
  expect_round_trip(text);
  // Each symbolic int is a text of its own: the same name may stand in several, and means nothing outside.
  expect_round_trip(node_text(
      "SINK", "dtypes.void", "None",
      "x0:=" + view_text("(4,)", "(" + product + ",)") + "," + view_text("(5,)", "(" + product + ",)") + ",x0,"));
  Graph graph;
  UOp view = parse(graph, text);
  const View& v = std::get<const ShapeTracker*>(view.arg())->views[0];
  EXPECT_TRUE(v.shape[0].expr().dtype().is_index());
  EXPECT_EQ(v.strides[0].expr().op(), Op::Mul);
  EXPECT_EQ(print(v.strides[0]), "((n+1)*(n+1))");
  EXPECT_EQ(v.offset.value(), -3);
}

TEST(Reader, brings_views_to_the_form_the_movement_ops_make) {
  Graph graph;
  EXPECT_EQ(print(parse(graph, view_text("(2,1,3)", "(3,7,1)", "0", "((0,2),(0,1),(0,3))", "False"))),
            view_text("(2,1,3)", "(3,0,1)", "0", "None", "True"));
  EXPECT_EQ(print(parse(graph, view_text("(2,3)", "(1,2)", "0", "None", "True"))), view_text("(2,3)", "(1,2)"));
}

TEST(Reader, takes_any_spacing_and_optional_trailing_commas) {
  Graph graph;
  std::string spaced;
  for (char c : kAddTwo) {
    spaced += c;
    if (c == ',' || c == '(' || c == ')') spaced += " \n\t";
  }
  EXPECT_EQ(parse(graph, spaced), parse(graph, kAddTwo));
  const std::string a = node_text("CONST", "dtypes.int", "1");
  EXPECT_EQ(parse(graph, node_text("ADD", "dtypes.int", "None", a + "," + a)),
            parse(graph, node_text("ADD", "dtypes.int", "None", a + "," + a + ",")));
}

TEST(Reader, reads_and_prints_a_chain_of_100000_nodes) {
  constexpr int kDepth = 100000;
  std::string open, close;
  for (int i = 0; i < kDepth; ++i) {
    open += "UOp(Ops.EXP2,dtypes.float,arg=None,src=(";
    close += ",))";
  }
  const std::string text = open + node_text("CONST", "dtypes.float", "1.0") + close;
  Graph graph;
  UOp root = parse(graph, text);
  EXPECT_EQ(graph.size(), kDepth + 1u);
  EXPECT_EQ(print(root), text);
}

TEST(Reader, shares_nodes_by_name_like_the_reference) {
  Graph graph;
  UOp x = graph.variable("x", 0, 9, Scalar::Int32);
  UOp sum = x + x;
  UOp root = graph.node(Op::Sink, Scalar::Void, {sum * sum, x});
  EXPECT_EQ(
      print(root),
      "UOp(Ops.SINK,dtypes.void,arg=None,src=(UOp(Ops.MUL,dtypes.int,arg=None,src=(x1:=UOp(Ops.ADD,dtypes.int,arg=None,"
      "src=(x2:=UOp(Ops.DEFINE_VAR,dtypes.int,arg=('x',0,9),src=()),x2,)),x1,)),x2,))");
  EXPECT_EQ(print(root, TextStyle::Indented),
            "UOp(Ops.SINK, dtypes.void, arg=None, src=(\n"
            "  UOp(Ops.MUL, dtypes.int, arg=None, src=(\n"
            "    x1:=UOp(Ops.ADD, dtypes.int, arg=None, src=(\n"
            "      x2:=UOp(Ops.DEFINE_VAR, dtypes.int, arg=('x', 0, 9), src=()),\n"
            "       x2,)),\n"
            "     x1,)),\n"
            "   x2,))");
}

TEST(Printer, spells_symbolic_ints_in_infix_form) {
  Graph graph;
  UOp n = graph.variable("n", 1, 9), i = graph.range(0, 4, 2);
  EXPECT_EQ(print(SInt(7)), "7");
  EXPECT_EQ(print(SInt(n + 1)), "(n+1)");
  EXPECT_EQ(print_infix((n * 3).idiv(i).mod(graph.const_index(4))), "(((n*3)//ridx2)%4)");
  EXPECT_EQ(print_infix(n.lt(i).where(n, i.max(n))), "(n if (n<ridx2) else max(ridx2, n))");
}

TEST(Conformance, every_kernel_prints_as_it_was_written) {
  std::vector<std::string> kernels = test::conformance_kernels();
  if (kernels.empty()) GTEST_SKIP() << "no conformance folder: set QUERN_CONFORMANCE to where it is";
  EXPECT_EQ(kernels.size(), 9975u);
  size_t spelled_differently = 0;
  for (const std::string& text : kernels) {
    Graph graph;
    UOp root = parse(graph, text);
    verify(root, Spec::KernelAst);
    std::string flat = print(root);
    ASSERT_EQ(parse(graph, flat), root) << text;
    ASSERT_EQ(parse(graph, print(root, TextStyle::Indented)), root) << text;
    if (flat == text) continue;
    // One kernel spells an all-ones ulong as a number, the others as -1; these are the same constant.
    ++spelled_differently;
    ASSERT_THAT(text, testing::HasSubstr("18446744073709551615")) << "printed: " << flat;
  }
  EXPECT_LE(spelled_differently, 1u);
}

}  // namespace
}  // namespace quern
