"""The methods and attributes that tinygrad's Kernel has while Quern is installed.

A Kernel holds a quern.Kernel, its plan, and all of its state is the plan's. What of the reference's own state has no counterpart there
(views of buffers, parts of the AST) is computed by the reference when it is asked for, and only looked at.

A Kernel for a renderer that Quern does not stand in for has no plan: everything about it is the reference's.
"""

from __future__ import annotations

import functools
from typing import Callable, Optional

import quern
from tinygrad.codegen.kernel import Kernel, KernelOptError, Opt, OptOps
from tinygrad.device import Device
from tinygrad.helpers import DEBUG, TC_OPT, USE_TC, colored, getenv, to_function_name
from tinygrad.ops import UOp, print_uops, sint
from tinygrad.renderer import Renderer

from ._notation import notation, uop_of
from ._program import LinearUOps, QuernProgram, program_of, size_of
from ._targets import target_of

# ---- errors ----


def attach_kernel(error: BaseException, kernel: str, target: str, opts: str) -> None:
    """Tells which kernel it was: in the message, for a bug report, and as error.kernel."""
    if getattr(error, "kernel", None) is not None:
        return
    error.kernel = kernel
    note = f"the kernel, for a bug report (target {target}, opts: {opts or 'none'}):\n{kernel}"
    if isinstance(error, quern.Error) or not hasattr(error, "add_note"):
        error.args = ("\n".join([*map(str, error.args[:1]), note]), *error.args[1:])
    else:
        error.add_note(note)


