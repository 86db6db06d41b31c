#include "cli/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace quern::test {
namespace {

using ::testing::HasSubstr;

using Command = Scratch;

TEST_F(Command, without_arguments_lists_its_commands_and_exits_2) {
  Result r = quern("");
  EXPECT_EQ(r.status, 2);
  for (const char* name : {"compile", "run", "corpus", "walk", "replay", "cache", "targets", "devices", "settings"})
    EXPECT_THAT(quern("--help").out, HasSubstr(name));
}

TEST_F(Command, says_what_is_wrong_and_exits_2) {
  struct Case {
    std::string arguments, message;
  };
  for (const Case& c : std::vector<Case>{
           {"compile /no/such/file", "cannot open /no/such/file"},
           {"compile " + kernel("matmul") + " --target pdp11", "pdp11"},
           {"compile " + kernel("matmul") + " --opts 'UPCAST(0,'", "UPCAST(0,"},
           {"compile " + kernel("matmul") + " --opts 'UPCAST(0,7)'", "UPCAST(0,7)"},
           {"compile " + kernel("matmul") + " --emit poem", "poem"},
           {"compile " + file("empty.kernel", "\n"), "is empty"},
           {"compile " + file("cut.kernel", "UOp(Ops.SINK, dtypes.void, arg=None, src=("), "line 1"},
           {"run " + kernel("matmul") + " --device ABACUS", "ABACUS"},
           {"run " + kernel("matmul") + " --in 7=x.npy", "no buffer 7"},
           {"run " + kernel("matmul") + " --in nonsense", "N=FILE.npy"},
           {"run " + kernel("symbolic_sum") + " --var m=3", "no variable m"},
           {"run " + kernel("symbolic_sum") + " --var n=1000", "1000"},
           {"run " + kernel("matmul") + " --in 1=" + file("short.npy", "hello"), "is not a .npy file"},
           {"corpus " + file("bad.jsonl", "{\"h\": 1}\n"), "\"ast\""},
           {"corpus " + kernel("matmul") + " --opts poem", "quern: 'poem' is not an opt"},
           {"corpus " + kernel("matmul") + " --limit -1", "--limit: takes a whole number from 0 up, not -1"},
           {"corpus " + kernel("matmul") + " --jobs 0", "--jobs: takes a whole number from 1 up, not 0"},
           {"mill", "there is no command 'mill'; there are: compile, run"},
           {"run " + kernel("matmul") + " --in 1=/", "cannot read /: "},
           {"run " + kernel("matmul") + " --in 1=/dev/zero", "is not a .npy file"},
           {"run " + kernel("matmul") + " --in 1=a.npy --in 1=b.npy", "--in 1 is given twice"},
           {"run " + kernel("matmul") + " --out 7=x.npy", "--out 7: the kernel has no buffer 7"},
       }) {
    Result r = quern(c.arguments);
    EXPECT_EQ(r.status, 2) << c.arguments << "\n" << r.out;
    EXPECT_THAT(r.out, HasSubstr(c.message)) << c.arguments;
  }
}

std::string npy(std::string header, size_t bytes) {
  header.resize(117, ' ');
  return std::string("\x93NUMPY\x01\x00", 8) + std::string("\x76\x00", 2) + header + "\n" + std::string(bytes, '\0');
}

TEST_F(Command, refuses_npy_files_that_do_not_say_what_they_hold) {
  const std::string start = "{'descr': '<f4', ", order = "'fortran_order': False, ", shape = "'shape': (256, 256), }";
  auto run = [&](const std::string& header, size_t bytes = 262144) {
    return quern("run " + kernel("matmul") + " --in 1=" + file("in.npy", npy(header, bytes)));
  };
  EXPECT_EQ(run(start + order + shape).status, 0);
  const std::pair<std::string, const char*> cases[] = {
      {start + shape, "no fortran_order in the .npy header"},
      {start + order + "}", "no shape of whole numbers"},
      {start + order + "'shape': (-256, -256), }", "no shape of whole numbers"},
      {start + order + "'shape': (99999999999999999999, 1), }", "shape is too large"},
      {start + "'fortran_order': True, " + shape, "is in Fortran order"},
      {"{'descr': [('x', '<f4')], " + order + shape, "no dtype of plain numbers"},
      {"{'descr': '>f4', " + order + shape, "holds >f4"},
  };
  for (const auto& [header, message] : cases) {
    Result r = run(header);
    EXPECT_EQ(r.status, 2) << header;
    EXPECT_THAT(r.out, HasSubstr(message)) << header;
  }
}

TEST_F(Command, takes_corpora_of_indented_kernels_and_bytes_of_no_text) {
  Result r = quern("corpus " + kernel("matmul") + " " + kernel("symbolic_sum") + " --jobs 100000");
  EXPECT_EQ(r.out, "2 kernels, 1 targets: 2 compiled\n");
  r = quern("corpus " + file("bytes.txt", "UOp(Ops.S\xff\xfeINK\n"));
  EXPECT_THAT(r.out, HasSubstr("S??INK"));
}

TEST_F(Command, exits_1_if_a_kernel_of_a_corpus_failed) {
  std::string corpus =
      "corpus " + file("half.jsonl", nlohmann::json{{"h", "bad"}, {"ast", "UOp(Ops.SINK"}}.dump() + "\n");
  for (const std::string& arguments : {corpus, corpus + " --emit jsonl", corpus + " --execute CPU"})
    EXPECT_EQ(quern(arguments).status, 1) << arguments;
  EXPECT_EQ(quern("corpus " + kernel("matmul")).status, 0);
}

TEST_F(Command, exits_2_where_its_output_or_its_messages_cannot_be_written) {
  for (const char* command : {"targets", "--help", "corpus"}) {
    const std::string all = command == std::string("corpus") ? "corpus --emit jsonl " + kernel("matmul") : command;
    Result r = quern(all + " > /dev/full'", "sh -c '");
    EXPECT_EQ(r.status, 2) << command;
    EXPECT_THAT(r.out, HasSubstr("cannot write the output: No space left on device")) << command;
    EXPECT_EQ(quern(all + " > /dev/full").status, 2) << command;
  }
  EXPECT_EQ(quern("mill > /dev/full").status, 2);
  EXPECT_EQ(quern("compile /no/such/file > /dev/full").status, 2);
}

TEST_F(Command, refuses_walks_that_are_none) {
  std::string text = quern("compile " + kernel("matmul") + " --emit ast --opts none").out;
  std::string kernels = file("k.jsonl", nlohmann::json{{"h", "a"}, {"ast", text}}.dump() + "\n");
  for (const char* walk :
       {R"({"h":"a"})", R"({"h":"a","steps":5})", R"({"h":"a","steps":[{}]})", R"({"h":"b","steps":[]})",
        R"({"h":"a","steps":[{"pick":0}]})", R"({"h":"a","steps":[{"pick":1000}]})"}) {
    Result r = quern("walk --kernels " + kernels + " --target clang " + file("w.jsonl", std::string(walk) + "\n"));
    EXPECT_EQ(r.status, 2) << walk;
    EXPECT_THAT(r.out, HasSubstr("w.jsonl:1: ")) << walk;
  }
  Result r =
      quern("walk --kernels " + kernels + " --target clang " + file("w.jsonl", R"({"h":"a","steps":[{"pick":1}]})"));
  EXPECT_EQ(r.status, 0) << r.out;
}

TEST_F(Command, reads_settings_that_name_a_stage) {
  EXPECT_THAT(quern("compile " + kernel("matmul"), "QUERN_DUMP='fold memory'").out, HasSubstr("== fold memory"));
  Result r = quern("compile " + kernel("matmul"), "QUERN_DUMP=index,poem");
  EXPECT_EQ(r.status, 2);
  EXPECT_THAT(r.out, HasSubstr("there is no stage 'poem'; there are: index, expand, fold memory"));
}

TEST_F(Command, keeps_names_of_kernels_short) {
  std::ifstream in(kernel("symbolic_sum"));
  std::string text((std::istreambuf_iterator<char>(in)), {});
  text.replace(text.find("'n'"), 3, "'" + std::string(5000, 'n') + "'");
  Result r = quern("corpus --emit jsonl " + file("long.kernel", text));
  const std::string name = nlohmann::json::parse(r.out).value("name", "");
  EXPECT_THAT(name, ::testing::StartsWith("r_64_nnnn"));
  EXPECT_LE(name.size(), 128u);
}

TEST_F(Command, compiles_from_a_file_from_standard_input_and_from_gzip_alike) {
  std::string plain = quern("compile " + kernel("matmul") + " --target clang").out;
  EXPECT_THAT(plain, HasSubstr("void r_"));
  EXPECT_EQ(quern("compile - --target clang < " + kernel("matmul")).out, plain);
  std::string packed = file("matmul.gz");
  ASSERT_EQ(std::system(("gzip -c " + kernel("matmul") + " > " + packed).c_str()), 0);
  EXPECT_EQ(quern("compile " + packed + " --target clang").out, plain);
}

TEST_F(Command, gives_the_same_bytes_every_time) {
  for (const char* emit : {"source", "linear", "ast", "json"}) {
    std::string command = "compile " + kernel("convolution") + " --target clang --emit " + emit;
    EXPECT_EQ(quern(command).out, quern(command).out);
  }
}

TEST_F(Command, passes_npy_files_in_and_out) {
  std::string sum = file("max.npy"), again = file("again.npy");
  Result first = quern("run " + kernel("softmax_max") + " --out 0=" + sum + " --out 1=" + file("x.npy"));
  ASSERT_EQ(first.status, 0) << first.out;
  Result second = quern("run " + kernel("softmax_max") + " --seed 99 --in 1=" + file("x.npy") + " --out 0=" + again);
  ASSERT_EQ(second.status, 0) << second.out;
  auto bytes = [](const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  EXPECT_EQ(bytes(sum), bytes(again));
  Result wrong = quern("run " + kernel("softmax_max") + " --in 1=" + sum);
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.out, HasSubstr("holds 128 elements, the kernel's buffer 128000"));
}

TEST_F(Command, checks_a_kernel_on_every_device_that_is_there) {
  for (const char* device : {"CPU", "CLANG", "INTERP"}) {
    Result r = quern(std::string("run ") + kernel("padded_add") + " --check --device " + device);
    if (r.out.find("not built") != std::string::npos || r.out.find("no C compiler") != std::string::npos) continue;
    EXPECT_EQ(r.status, 0) << r.out;
    EXPECT_THAT(r.out, HasSubstr("agrees with the plain kernel"));
  }
}

TEST_F(Command, tells_times_as_json) {
  Result r = quern("run " + kernel("padded_add") + " --device INTERP --repeat 3 --time 1ms --emit json");
  ASSERT_EQ(r.status, 0) << r.out;
  const auto told = nlohmann::json::parse(r.out);
  EXPECT_GE(told["runs"], 3);
  EXPECT_GT(told["best_us"], 0);
  EXPECT_GE(told["median_us"], told["best_us"]);
  EXPECT_EQ(told["device"], "INTERP");
}

TEST_F(Command, emits_the_keys_of_a_decision) {
  std::string corpus = file("one.jsonl");
  Result flat = quern("compile " + kernel("matmul") + " --target clang --emit json");
  ASSERT_EQ(flat.status, 0) << flat.out;
  auto j = nlohmann::json::parse(flat.out);
  for (const char* key :
       {"base", "opts", "shape", "colors", "tc", "name", "gs", "ls", "ops", "lds", "mem", "nu", "source"})
    EXPECT_TRUE(j.contains(key)) << key;
  EXPECT_TRUE(j["gs"].is_null());  // no threads on this target
}

/// out[i] = in[i] on 8 floats, as a line of a corpus.
constexpr const char* kCopy =
    "UOp(Ops.SINK,dtypes.void,arg=None,src=(UOp(Ops.STORE,dtypes.void,arg=None,src=("
    "UOp(Ops.DEFINE_GLOBAL,dtypes.float.ptr(),arg=0,src=()),"
    "x2:=UOp(Ops.VIEW,dtypes.void,arg=ShapeTracker(views=(View(shape=(8,),strides=(1,),offset=0,"
    "mask=None,contiguous=True),)),src=()),UOp(Ops.LOAD,dtypes.float,arg=None,src=("
    "UOp(Ops.DEFINE_GLOBAL,dtypes.float.ptr(),arg=1,src=()),x2,)),)),))\n";

TEST_F(Command, takes_a_list_of_targets_before_or_after_the_file) {
  std::string corpus = file("one.kernels", kCopy);
  for (const std::string& arguments : {"--target clang,metal " + corpus, corpus + " --target clang,metal",
                                       "--target clang --target metal " + corpus}) {
    Result r = quern("corpus " + arguments);
    EXPECT_EQ(r.status, 0) << arguments << "\n" << r.out;
    EXPECT_THAT(r.out, HasSubstr("1 kernels, 2 targets: 2 compiled")) << arguments;
  }
}

TEST_F(Command, emits_the_sources_of_a_corpus_if_asked) {
  std::string corpus = "corpus " + file("one.kernels", kCopy) + " --target metal,dsp --emit jsonl";
  EXPECT_THAT(quern(corpus).out, ::testing::Not(HasSubstr("source")));
  Result r = quern(corpus + " --source");
  ASSERT_EQ(r.status, 0) << r.out;
  std::istringstream lines(r.out);
  for (const char* part : {"kernel void E_", "int entry("}) {
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    EXPECT_THAT(nlohmann::json::parse(line)["source"].get<std::string>(), HasSubstr(part));
  }
  EXPECT_EQ(quern("corpus " + file("one.kernels", kCopy) + " --source").status, 2);
}

TEST_F(Command, follows_settings_of_the_environment) {
  EXPECT_THAT(quern("compile " + kernel("matmul") + " --target clang --emit json", "NOOPT=1").out,
              HasSubstr("\"opts\": []"));
  EXPECT_THAT(quern("compile " + kernel("matmul") + " --target clang", "DEBUG=1").out, HasSubstr("UPCAST"));
  Result bad = quern("compile " + kernel("matmul"), "DEBUG=loud");
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.out, HasSubstr("loud"));
}

}  // namespace
}  // namespace quern::test
