#include <exception>

#include "binding.h"

namespace quern::python {

namespace {

/// The Python classes, made once a module. They live as long as the process.
struct ErrorClasses {
  PyObject* error;
  PyObject* parse;
  PyObject* invalid_kernel;
  PyObject* opt;
  PyObject* compile;
  PyObject* device;
  PyObject* internal;
};
ErrorClasses classes;

PyObject* make_class(nb::module_& m, const char* name, PyObject* base, const char* doc) {
  const std::string full = "quern." + std::string(name);
  PyObject* type = PyErr_NewExceptionWithDoc(full.c_str(), doc, base, nullptr);
  if (type == nullptr) nb::raise_python_error();
  m.attr(name) = nb::handle(type);
  return type;
}

/// Messages have names of files and what compilers say, in whatever encoding.
nb::object text(std::string_view message) {
  return nb::steal(PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "replace"));
}

nb::object instance(PyObject* type, const Error& error) { return nb::handle(type)(text(error.what())); }
void raise(PyObject* type, nb::object value) { PyErr_SetObject(type, value.ptr()); }

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const ParseError& e) {
    nb::object value = instance(classes.parse, e);
    value.attr("line") = e.line();
    value.attr("column") = e.column();
    value.attr("expected") = text(e.expected());
    raise(classes.parse, value);
  } catch (const InvalidKernel& e) {
    raise(classes.invalid_kernel, instance(classes.invalid_kernel, e));
  } catch (const OptError& e) {
    raise(classes.opt, instance(classes.opt, e));
  } catch (const CompileError& e) {
    nb::object value = instance(classes.compile, e);
    value.attr("log") = text(e.log());
    raise(classes.compile, value);
  } catch (const DeviceError& e) {
    raise(classes.device, instance(classes.device, e));
  } catch (const InternalError& e) {
    raise(classes.internal, instance(classes.internal, e));
  } catch (const Error& e) {
    raise(classes.error, instance(classes.error, e));
  }
}

}  // namespace

void bind_errors(nb::module_& m) {
  classes.error =
      make_class(m, "Error", PyExc_RuntimeError, "Base of everything Quern raises about kernels and devices.");
  classes.parse =
      make_class(m, "ParseError", classes.error,
                 "Text that is not a kernel: `line` and `column` (from 1) of the first character that does not "
                 "fit, and what was `expected` there.");
  classes.invalid_kernel =
      make_class(m, "InvalidKernel", classes.error,
                 "A graph that breaks a rule of kernels; the message names the node and the rule.");
  classes.opt =
      make_class(m, "OptError", classes.error, "An opt that does not apply; the message names the opt and the reason.");
  classes.compile = make_class(m, "CompileError", classes.error,
                               "A target's compiler refused a program; `log` is the compiler's own output.");
  classes.device =
      make_class(m, "DeviceError", classes.error,
                 "A device or target there is not, or that was given buffers or variables that do not fit.");
  classes.internal =
      make_class(m, "InternalError", classes.error, "A broken invariant inside Quern: always a bug of Quern's.");
  nb::register_exception_translator(translate);
}

}  // namespace quern::python
