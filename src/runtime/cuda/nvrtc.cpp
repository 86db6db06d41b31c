#include "runtime/cuda/nvrtc.h"

#include <algorithm>
#include <filesystem>

#include "quern/error.h"

namespace quern::cuda {

namespace {

namespace fs = std::filesystem;

constexpr int kProgramNotCompiled = 6;  // NVRTC_ERROR_COMPILATION

std::vector<std::string> library_names(const std::string& toolkit) {
  std::vector<std::string> names;
  for (const char* name : {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"}) {
    if (toolkit.empty()) {
      names.emplace_back(name);
    } else {
      for (const char* folder : {"lib64", "lib"}) names.push_back((fs::path(toolkit) / folder / name).string());
    }
  }
  if (toolkit.empty())
    for (const char* folder : {"lib64", "targets/x86_64-linux/lib"})
      names.push_back((fs::path("/usr/local/cuda") / folder / "libnvrtc.so").string());
  return names;
}

/// Folders with the headers of half and bfloat16: the toolkit's, and those beside the library, as toolkits and Python packages lay
/// them out.
std::vector<std::string> header_folders(const std::string& toolkit, const std::string& library) {
  std::vector<fs::path> candidates;
  if (!toolkit.empty()) candidates.push_back(fs::path(toolkit) / "include");
  std::error_code ignored;
  fs::path real = fs::canonical(library, ignored);
  if (!real.empty()) {
    fs::path above = real.parent_path().parent_path();
    candidates.push_back(above / "include");
    candidates.push_back(above.parent_path() / "cuda_runtime" / "include");
    candidates.push_back(above.parent_path().parent_path() / "include");
  }
  candidates.emplace_back("/usr/local/cuda/include");
  candidates.emplace_back("/usr/include");
  for (const fs::path& folder : candidates)
    if (fs::exists(folder / "cuda_fp16.h", ignored)) return {folder.string()};
  return {};
}

}  // namespace

std::shared_ptr<const Nvrtc> Nvrtc::load(const Settings& settings, std::string& why) {
  std::string toolkit = settings.text("CUDA_PATH");
  auto n = std::make_shared<Nvrtc>();
  n->library_ = Library::load(library_names(toolkit), why);
  if (!n->library_) {
    why = "NVRTC is missing: " + why;
    return nullptr;
  }
  const Library& from = *n->library_;
  std::string missing;
  bind(from, "nvrtcVersion", n->version_, missing);
  bind(from, "nvrtcCreateProgram", n->create_, missing);
  bind(from, "nvrtcDestroyProgram", n->destroy_, missing);
  bind(from, "nvrtcCompileProgram", n->compile_, missing);
  bind(from, "nvrtcGetProgramLogSize", n->log_bytes_, missing);
  bind(from, "nvrtcGetProgramLog", n->log_, missing);
  bind(from, "nvrtcGetCUBINSize", n->code_bytes_, missing);
  bind(from, "nvrtcGetCUBIN", n->code_, missing);
  bind(from, "nvrtcGetPTXSize", n->ptx_bytes_, missing);
  bind(from, "nvrtcGetPTX", n->ptx_, missing);
  bind(from, "nvrtcGetNumSupportedArchs", n->arch_count_, missing);
  bind(from, "nvrtcGetSupportedArchs", n->archs_, missing);
  bind(from, "nvrtcGetErrorString", n->error_, missing);
  if (!missing.empty()) {
    why = "NVRTC is too old: it lacks " + missing;
    return nullptr;
  }
  n->include_folders_ = header_folders(toolkit, from.file_of(reinterpret_cast<const void*>(n->version_)));
  return n;
}

std::string Nvrtc::version() const {
  int major = 0, minor = 0;
  version_(&major, &minor);
  return std::to_string(major) + "." + std::to_string(minor);
}

int Nvrtc::newest_arch(int sm) const {
  int count = 0;
  if (arch_count_(&count) != 0 || count <= 0) return sm;
  std::vector<int> archs(static_cast<size_t>(count));
  if (archs_(archs.data()) != 0) return sm;
  int newest = 0;
  for (int arch : archs)
    if (arch <= sm) newest = std::max(newest, arch);
  return newest == 0 ? sm : newest;
}

std::vector<std::string> Nvrtc::options(int sm) const {
  int arch = newest_arch(sm);
  std::vector<std::string> options = {
      "--gpu-architecture=" + std::string(arch == sm ? "sm_" : "compute_") + std::to_string(arch), "--fmad=false",
      "--std=c++17"};
  for (const std::string& folder : include_folders_) options.push_back("--include-path=" + folder);
  return options;
}

std::string Nvrtc::compile(const std::string& source, const std::string& name, int sm) const {
  auto expect = [&](Result code, const std::string& what) {
    if (code != 0) throw CompileError("NVRTC cannot " + what + " " + name + ": " + error_(code));
  };
  NvrtcProgram* raw = nullptr;
  expect(create_(&raw, source.c_str(), (name + ".cu").c_str(), 0, nullptr, nullptr), "take");
  auto destroy = [this](NvrtcProgram* p) { destroy_(&p); };
  std::unique_ptr<NvrtcProgram, decltype(destroy)> program(raw, destroy);
  std::vector<std::string> words = options(sm);
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  Result code = compile_(raw, static_cast<int>(pointers.size()), pointers.data());
  if (code != 0) {
    size_t bytes = 0;
    std::string log;
    if (log_bytes_(raw, &bytes) == 0 && bytes > 1) {
      log.resize(bytes);
      if (log_(raw, log.data()) != 0) log.clear();
      while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
    }
    std::string message = code == kProgramNotCompiled ? "NVRTC refused kernel " : "NVRTC failed on kernel ";
    throw CompileError(message + name + " (" + error_(code) + "):\n" + log + "\nthe source is\n" + source, log);
  }
  bool machine_code = words[0].find("sm_") != std::string::npos;
  size_t bytes = 0;
  expect((machine_code ? code_bytes_ : ptx_bytes_)(raw, &bytes), "give the code of");
  std::string binary(bytes, '\0');
  expect((machine_code ? code_ : ptx_)(raw, binary.data()), "give the code of");
  return binary;
}

}  // namespace quern::cuda
