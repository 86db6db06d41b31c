#pragma once
#include <string>
#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <quern/quern.h>

namespace quern::python {

namespace nb = nanobind;

// Other threads run Python while Quern works. A thread that wants the interpreter back when it has ended never gets it: CPython (before
// 3.14) unwinds such a thread's stack, and the process ends if that goes through a destructor. Here it waits for the end instead.

/// Without the GIL while it lives.
class ReleasedGil {
 public:
  ReleasedGil() : state_(PyEval_SaveThread()) {}
  ~ReleasedGil();
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

 private:
  PyThreadState* state_;
};

/// With the GIL while it lives, in any thread.
class TakenGil {
 public:
  TakenGil();
  ~TakenGil() { PyGILState_Release(state_); }
  TakenGil(const TakenGil&) = delete;
  TakenGil& operator=(const TakenGil&) = delete;

 private:
  PyGILState_STATE state_;
};

/// For a thread that is being unwound: to the process's end, which is near.
[[noreturn]] void wait_for_the_end();

/// Host memory that Python owns: of any object that gives it through DLPack or the buffer protocol. Never a copy.
class HostArray {
 public:
  /// `as`: take the elements for another type of the same size ("bfloat16" for 16-bit ints); empty: the object's own.
  /// Throws TypeError or ValueError for an object without host memory, with gaps in it, or of a type that kernels do not have.
  HostArray(nb::handle object, const std::string& as);
  /// New memory of zeros.
  static HostArray zeros(const std::vector<size_t>& shape, const std::string& type);

  const Array& array() const { return array_; }
  const std::vector<size_t>& shape() const { return shape_; }
  nb::object owner() const { return owner_; }

 private:
  HostArray() = default;
  nb::object owner_;  ///< keeps the memory
  std::vector<size_t> shape_;
  Array array_ = {};
};

/// Of a kernel's arguments: each a Buffer, or what makes one.
struct Arguments {
  explicit Arguments(nb::args args);
  std::vector<nb::object> owners;
  std::vector<Array> arrays;
};

nb::object to_python(const Size& size);  ///< an int, or a Symbolic

/// A kernel as text or as a Graph.
KernelGraph graph_of(nb::handle kernel);

void bind_errors(nb::module_& m);
void bind_arrays(nb::module_& m);
void bind_kernels(nb::module_& m);
void bind_devices(nb::module_& m);
void bind_notation(nb::module_& m);

}  // namespace quern::python
