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
       }) {
    Result r = quern(c.arguments);
    EXPECT_EQ(r.status, 2) << c.arguments << "\n" << r.out;
    EXPECT_THAT(r.out, HasSubstr(c.message)) << c.arguments;
  }
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
