#include "runtime/cuda/library.h"

#include <dlfcn.h>

namespace quern::cuda {

std::shared_ptr<Library> Library::load(const std::vector<std::string>& names, std::string& why) {
  for (const std::string& name : names) {
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL))
      return std::shared_ptr<Library>(new Library(handle));  // NOLINT: the constructor is private
    const char* text = dlerror();
    why = text != nullptr ? text : name + " cannot be loaded";
  }
  return nullptr;
}

void* Library::find(const char* function) const { return dlsym(handle_, function); }

std::string Library::file_of(const void* function) const {
  Dl_info info{};
  return dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

}  // namespace quern::cuda
