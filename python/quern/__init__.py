"""Quern compiles tensor kernels: it takes a kernel as a small graph of operations on views of buffers, decides how to run it on a
target, gives its source, and runs it on the devices of this machine.

    import numpy, quern
    text = open("examples/kernels/matmul.kernel").read()      # the notation of tinygrad 0.10.0
    out, a, b = numpy.zeros((256, 256), "f4"), numpy.ones((256, 256), "f4"), numpy.ones((256, 256), "f4")
    kernel = quern.compile(text, "CPU")
    kernel.run(out, a, b)                                     # no copies; seconds

    plan = quern.Kernel(text, "cuda:sm_80")
    plan.apply_opt("UPCAST(0,4)")
    print(plan.axes, plan.compile().source)

docs/python.md tells the rest. Compiling, running and tuning release the GIL.
"""

from __future__ import annotations

import os
import threading

from . import _native
from ._native import (
    Axis,
    Buffer,
    BufferArgument,
    CompileError,
    DeviceError,
    DeviceSummary,
    Error,
    Estimates,
    Executable,
    Graph,
    InternalError,
    InvalidKernel,
    Kernel,
    Opt,
    OptError,
    ParseError,
    Program,
    Symbolic,
    TuneResult,
    Variable,
    __version__,
    parse,
    targets,
    tune,
)

__all__ = [
    "Axis", "Buffer", "BufferArgument", "CompileError", "Device", "DeviceError", "DeviceSummary", "Error", "Estimates",
    "Executable", "Graph", "InternalError", "InvalidKernel", "Kernel", "Opt", "OptError", "ParseError", "Program", "Symbolic",
    "TuneResult", "Variable", "__version__", "compile", "devices", "parse", "run", "targets", "tune",
]

# What devices and their caches go by. The environment is read once, here.
_DEVICE_SETTINGS = ("CC", "PATH", "TMPDIR", "XDG_CACHE_HOME", "HOME", "CUDA_PATH")
_environment = {
    name: os.environ[name]
    for name in _native._setting_names()
    if name in os.environ and (name.startswith("QUERN_") or name in _DEVICE_SETTINGS)
}


class Device(_native._Device):
    """An open device of this process: CPU, CLANG, OPENCL, CUDA or INTERP. It may be used by several threads at once.

    settings: those that `quern settings` lists, such as CC="gcc" or QUERN_CACHE="off"; they win over the environment's, which are
    read when quern is imported.

    Raises DeviceError that says what is missing, Error for a setting there is not.
    """

    def __init__(self, name: str = "CPU", **settings: str) -> None:
        super().__init__(name, _environment | settings)


_open_devices: dict[str, Device] = {}
_opening = threading.Lock()


def _device(device: str | Device) -> Device:
    if isinstance(device, Device):
        return device
    if not isinstance(device, str):
        raise TypeError(f"a device is a Device or its name, not a {type(device).__name__}")
    with _opening:
        if device not in _open_devices:
            _open_devices[device] = Device(device)
        return _open_devices[device]


def devices() -> list[DeviceSummary]:
    """The devices there are, the default one first, and why others are absent."""
    return _native._devices(_environment)


def compile(ast: Graph | str | Kernel | Program, device: str | Device = "CPU", *, target: str = "",
            opts: str | None = None) -> Executable:
    """Compiles a kernel for a device of this process.

    ast: a Graph or text, which `opts` ("heuristic" by default, "none", or "UPCAST(0,4) LOCAL(1,8)") and `target` (the device's own
    by default) apply to; or a Kernel or Program, which has both.

    Raises ParseError, InvalidKernel, OptError, CompileError or DeviceError.
    """
    device = _device(device)
    if isinstance(ast, (Kernel, Program)):
        if target or opts is not None:
            raise TypeError(f"a {type(ast).__name__} has a target and opts of its own")
        program = ast if isinstance(ast, Program) else ast.compile()
    else:
        kernel = Kernel(ast, target or device.target)
        kernel.optimize("heuristic" if opts is None else opts)
        program = kernel.compile()
    return program.load(device)


def run(kernel: Executable | Graph | str | Kernel | Program, *arrays: object, device: str | Device = "CPU",
        vars: dict[str, int] = {}) -> float:
    """Runs a kernel once and returns the seconds it took, without what compiling took.

    arrays: in the order of the kernel's buffers (Program.buffers), Buffers or anything that makes one. A kernel that is to run
    more than once is better compiled first.

    Raises as compile and Executable.run.
    """
    executable = kernel if isinstance(kernel, Executable) else compile(kernel, device)
    return executable.run(*arrays, vars=vars)
