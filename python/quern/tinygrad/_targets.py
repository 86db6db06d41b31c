"""Which of Quern's targets and devices stands for which of tinygrad's renderers."""

from __future__ import annotations

from tinygrad.renderer import Renderer

_TARGETS = {"LLVMRenderer": "llvm", "OpenCLRenderer": "opencl", "IntelRenderer": "intel", "QCOMRenderer": "qcom",
            "MetalRenderer": "metal", "AMDRenderer": "hip:gfx1100", "HIPRenderer": "hip:gfx1100", "NVRenderer": "nv"}
_DEVICES = {"CLANG": "CLANG", "LLVM": "CPU", "GPU": "OPENCL", "CUDA": "CUDA"}


def _compute_capability(renderer: Renderer) -> int:
    """The newest machine that Quern has a target for and this one is at least."""
    arch = int("".join(c for c in renderer.arch.split("_")[1] if c.isdigit()))
    return max((sm for sm in (75, 80, 90) if sm <= arch), default=75)


def target_of(renderer: Renderer) -> str | None:
    """The target for a renderer of tinygrad's; None for those that Quern does not stand in for (PYTHON, DSP, a class of the user's
    own)."""
    kind = type(renderer).__name__
    if not type(renderer).__module__.startswith("tinygrad."):
        return None
    if kind == "ClangRenderer":
        return "clang:amx" if renderer.tensor_cores else "clang"
    if kind == "CUDARenderer":
        return f"cuda:sm_{_compute_capability(renderer)}"
    if kind == "PTXRenderer":
        return f"ptx:sm_{_compute_capability(renderer)}"
    return _TARGETS.get(kind)


def device_of(renderer: Renderer) -> str | None:
    """The device of Quern's that searches for a renderer's kernels; None where Quern runs none of its programs."""
    return _DEVICES.get(renderer.device)
