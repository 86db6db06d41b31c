#pragma once
// The conformance folder: what the reference decided, an object a line.
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

namespace quern::test {

using Json = nlohmann::json;

inline std::string folder() {
  const char* chosen = std::getenv("QUERN_CONFORMANCE");
  return chosen ? chosen : QUERN_CONFORMANCE_DIR;
}

inline std::string unpacked(const std::string& path) {
  std::string text;
  gzFile file = gzopen(path.c_str(), "rb");
  if (!file) return text;
  std::vector<char> block(1 << 18);
  for (int n = 0; (n = gzread(file, block.data(), static_cast<unsigned>(block.size()))) > 0;)
    text.append(block.data(), static_cast<size_t>(n));
  gzclose(file);
  return text;
}

inline std::vector<Json> objects(const std::string& path) {
  std::vector<Json> found;
  const std::string text = unpacked(path);
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    if (end > begin)
      found.push_back(Json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                  text.begin() + static_cast<std::ptrdiff_t>(end)));
  }
  return found;
}

inline const std::map<std::string, std::string>& kernel_texts() {
  static const std::map<std::string, std::string> texts = [] {
    std::map<std::string, std::string> all;
    for (const char* name : {"/kernels.jsonl.gz", "/tc_kernels.jsonl.gz"})
      for (const Json& kernel : objects(folder() + name)) all[kernel["h"]] = kernel["ast"];
    return all;
  }();
  return texts;
}

struct TargetFile {
  const char* file;
  const char* target;
};

/// The objects of heuristic/ or walks/ for a target; none where the folder is absent.
inline std::vector<Json> recorded(const char* kind, const TargetFile& target) {
  const std::string path = folder() + "/" + kind + "/" + target.file + ".jsonl.gz";
  return std::filesystem::exists(path) ? objects(path) : std::vector<Json>{};
}

inline auto all_targets() {
  return testing::Values(TargetFile{"CLANG", "clang"}, TargetFile{"CLANG_AMX", "clang:amx"}, TargetFile{"LLVM", "llvm"},
                         TargetFile{"GPU", "opencl"}, TargetFile{"INTEL", "intel"}, TargetFile{"QCOM", "qcom"},
                         TargetFile{"CUDA75", "cuda:sm_75"}, TargetFile{"CUDA80", "cuda:sm_80"},
                         TargetFile{"PTX80", "ptx:sm_80"}, TargetFile{"METAL", "metal"},
                         TargetFile{"AMD", "hip:gfx1100"});
}
inline std::string target_name(const testing::TestParamInfo<TargetFile>& test) { return test.param.file; }

}  // namespace quern::test
