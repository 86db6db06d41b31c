#include <map>
#include <optional>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "binding.h"

namespace quern::python {

namespace {

/// A symbolic size: an int that depends on variables.
struct Symbolic {
  std::string text;
  std::string notation;
  bool operator==(const Symbolic&) const = default;
};

std::string text_of(const PlanOpt& opt) {
  if (!opt.axis) return opt.op;
  return opt.op + "(" + std::to_string(*opt.axis) + (opt.amount ? "," + std::to_string(*opt.amount) : "") + ")";
}

/// An opt as text, "UPCAST(0,4)", or as an Opt.
using OptLike = std::variant<std::string, PlanOpt>;
std::string text_of(const OptLike& opt) {
  return std::holds_alternative<std::string>(opt) ? std::get<std::string>(opt) : text_of(std::get<PlanOpt>(opt));
}

nb::object sizes_of(const std::optional<std::array<Size, 3>>& sizes) {
  if (!sizes) return nb::none();
  return nb::make_tuple(to_python((*sizes)[0]), to_python((*sizes)[1]), to_python((*sizes)[2]));
}

nb::tuple axes_of(const KernelPlan& plan) { return nb::tuple(nb::cast(plan.axes())); }

std::string described(const char* what, const KernelPlan& plan) {
  const std::string opts = plan.applied_text();
  return std::string("<quern.") + what + " " + plan.name() + " for " + plan.target() +
         (opts.empty() ? "" : ": " + opts) + ">";
}

void bind_parts(nb::module_& m) {
  nb::class_<Symbolic>(m, "Symbolic", "A size that depends on the kernel's variables.")
      .def_ro("text", &Symbolic::text, "In infix: \"(n+1)\".")
      .def_ro("notation", &Symbolic::notation, "As nodes in the notation of tinygrad 0.10.0.")
      .def("__str__", [](const Symbolic& s) { return s.text; })
      .def("__repr__", [](const Symbolic& s) { return "<quern.Symbolic " + s.text + ">"; })
      .def(
          "__eq__", [](const Symbolic& a, const Symbolic& b) { return a == b; }, nb::is_operator())
      .def("__hash__", [](const Symbolic& s) { return std::hash<std::string>()(s.notation); });

  nb::class_<PlanOpt>(m, "Opt", "A change of how a kernel runs: Opt(\"UPCAST\", 0, 4). docs/opts.md lists them.")
      .def(nb::init<std::string, std::optional<int>, std::optional<int>>(), nb::arg("op"), nb::arg("axis") = nb::none(),
           nb::arg("amount") = nb::none())
      .def_ro("op", &PlanOpt::op)
      .def_ro("axis", &PlanOpt::axis)
      .def_ro("amount", &PlanOpt::amount)
      .def(
          "__str__", [](const PlanOpt& o) { return text_of(o); }, "\"UPCAST(0,4)\"")
      .def("__repr__", [](const PlanOpt& o) { return "<quern.Opt " + text_of(o) + ">"; })
      .def(
          "__eq__", [](const PlanOpt& a, const PlanOpt& b) { return text_of(a) == text_of(b); }, nb::is_operator())
      .def("__hash__", [](const PlanOpt& o) { return std::hash<std::string>()(text_of(o)); })
      .def("__getstate__", [](const PlanOpt& o) { return std::tuple(o.op, o.axis, o.amount); })
      .def("__setstate__",
           [](PlanOpt& o, const std::tuple<std::string, std::optional<int>, std::optional<int>>& parts) {
             new (&o) PlanOpt{std::get<0>(parts), std::get<1>(parts), std::get<2>(parts)};
           });

  nb::class_<PlanAxis>(m, "Axis", "An axis of a kernel: its size, and how it runs.")
      .def_prop_ro(
          "size", [](const PlanAxis& a) { return to_python(a.size); }, nb::sig("def size(self) -> int | Symbolic"))
      .def_ro("kind", &PlanAxis::kind,
              "global, local, group reduce, mid upcast, reduce, upcast or unroll; of CPUs also thread and partial")
      .def_ro("color", &PlanAxis::color,
              "The kind as tinygrad colours it: blue, cyan, green, white, red, yellow, magenta.")
      .def("__repr__", [](const PlanAxis& a) { return "<quern.Axis " + a.size.text + " " + a.kind + ">"; });

  nb::class_<VariableArgument>(m, "Variable", "A number to give when the kernel runs, and its inclusive bounds.")
      .def_ro("name", &VariableArgument::name)
      .def_ro("min", &VariableArgument::min)
      .def_ro("max", &VariableArgument::max)
      .def("__repr__", [](const VariableArgument& v) {
        return "<quern.Variable " + v.name + " in " + std::to_string(v.min) + ".." + std::to_string(v.max) + ">";
      });

  nb::class_<BufferArgument>(m, "BufferArgument", "A kernel's buffer: which number it has, and what it must hold.")
      .def_ro("number", &BufferArgument::number)
      .def_prop_ro("dtype", [](const BufferArgument& b) { return std::string(to_string(b.type)); })
      .def_ro("elements", &BufferArgument::elements, "At least so many.")
      .def_ro("is_output", &BufferArgument::is_output)
      .def("__repr__", [](const BufferArgument& b) {
        return "<quern.BufferArgument " + std::to_string(b.number) + ": " + std::to_string(b.elements) + " " +
               std::string(to_string(b.type)) + (b.is_output ? ", written>" : ">");
      });

  nb::class_<RunEstimates>(m, "Estimates", "What a run costs, by the program.")
      .def_prop_ro(
          "ops", [](const RunEstimates& e) { return to_python(e.ops); }, nb::sig("def ops(self) -> int | Symbolic"))
      .def_prop_ro(
          "load_store_bytes", [](const RunEstimates& e) { return to_python(e.load_store_bytes); },
          nb::sig("def load_store_bytes(self) -> int | Symbolic"))
      .def_prop_ro(
          "buffer_bytes", [](const RunEstimates& e) { return to_python(e.buffer_bytes); },
          nb::sig("def buffer_bytes(self) -> int | Symbolic"));
}

void bind_program(nb::module_& m) {
  nb::class_<KernelProgram>(m, "Program", "A kernel's program for a target: its source, and what launching it takes.")
      .def_prop_ro("name", &KernelProgram::name, "Of the function.")
      .def_prop_ro("source", &KernelProgram::source, "In the target's language.")
      .def_prop_ro("target", &KernelProgram::target)
      .def_prop_ro("opts", &KernelProgram::opts, "The opts that were applied: \"UPCAST(0,4) LOCAL(0,8)\".")
      .def_prop_ro(
          "global_size", [](const KernelProgram& p) { return sizes_of(p.global_size()); },
          nb::sig("def global_size(self) -> tuple[int | Symbolic, int | Symbolic, int | Symbolic] | None"),
          "Groups of threads, of three axes; None on targets without threads.")
      .def_prop_ro(
          "local_size", [](const KernelProgram& p) { return sizes_of(p.local_size()); },
          nb::sig("def local_size(self) -> tuple[int | Symbolic, int | Symbolic, int | Symbolic] | None"),
          "Threads of a group, of three axes; None where there are none, or the driver may choose.")
      .def_prop_ro(
          "vars", [](const KernelProgram& p) { return p.variables(); }, "Variables in the order they are passed.")
      .def_prop_ro(
          "buffers", [](const KernelProgram& p) { return p.buffers(); }, "Buffers in the order they are passed.")
      .def_prop_ro(
          "globals",
          [](const KernelProgram& p) {
            std::vector<int> numbers;
            for (const BufferArgument& b : p.buffers()) numbers.push_back(b.number);
            return numbers;
          },
          "Numbers of the buffers in the order they are passed.")
      .def_prop_ro(
          "outs", [](const KernelProgram& p) { return p.outputs(); }, "Numbers of the buffers that are written.")
      .def_prop_ro("estimates", [](const KernelProgram& p) { return p.estimates(); })
      .def_prop_ro("num_uops", &KernelProgram::num_uops, "Length of the linear program.")
      .def_prop_ro("linear", &KernelProgram::linear_text, "The linear program, a UOp a line.")
      .def_prop_ro("linear_notation", &KernelProgram::linear_notation,
                   "The linear program in the notation of tinygrad 0.10.0: the sources, in order, of one NOOP.")
      .def(
          "load",
          [](const KernelProgram& p, const std::variant<std::string, DeviceHandle>& device) {
            const ReleasedGil released;
            if (const std::string* name = std::get_if<std::string>(&device)) return p.compile(*name);
            return p.compile(std::get<DeviceHandle>(device));
          },
          nb::arg("device") = "CPU",
          "Compiles the source for a device of this process, given by name or open. Raises CompileError, or "
          "DeviceError where the "
          "device is not here or does not run programs of this target.")
      .def("__repr__",
           [](const KernelProgram& p) { return "<quern.Program " + p.name() + " for " + p.target() + ">"; });
}

void bind_plan(nb::module_& m) {
  nb::class_<KernelPlan>(
      m, "Kernel",
      "A kernel with its axes laid out for a target, and the opts that did it.\n\n"
      "ast: a Graph, or text in the notation of tinygrad 0.10.0. tensor_cores: 0 none, 1 the instruction, 2 only "
      "its shape, 3 emulated through local memory.\n\n"
      "Raises ParseError, InvalidKernel, or DeviceError for a target there is not.")
      .def(
          "__init__",
          [](KernelPlan* self, nb::handle ast, const std::string& target, int tensor_cores, bool allow_tf32) {
            if (nb::isinstance<nb::str>(ast)) {
              auto text = nb::cast<std::string>(ast);
              const ReleasedGil released;
              new (self) KernelPlan(std::move(text), target, {tensor_cores, allow_tf32});
            } else {
              const KernelGraph graph = graph_of(ast);
              const ReleasedGil released;
              new (self) KernelPlan(graph, target, {tensor_cores, allow_tf32});
            }
          },
          nb::arg("ast"), nb::arg("target") = "clang", nb::kw_only(), nb::arg("tensor_cores") = 1,
          nb::arg("allow_tf32") = false,
          nb::sig("def __init__(self, ast: Graph | str, target: str = 'clang', *, tensor_cores: int = 1, allow_tf32: "
                  "bool = False) "
                  "-> None"))
      .def(
          "apply_opt",
          [](KernelPlan& k, const OptLike& opt) {
            const std::string text = text_of(opt);
            if (const std::optional<std::string> why = k.try_apply(text)) k.apply(text);  // raises, with its words
          },
          nb::arg("opt"),
          "Applies one opt, \"UPCAST(0,4)\" or an Opt; raises OptError, and leaves all as it was, if it does not "
          "apply.")
      .def(
          "try_apply_opt", [](KernelPlan& k, const OptLike& opt) { return k.try_apply(text_of(opt)); }, nb::arg("opt"),
          "Applies one opt and returns None, or the reason why it does not apply. Raises OptError for text that is no "
          "opt.")
      .def(
          "apply_opts", [](KernelPlan& k, const std::string& opts) { k.apply(opts); }, nb::arg("opts"),
          "Applies opts separated by spaces. Raises OptError; those before the one that does not apply stay.")
      .def("optimize", &KernelPlan::optimize, nb::arg("opts") = "heuristic", nb::call_guard<ReleasedGil>(),
           "On a kernel without opts: applies \"heuristic\" (tensor cores where they fit, else the heuristics of "
           "tinygrad 0.10.0), \"none\" "
           "(only what the target demands), or a list, \"UPCAST(0,4) LOCAL(1,8)\". Raises OptError.")
      .def("required_optimizations", &KernelPlan::apply_required, nb::call_guard<ReleasedGil>(),
           "What the target demands before anything else (images: an upcast of 4).")
      .def("hand_coded_optimizations", &KernelPlan::apply_hand_coded, nb::call_guard<ReleasedGil>(),
           "The heuristics of tinygrad 0.10.0, with their required optimizations.")
      .def(
          "apply_tensor_cores",
          [](KernelPlan& k, int amount, int axis, const std::optional<std::vector<OptLike>>& extra) {
            std::optional<std::string> opts;
            if (extra) {
              opts.emplace();
              for (const OptLike& opt : *extra) *opts += text_of(opt) + " ";
            }
            return k.apply_tensor_cores(amount, axis, opts);
          },
          nb::arg("amount") = 0, nb::arg("axis") = 0, nb::arg("extra") = nb::none(),
          "Tries tensor cores; amount 0: plain matmuls, 1: casts and several reduce axes too, 2: padded axes too. Then "
          "come the opts "
          "of `extra`, or the hand-coded ones. False if one of them does not apply; what was applied before it stays "
          "then.")
      .def_prop_ro("name", &KernelPlan::name, "\"r_16_4_4\": of the function that compile gives.")
      .def_prop_ro("target", &KernelPlan::target)
      .def_prop_ro("applied_opts", &KernelPlan::applied_opts)
      .def_prop_ro("opts", &KernelPlan::applied_text, "The same as text, for apply_opts and compile.")
      .def_prop_ro("axes", axes_of, nb::sig("def axes(self) -> tuple[Axis, ...]"))
      .def_prop_ro(
          "tensor_core",
          [](const KernelPlan& k) {
            const std::string name = k.tensor_core();
            return name.empty() ? std::optional<std::string>() : name;
          },
          "The tensor core in use, \"WMMA_8_16_16_half_float\", or None.")
      .def("legal_opts", &KernelPlan::legal_opts, nb::arg("max_lanes") = 256, nb::arg("max_threads") = 1024,
           "The search's opts that are legal here: pairs of their number in its list, from 1, and the Opt. Those that "
           "lead to more "
           "lanes or threads are left out.")
      .def_prop_ro("text", &KernelPlan::kernel_text, "The kernel itself in the notation of tinygrad 0.10.0.")
      .def_prop_ro("optimized_text", &KernelPlan::optimized_text, "The same with every view in the laid out shape.")
      .def("compile", &KernelPlan::compile, nb::arg("name") = "", nb::call_guard<ReleasedGil>(),
           "Lowers and renders it; the function has this name, or its own. Raises InvalidKernel for a name that is "
           "none, or where the "
           "target cannot express the kernel.")
      .def(
          "copy", [](const KernelPlan& k) { return KernelPlan(k); }, "Goes its own way from here.")
      .def("__copy__", [](const KernelPlan& k) { return KernelPlan(k); })
      .def(
          "__deepcopy__", [](const KernelPlan& k, nb::handle) { return KernelPlan(k); }, nb::arg("memo"))
      .def("__repr__", [](const KernelPlan& k) { return described("Kernel", k); });
}

}  // namespace

nb::object to_python(const Size& size) {
  if (size.value) return nb::int_(*size.value);
  return nb::cast(Symbolic{size.text, size.notation});
}

KernelGraph graph_of(nb::handle kernel) {
  if (nb::isinstance<KernelGraph>(kernel)) return nb::cast<KernelGraph>(kernel);
  if (!nb::isinstance<nb::str>(kernel))
    throw nb::type_error(
        ("a kernel is a Graph or text, not a " + nb::cast<std::string>(nb::str(kernel.type().attr("__name__"))))
            .c_str());
  const auto text = nb::cast<std::string>(kernel);
  const ReleasedGil released;
  return KernelGraph::from_text(text);
}

void bind_kernels(nb::module_& m) {
  bind_parts(m);
  nb::class_<KernelGraph>(m, "Graph", "A kernel that is not compiled yet: what is computed, but not how.")
      .def_prop_ro("text", &KernelGraph::text, "In the notation of tinygrad 0.10.0, on one line.")
      .def_prop_ro("indented_text", &KernelGraph::indented_text, "The same with a node a line.")
      .def("__str__", &KernelGraph::indented_text)
      .def("__repr__", [](const KernelGraph&) { return "<quern.Graph>"; })
      .def("__getstate__", &KernelGraph::text)
      .def("__setstate__",
           [](KernelGraph& g, const std::string& text) { new (&g) KernelGraph(KernelGraph::from_text(text)); });
  m.def(
      "parse", [](const std::string& text) { return KernelGraph::from_text(text); }, nb::arg("text"),
      nb::call_guard<ReleasedGil>(),
      "Reads a kernel in the notation of tinygrad 0.10.0 (the repr of its AST). Raises ParseError with the place, or "
      "InvalidKernel.");
  bind_program(m);
  bind_plan(m);
}

}  // namespace quern::python
