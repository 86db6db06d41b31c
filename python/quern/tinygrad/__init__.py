"""tinygrad 0.10.0 with Quern as its kernel compiler.

    import quern.tinygrad
    quern.tinygrad.install()

From then on every kernel for CLANG, LLVM, GPU (OpenCL), CUDA, NV, METAL, AMD and QCOM is optimized, lowered and rendered by Quern, and
BEAM searches with it; tinygrad compiles, launches and times what comes out. `python -m quern.tinygrad script.py` and
QUERN_TINYGRAD=1 in the environment do it for programs that know nothing of it.

What Quern raises surfaces as it is, with the kernel attached as text: in the message, and as `error.kernel`.
"""

from __future__ import annotations

from ._install import Difference, DifferenceWarning, TinygradVersionError, differences, install, is_installed, uninstall

__all__ = ["Difference", "DifferenceWarning", "TinygradVersionError", "differences", "install", "is_installed", "uninstall"]
