"""QUERN_TINYGRAD is set: installs quern.tinygrad as soon as a program has imported tinygrad. quern_tinygrad.pth imports this."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys


class _Loader(importlib.abc.Loader):
    """Loads tinygrad as its own loader does, then installs Quern in it."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module) -> None:
        self._loader.exec_module(module)
        module.__spec__.loader = self._loader
        mode = os.environ.get("QUERN_TINYGRAD", "1")
        if mode not in ("1", "compare"):
            raise ValueError(f"QUERN_TINYGRAD takes 0, 1 or compare, not {mode!r}")
        import quern.tinygrad
        quern.tinygrad.install(compare=mode == "compare")


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "tinygrad":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


sys.meta_path.insert(0, _Finder())
