#pragma once
// NVRTC, NVIDIA's compiler as a library, loaded when the program runs. Needs no GPU.
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/settings.h"
#include "runtime/cuda/library.h"

namespace quern::cuda {

struct NvrtcProgram;

class Nvrtc {
 public:
  /// Null where it is not installed or too old; `why` says so. The setting CUDA_PATH names the toolkit's folder.
  static std::shared_ptr<const Nvrtc> load(const Settings& settings, std::string& why);

  std::string version() const;
  /// Flags of a compilation for compute capability `sm`, 80 say.
  std::vector<std::string> options(int sm) const;
  /// Machine code for `sm`, where this NVRTC knows it, else PTX for the newest it knows. Throws CompileError with the log and
  /// the source.
  std::string compile(const std::string& source, const std::string& name, int sm) const;

 private:
  using Result = int;
  Result (*version_)(int* major, int* minor);
  Result (*create_)(NvrtcProgram** program, const char* source, const char* name, int headers, const char* const* texts,
                    const char* const* names);
  Result (*destroy_)(NvrtcProgram** program);
  Result (*compile_)(NvrtcProgram* program, int count, const char* const* options);
  Result (*log_bytes_)(NvrtcProgram* program, size_t* bytes);
  Result (*log_)(NvrtcProgram* program, char* text);
  Result (*code_bytes_)(NvrtcProgram* program, size_t* bytes);
  Result (*code_)(NvrtcProgram* program, char* code);
  Result (*ptx_bytes_)(NvrtcProgram* program, size_t* bytes);
  Result (*ptx_)(NvrtcProgram* program, char* text);
  Result (*arch_count_)(int* count);
  Result (*archs_)(int* archs);
  const char* (*error_)(Result code);

  int newest_arch(int sm) const;

  std::shared_ptr<Library> library_;
  std::vector<std::string> include_folders_;
};

}  // namespace quern::cuda
