#include "ir/kernels.h"

#include <cstdlib>

#include <zlib.h>

namespace quern::test {

namespace {

std::string unpacked(const std::string& path) {
  std::string text;
  gzFile file = gzopen(path.c_str(), "rb");
  if (!file) return text;
  char block[1 << 16];
  for (int n = 0; (n = gzread(file, block, sizeof block)) > 0;) text.append(block, static_cast<size_t>(n));
  gzclose(file);
  return text;
}

}  // namespace

std::vector<std::string> conformance_kernels() {
  const char* chosen = std::getenv("QUERN_CONFORMANCE");
  const std::string folder = chosen ? chosen : QUERN_CONFORMANCE_DIR;
  std::vector<std::string> kernels;
  for (const char* name : {"/kernels.jsonl.gz", "/tc_kernels.jsonl.gz"}) {
    const std::string lines = unpacked(folder + name), key = "\"ast\":";
    // The texts hold no double quotes and no escapes.
    for (size_t at = 0; (at = lines.find(key, at)) != std::string::npos;) {
      const size_t first = lines.find('"', at + key.size()) + 1, last = lines.find('"', first);
      kernels.push_back(lines.substr(first, last - first));
      at = last;
    }
  }
  return kernels;
}

}  // namespace quern::test
