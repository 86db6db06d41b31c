"""Puts Quern into tinygrad and takes it out again."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import pathlib
import re
import threading
import warnings
from dataclasses import dataclass

VERSION = "0.10.0"


class TinygradVersionError(ImportError):
    """tinygrad is absent, or another version than the one whose decisions Quern makes."""


class DifferenceWarning(UserWarning):
    """compare mode: Quern decided otherwise than tinygrad."""


@dataclass(frozen=True)
class Difference:
    """One kernel, and what Quern and tinygrad decided differently for it: (field, Quern's, tinygrad's)."""

    kernel: str
    target: str
    fields: tuple[tuple[str, str, str], ...]

    def __str__(self) -> str:
        lines = [f"target {self.target}: {name}: Quern has {ours}, tinygrad {theirs}" for name, ours, theirs in self.fields]
        return "\n".join([*lines, self.kernel])


differences: list[Difference] = []  # what install(compare=True) found

_lock = threading.RLock()
_installed = None


def _version() -> str:
    """Of the tinygrad that is imported here. It has no version number of its own: a checkout tells it in setup.py."""
    spec = importlib.util.find_spec("tinygrad")
    if spec is None or spec.origin is None:
        raise TinygradVersionError(f"tinygrad is not installed: pip install tinygrad=={VERSION}")
    setup = pathlib.Path(spec.origin).parent.parent / "setup.py"
    found = re.search(r"version\s*=\s*['\"]([^'\"]+)", setup.read_text()) if setup.exists() else None
    if found:
        return found[1]
    try:
        return importlib.metadata.version("tinygrad")
    except importlib.metadata.PackageNotFoundError:
        return "of an unknown version"


def _check_version() -> None:
    if (version := _version()) != VERSION:
        raise TinygradVersionError(f"quern.tinygrad stands in for the kernel compiler of tinygrad {VERSION}, and this is {version}: "
                                   f"pip install tinygrad=={VERSION}")


def is_installed() -> bool:
    return _installed is not None


def install(*, compare: bool = False) -> None:
    """Every kernel is Quern's from now on; those that were compiled before stay as they are.

    compare: tinygrad also optimizes and lowers each kernel itself; what it decides differently (opts, axes, launch dims, name) is a
    DifferenceWarning and in `differences`.

    Raises TinygradVersionError for another version than 0.10.0. Installing again only sets `compare`.
    """
    global _installed
    with _lock:
        if _installed is None:
            _check_version()
            from ._patches import Installation
            _installed = Installation()
        _installed.compare = compare


def uninstall() -> None:
    """tinygrad is as it was; nothing happens if Quern is not installed."""
    global _installed
    with _lock:
        if _installed is not None:
            _installed.remove()
            _installed = None


def report(difference: Difference) -> None:
    differences.append(difference)
    warnings.warn(str(difference), DifferenceWarning, stacklevel=2)