class telling_kernel:  # noqa: N801: used as a statement
    """with telling_kernel(self): what Quern raises inside has the kernel attached."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind, error, trace) -> None:
        if isinstance(error, quern.Error):
            plan = self._kernel.__dict__.get("_plan")
            attach_kernel(error, notation(self._kernel.ast), self._kernel._target, plan.opts if plan else "")


# ---- opts ----


def opt_text(opt: Opt) -> str:
    if opt.axis is None:
        return opt.op.name
    return f"{opt.op.name}({opt.axis})" if opt.amt is None else f"{opt.op.name}({opt.axis},{opt.amt})"


def opt_of(opt: quern.Opt) -> Opt:
    return Opt(OptOps[opt.op], opt.axis, opt.amount)


def plan_of(ast: UOp, opts: Renderer, target: str) -> quern.Kernel:
    return quern.Kernel(notation(ast), target, tensor_cores=_tensor_cores(opts), allow_tf32=bool(getenv("ALLOW_TF32")))


def _tensor_cores(opts: Renderer) -> int:
    return USE_TC.value if opts.tensor_cores or USE_TC.value == 2 else 0


# ---- what replaces the methods: only for kernels with a plan ----


def _init(self: Kernel, ast: UOp, opts: Renderer, target: str) -> None:
    self.ast, self.opts, self._target = ast, opts, target
    self._calls = []  # the methods that gave it its opts, for compare mode
    with telling_kernel(self):
        self._plan = plan_of(ast, opts, target)


def _copy(self: Kernel) -> Kernel:
    new = type(self).__new__(type(self))
    new.ast, new.opts, new._target, new._plan, new._calls = self.ast, self.opts, self._target, self._plan.copy(), self._calls[:]
    return new


def _reduce(self: Kernel):
    return _rebuilt, (self.ast, self.opts, self._plan.opts)


def _rebuilt(ast: UOp, opts: Renderer, applied: str) -> Kernel:
    from ._install import install, is_installed
    if not is_installed():  # in another process
        install()
    return with_opts(Kernel(ast, opts), applied)


def with_opts(kernel: Kernel, opts: str) -> Kernel:
    """A kernel without opts gets these: "none", or separated by spaces."""
    with telling_kernel(kernel):
        kernel._plan.optimize(opts or "none")
    kernel._calls = [("apply_opt", (opt,), {}) for opt in kernel.applied_opts]
    return kernel


def _apply_opt(self: Kernel, opt: Opt, append_opt: bool = True) -> None:
    if not append_opt:
        raise NotImplementedError("with Quern installed, every opt that is applied is in applied_opts")
    if opt.op is OptOps.TC and not self._plan.applied_opts:
        self._plan = plan_of(self.ast, self.opts, self._target)  # TC may have been set since
    with telling_kernel(self):
        try:
            why = self._plan.try_apply_opt(opt_text(opt))
        except quern.OptError as e:
            raise KernelOptError(str(e)) from e
    if why is not None:
        raise KernelOptError(why)


def _required_optimizations(self: Kernel) -> Kernel:
    with telling_kernel(self):
        self._plan.required_optimizations()
    return self


def _hand_coded_optimizations(self: Kernel) -> Kernel:
    with telling_kernel(self):
        self._plan.hand_coded_optimizations()
    return self


def _apply_tensor_cores(self: Kernel, use_tensor_cores: int = 1, extra_opts: Optional[list[Opt]] = None, axis: int = 0,
                        tc_opt: Optional[int] = None) -> bool:
    if tc_opt is None:
        tc_opt = TC_OPT.value
    if not self.opts.tensor_cores and use_tensor_cores != 2:
        return False
    extra = None if extra_opts is None else [opt_text(opt) for opt in extra_opts]
    with telling_kernel(self):
        return self._plan.apply_tensor_cores(tc_opt, axis, extra)


def _number_of(name: str) -> str:
    """tinygrad makes names unique: the second of a name ends in n1."""
    Kernel.kernel_cnt[name] += 1
    return f"n{count - 1}" if (count := Kernel.kernel_cnt[name]) > 1 else ""


_colored = functools.lru_cache(maxsize=4096)(colored)


def _get_name(self: Kernel) -> str:
    if "_name" not in self.__dict__:
        plan = self._plan
        plain = plan.name
        parts = [_colored(axis.size if isinstance(axis.size, int) else axis.size.text, axis.color) for axis in plan.axes]
        name = f"{plain[:plain.index('_')]}_{_colored('_', 'BLACK').join(parts)}"
        if to_function_name(name) != plain:
            name = plain  # a long one, which Quern shortens
        self._name = name + _colored(_number_of(plain), "BLACK")
    return self._name


def _get_optimized_ast(self: Kernel) -> UOp:
    with telling_kernel(self):
        return uop_of(self._plan.optimized_text)


def _plan_again(self: Kernel) -> Callable[[], quern.Kernel]:
    return functools.partial(plan_of, self.ast, self.opts, self._target)


def _linearize(self: Kernel) -> Kernel:
    with telling_kernel(self):
        self.uops = LinearUOps(self._plan.compile(), self.ast, _plan_again(self))
    return self


def _to_program(self: Kernel, name_override: Optional[str] = None) -> QuernProgram:
    name = name_override if name_override is not None else self.name
    if DEBUG >= 3:
        print(self.name)
        if getenv("RAWAST"):
            print(self.ast)
        print(self.applied_opts)
    with telling_kernel(self):
        program = self._plan.compile(to_function_name(name))
        made = program_of(program, name, self.opts.device, self.ast, _plan_again(self))
    self.uops = made.uops
    if DEBUG >= 5:
        print_uops(list(made.uops))
    return made


def _refused(name: str) -> Callable:
    def refuse(self: Kernel, *args, **kwargs):
        raise NotImplementedError(f"with Quern installed, a Kernel's axes change by opts alone, not by {name}")
    return refuse


METHODS = {
    "__init__": _init, "copy": _copy, "apply_opt": _apply_opt, "required_optimizations": _required_optimizations,
    "hand_coded_optimizations": _hand_coded_optimizations, "apply_tensor_cores": _apply_tensor_cores,
    "get_optimized_ast": _get_optimized_ast, "linearize": _linearize, "to_program": _to_program,
    "colors": lambda self: [axis.color for axis in self._plan.axes],
    **{name: _refused(name) for name in ("reshape_and_permute", "upcast", "shift_to", "simplify_ones", "simplify_merge_adjacent",
                                         "_create_tc_opts", "_apply_tc_opt")},
}

OPT_METHODS = ("apply_opt", "required_optimizations", "hand_coded_optimizations", "apply_tensor_cores")

# ---- what replaces the attributes ----


def _count(*kinds: str) -> Callable[[Kernel], int]:
    return lambda self: sum(axis.kind in kinds for axis in self._plan.axes)


def _tensor_core(self: Kernel):
    name = self._plan.tensor_core
    return next((core for core in self.opts.tensor_cores if str(core) == name), None)


def _full_shape(self: Kernel) -> tuple[sint, ...]:
    return tuple(size_of(axis.size) for axis in self._plan.axes)


_GROUPS = ("group reduce", "mid upcast")
ATTRIBUTES = {
    "applied_opts": lambda self: [opt_of(opt) for opt in self._plan.applied_opts],
    "full_shape": _full_shape,
    "shape_len": lambda self: len(self._plan.axes),
    "global_dims": _count("global"),
    "local_dims": _count("local"),
    "first_reduce": _count("global", "local"),
    "group_for_reduces": _count(*_GROUPS),
    "upcasted": _count("upcast", "unroll"),
    "first_upcast": _count("global", "local", "reduce", *_GROUPS),
    "dont_use_locals": lambda self: any(opt.op == "NOLOCALS" for opt in self._plan.applied_opts),
    "tensor_core": _tensor_core,
    "use_tensor_cores": lambda self: USE_TC.value if self._plan.tensor_core else 0,
    "name": _get_name,
}

# Of the reference's state, computed by the reference.
REFERENCE_STATE = ("bufs", "sts", "reduceops", "vars", "full_buf_index", "tensor_core_opts", "bufs_for_tensor_core")


class Patches:
    """Puts these into tinygrad's Kernel, and takes them out again."""

    def __init__(self) -> None:
        self._originals = {name: Kernel.__dict__.get(name) for name in
                           (*METHODS, *ATTRIBUTES, "__reduce__", "__getattr__")}
        own = {name: value for name, value in Kernel.__dict__.items() if name not in ("__dict__", "__weakref__")}
        # The reference as it is: what Quern does not replace it takes from Kernel.
        self.reference = type("ReferenceKernel", (Kernel,), {k: v for k, v in own.items() if k not in ("kernel_cnt",)})

    def reference_of(self, kernel: Kernel) -> Kernel:
        """The reference's kernel with the same opts."""
        applied = kernel._plan.opts
        if kernel.__dict__.get("_reference_opts") != applied:
            reference = self.reference(kernel.ast, opts=kernel.opts)
            for opt in kernel.applied_opts:
                reference.apply_opt(opt)
            kernel._reference, kernel._reference_opts = reference, applied
        return kernel._reference

    def put(self) -> None:
        for name, new in METHODS.items():
            setattr(Kernel, name, self._method(name, new))
        for name, new in ATTRIBUTES.items():
            setattr(Kernel, name, self._attribute(name, new))
        patches = self

        def getattr_(self: Kernel, name: str):
            if name in REFERENCE_STATE and "_plan" in self.__dict__:
                return getattr(patches.reference_of(self), name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def reduce_(self: Kernel):
            return _reduce(self) if "_plan" in self.__dict__ else object.__reduce__(self)

        Kernel.__getattr__, Kernel.__reduce__ = getattr_, reduce_

    def take_out(self) -> None:
        for name, original in self._originals.items():
            if original is not None:
                setattr(Kernel, name, original)
            elif name in Kernel.__dict__:
                delattr(Kernel, name)

    def _method(self, name: str, new: Callable) -> Callable:
        original = self._originals[name]
        if name == "__init__":
            def init(self: Kernel, ast: UOp, opts: Optional[Renderer] = None) -> None:
                if opts is None:
                    opts = Device[Device.DEFAULT].renderer
                target = target_of(opts)
                if target is None:
                    original(self, ast, opts)
                else:
                    new(self, ast, opts, target)
            return functools.wraps(original)(init)

        def method(self: Kernel, *args, **kwargs):
            if "_plan" not in self.__dict__:
                return original(self, *args, **kwargs)
            result = new(self, *args, **kwargs)
            if name in OPT_METHODS:
                self._calls.append((name, args, kwargs))
            return result
        return functools.wraps(original)(method)

    def _attribute(self, name: str, new: Callable) -> property:
        original = self._originals[name]

        def get(self: Kernel):
            if "_plan" in self.__dict__:
                return new(self)
            if name in self.__dict__:
                return self.__dict__[name]
            if original is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return original.__get__(self, type(self))

        def set_(self: Kernel, value) -> None:
            if "_plan" in self.__dict__:
                raise AttributeError(f"with Quern installed, a Kernel's {name} changes by opts alone")
            self.__dict__[name] = value

        return property(get, set_)
