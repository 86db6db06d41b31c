// C for Qualcomm's Hexagon DSP, without libraries: roots and conversions of halfs are integer arithmetic.
#include <fmt/format.h>

#include "render/c_dialect.h"
#include "render/program.h"

namespace quern {

namespace {

std::string kernel(const Launch&) { return "__attribute__((noinline)) void "; }

CDialect make_dsp() {
  CDialect d = c11_dialect();
  d.language = "Hexagon C";
  d.types = c_types("_Bool", {"half", "half", "", "typedef unsigned short half;\n"},
                    {"bfloat16", "bfloat16", "", "typedef unsigned short bfloat16;\n"});
  d.bits = scalar_bit(Scalar::Half) | scalar_bit(Scalar::BFloat16);
  d.math_float.sqrt = {};
  d.math_double.sqrt = {};
  d.kernel = kernel;
  d.wmma = nullptr;
  return d;
}

}  // namespace

const CDialect& dsp_dialect() {
  static const CDialect dialect = make_dsp();
  return dialect;
}

/// What the DSP's runtime calls: sizes of buffers and values of variables in argument 0, offsets in 1, the time taken (in
/// microseconds) goes into 2, the buffers' memory follows.
std::string dsp_entry(const Program& program) {
  size_t buffers = program.globals.size();
  std::string map, unmap, arguments;
  for (size_t i = 0; i < buffers; ++i) {
    map += fmt::format(
        "  char* dsp_memory{0} = (char*)HAP_mmap(0, dsp_values[{0}], 3, 0, dsp_arguments[{1}].dma.fd, 0);\n", i, i + 3);
    unmap += fmt::format("  HAP_munmap(dsp_memory{0}, dsp_values[{0}]);\n", i);
    arguments += fmt::format("{}(void*)(dsp_memory{} + dsp_offsets[{}])", i == 0 ? "" : ", ", i, i);
  }
  for (size_t i = 0; i < program.vars.size(); ++i)
    arguments += fmt::format("{}dsp_values[{}]", arguments.empty() ? "" : ", ", buffers + i);
  return fmt::format(
      "\ntypedef union {{ struct {{ void* pv; unsigned int len; }} buf; struct {{ int fd; unsigned int offset; }} dma; "
      "}} remote_arg;\n"
      "struct power_request {{\n"
      "  int type, pad;\n"
      "  _Bool dcvs_enable; char dcvs_option; _Bool set_latency; int latency; _Bool set_dcvs_params;\n"
      "  short pad2; char target_corner, min_corner, max_corner; int pad3[3];\n"
      "}};\n"
      "int HAP_power_set(void*, void*);\n"
      "void* HAP_mmap(void* address, int length, int protection, int flags, int fd, long offset);\n"
      "int HAP_munmap(void* address, int length);\n"
      "unsigned long long HAP_perf_get_time_us(void);\n\n"
      "int entry(unsigned long long dsp_handle, unsigned int dsp_call, remote_arg* dsp_arguments) {{\n"
      "  struct power_request dsp_turbo = {{ .type = 7, .set_latency = 1, .latency = 100, .set_dcvs_params = 1, "
      ".target_corner = 6 }};\n"
      "  HAP_power_set((void*)dsp_handle, &dsp_turbo);\n"
      "  if (dsp_call >> 24 != 2) return 0;\n"
      "  const int* dsp_values = (const int*)dsp_arguments[0].buf.pv;\n"
      "  const int* dsp_offsets = (const int*)dsp_arguments[1].buf.pv;\n"
      "  (void)dsp_values;\n  (void)dsp_offsets;\n"
      "{}"
      "  unsigned long long dsp_start = HAP_perf_get_time_us();\n"
      "  {}({});\n"
      "  *(unsigned long long*)dsp_arguments[2].buf.pv = HAP_perf_get_time_us() - dsp_start;\n"
      "{}"
      "  return 0;\n"
      "}}\n",
      map, program.name, arguments, unmap);
}

}  // namespace quern
