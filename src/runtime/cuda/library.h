#pragma once
#include <memory>
#include <string>
#include <vector>

namespace quern::cuda {

/// A shared library, loaded when the program runs and kept to its end (drivers do not like to be unloaded).
class Library {
 public:
  /// The first of these that loads; else `why` tells why the last did not.
  static std::shared_ptr<Library> load(const std::vector<std::string>& names, std::string& why);
  /// Null where it has no such function.
  void* find(const char* function) const;
  /// The file that holds `function`; empty where that is not known.
  std::string file_of(const void* function) const;

 private:
  explicit Library(void* handle) : handle_(handle) {}
  void* handle_;
};

/// Fills `function` by name; adds the name to `missing` where the library lacks it.
template <class Function>
void bind(const Library& library, const char* name, Function*& function, std::string& missing) {
  function = reinterpret_cast<Function*>(library.find(name));
  if (function == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(name);
}

}  // namespace quern::cuda
