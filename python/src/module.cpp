#include "binding.h"

NB_MODULE(_native, m) {
  m.doc() = "The native part of quern: what the package shows is documented there.";
  nanobind::set_leak_warnings(false);  // a thread that the interpreter's end finds at work keeps what it holds
  m.attr("__version__") = QUERN_VERSION;
  quern::python::bind_errors(m);
  quern::python::bind_arrays(m);
  quern::python::bind_kernels(m);
  quern::python::bind_devices(m);
  quern::python::bind_notation(m);
}
