#include <exception>
#include <functional>
#include <limits>
#include <map>

#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "binding.h"

namespace quern::python {

namespace {

using Variables = std::map<std::string, int64_t>;

double run(const CompiledKernel& kernel, nb::args args, const Variables& vars) {
  const Arguments arguments(args);
  const ReleasedGil released;
  return kernel.run(arguments.arrays, vars);
}

/// Ends the search at Ctrl-C and where the callback raises; the exception is raised after it.
class Progress {
 public:
  explicit Progress(nb::object callback) : callback_(std::move(callback)) {}

  bool operator()(const TuneProgress& p) {
    const TakenGil taken;
    try {
      if (PyErr_CheckSignals() != 0) nb::raise_python_error();
      if (callback_.is_none()) return true;
      nb::object go_on = callback_(p.best_seconds, p.candidates, p.elapsed_seconds);
      return go_on.is_none() || nb::cast<bool>(nb::bool_(go_on));
    } catch (...) {
      raised_ = std::current_exception();
      if (!raised_) wait_for_the_end();  // this thread is unwound
      return false;
    }
  }
  void raise() const {
    if (raised_) std::rethrow_exception(raised_);
  }

 private:
  nb::object callback_;
  std::exception_ptr raised_;
};

TuneResult tune_kernel(nb::handle kernel, const std::string& device, const std::string& target, int beam,
                       double seconds, uint64_t seed, const std::string& database, bool search_again,
                       nb::object progress) {
  if (!progress.is_none() && !nb::isinstance<nb::callable>(progress))
    throw nb::type_error("progress has to be callable");
  const KernelGraph graph = graph_of(kernel);
  Progress state(std::move(progress));
  TuneOptions options;
  options.device = device;
  options.target = target;
  options.beam = beam;
  options.seconds = seconds;
  options.seed = seed;
  options.database = database;
  options.search_again = search_again;
  options.progress = [&state](const TuneProgress& p) { return state(p); };
  TuneResult result;
  {
    const ReleasedGil released;
    result = tune(graph, options);
  }
  state.raise();
  return result;
}

}  // namespace

void bind_devices(nb::module_& m) {
  nb::class_<DeviceSummary>(m, "DeviceSummary", "A device there may be.")
      .def_ro("name", &DeviceSummary::name)
      .def_ro("available", &DeviceSummary::available)
      .def_ro("note", &DeviceSummary::note, "What it is, or why it is absent.")
      .def("__repr__", [](const DeviceSummary& d) {
        return "<quern.DeviceSummary " + d.name + (d.available ? ": " : ", absent: ") + d.note + ">";
      });

  nb::class_<DeviceHandle>(m, "_Device", "An open device; quern.Device opens one.")
      .def(nb::init<const std::string&, const SettingValues&>(), nb::arg("name"), nb::arg("settings"),
           nb::call_guard<ReleasedGil>())
      .def_prop_ro("name", &DeviceHandle::name)
      .def_prop_ro("target", &DeviceHandle::target, "What it compiles for by itself.")
      .def("accepts", &DeviceHandle::accepts, nb::arg("target"),
           "Whether it runs programs of that target. Raises DeviceError.")
      .def("__repr__", [](const DeviceHandle& d) { return "<quern.Device " + d.name() + ">"; });

  nb::class_<CompiledKernel>(m, "Executable", "A compiled kernel, ready to run any number of times, from any thread.")
      .def_prop_ro("name", &CompiledKernel::name)
      .def_prop_ro("source", &CompiledKernel::source)
      .def_prop_ro("target", &CompiledKernel::target)
      .def_prop_ro("opts", &CompiledKernel::opts)
      .def_prop_ro(
          "buffers", [](const CompiledKernel& k) { return k.buffers(); }, "In the order they are passed.")
      .def_prop_ro("vars", [](const CompiledKernel& k) { return k.variables(); })
      .def("run", run, nb::arg("arrays"), nb::kw_only(), nb::arg("vars") = Variables(),
           nb::sig("def run(self, *arrays: object, vars: dict[str, int] = {}) -> float"),
           "Runs once on arrays in the order of `buffers`, Buffers or anything that makes one, and returns the seconds "
           "it took.\n\n"
           "The shape of an array does not matter, only how many elements it has. Raises DeviceError for a wrong "
           "number of arrays, a "
           "type, size or alignment that does not fit, an output that is read-only or shares memory with another "
           "array, a variable "
           "missing or out of bounds; TypeError and ValueError as Buffer.")
      .def("__call__", run, nb::arg("arrays"), nb::kw_only(), nb::arg("vars") = Variables(),
           nb::sig("def __call__(self, *arrays: object, vars: dict[str, int] = {}) -> float"), "As run.")
      .def("__repr__",
           [](const CompiledKernel& k) { return "<quern.Executable " + k.name() + " for " + k.target() + ">"; });

  nb::class_<TuneResult>(m, "TuneResult", "What a search found.")
      .def_ro("opts", &TuneResult::opts, "For compile and Kernel.apply_opts; \"none\" for the plain kernel.")
      .def_ro("seconds", &TuneResult::seconds, "Of the best run.")
      .def_ro("candidates", &TuneResult::candidates)
      .def_ro("complete", &TuneResult::complete, "False: it was ended before a step gained nothing.")
      .def_ro("known", &TuneResult::known, "It was in the database.")
      .def("__repr__", [](const TuneResult& r) { return "<quern.TuneResult " + r.opts + ">"; });

  m.def("targets", list_targets, "Names of all targets.");
  m.def("_devices", list_devices, nb::arg("settings"));
  m.def("_setting_names", setting_names);
  m.def("tune", tune_kernel, nb::arg("ast"), nb::kw_only(), nb::arg("device") = "CPU", nb::arg("target") = "",
        nb::arg("beam") = 4, nb::arg("seconds") = 30.0, nb::arg("seed") = 1, nb::arg("database") = "",
        nb::arg("search_again") = false, nb::arg("progress") = nb::none(),
        nb::sig("def tune(ast: Graph | str, *, device: str = 'CPU', target: str = '', beam: int = 4, seconds: float = "
                "30.0, seed: int = "
                "1, database: str = '', search_again: bool = False, progress: Callable[[float, int, float], bool | "
                "None] | None = None) "
                "-> TuneResult"),
        "Searches for the opts with which a kernel runs fastest on a device of this process; every kernel that may win "
        "gives what the "
        "plain one gives.\n\n"
        "beam: kernels that each step goes on from. database: a file that keeps results, and is looked at first. "
        "progress: called "
        "after each candidate with the best seconds so far, the number of candidates and the seconds gone; False ends "
        "the search with "
        "the best so far. Ctrl-C ends it with KeyboardInterrupt.\n\n"
        "Raises as compile, and Error for a database that cannot be used.");
}

}  // namespace quern::python
