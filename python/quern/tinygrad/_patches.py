"""All that is replaced in tinygrad, beside its Kernel: the search, and what compiles a program."""

from __future__ import annotations

import functools
import os
import sys

import quern
import tinygrad.engine.realize as realize
import tinygrad.engine.search as search
import tinygrad.runtime.ops_clang as ops_clang
from tinygrad.codegen.kernel import Kernel
from tinygrad.device import Buffer
from tinygrad.helpers import CACHELEVEL, DEBUG, diskcache_get, diskcache_put, getenv

from ._install import Difference, report
from ._kernel import Patches, attach_kernel, opt_text, with_opts
from ._notation import notation
from ._program import LinearUOps, QuernProgram
from ._targets import device_of, target_of


class Installation:
    def __init__(self) -> None:
        self.compare = False
        self._patches = Patches()
        self._replaced: list[tuple[object, str, object]] = []
        self._patches.put()
        self._wrap_to_program()
        self._replace(realize.CompiledRunner, "__init__", _compiled_runner_init(realize.CompiledRunner.__init__))
        self._replace(ops_clang.ClangCompiler, "compile", _clang_compile(ops_clang.ClangCompiler.compile))
        self._replace_everywhere(search.beam_search, _beam_search(search.beam_search))

    def remove(self) -> None:
        for owner, name, original in reversed(self._replaced):
            setattr(owner, name, original)
        self._patches.take_out()

    def _replace(self, owner: object, name: str, new: object) -> None:
        self._replaced.append((owner, name, getattr(owner, name)))
        setattr(owner, name, new)

    def _replace_everywhere(self, original: object, new: object) -> None:
        """In the module that has it, and in those that imported it from there."""
        for module in list(sys.modules.values()):
            for name, value in list(getattr(module, "__dict__", {}).items()):
                if value is original:
                    self._replace(module, name, new)

    def _wrap_to_program(self) -> None:
        to_program = Kernel.to_program
        installation = self

        @functools.wraps(to_program)
        def compared(self: Kernel, *args, **kwargs):
            made = to_program(self, *args, **kwargs)
            if installation.compare and isinstance(made, QuernProgram):
                installation._compare(self, made)
            return made
        Kernel.to_program = compared

    def _compare(self, kernel: Kernel, made: QuernProgram) -> None:
        """The reference gets the same kernel: to decide for itself where the heuristics did, else with the same opts."""
        fields = []

        def check(name: str, ours: object, theirs: object) -> None:
            if str(ours) != str(theirs):
                fields.append((name, str(ours), str(theirs)))

        try:
            reference = self._patches.reference(kernel.ast, opts=kernel.opts)
            for name, args, kwargs in kernel._calls:
                getattr(reference, name)(*args, **kwargs)
            check("opts", [opt_text(o) for o in kernel.applied_opts], [opt_text(o) for o in reference.applied_opts])
            check("axes", [(str(s), c) for s, c in zip(kernel.full_shape, kernel.colors())],
                  [(str(s), c) for s, c in zip(reference.full_shape, reference.colors())])
            theirs = reference.to_program(name_override="compared")
            check("global size", made.global_size, theirs.global_size)
            check("local size", made.local_size, theirs.local_size)
            check("buffers", made.globals, theirs.globals)
            check("outputs", made.outs, theirs.outs)
            check("variables", made.vars, theirs.vars)
        except Exception as e:  # noqa: BLE001: whatever the reference raises is a difference
            check("result", "a program", f"{type(e).__name__}: {e}")
        if fields:
            report(Difference(notation(kernel.ast), target_of(kernel.opts), tuple(fields)))


def _compiled_runner_init(original):
    @functools.wraps(original)
    def init(self, p, precompiled=None):
        try:
            original(self, p, precompiled)
        except Exception as e:
            if isinstance(uops := p.uops, LinearUOps):  # the target's compiler did not take what Quern made
                attach_kernel(e, notation(uops.ast), uops.target, uops.opts)
            raise
    return init


def _clang_compile(original):
    """A JIT's kernels come as one source, in which those of Quern's each bring the functions they call: a line each."""
    @functools.wraps(original)
    def compile(self, src: str) -> bytes:
        seen: set[str] = set()
        lines = [line for line in src.split("\n") if not line.startswith("static inline ") or not (line in seen or seen.add(line))]
        return original(self, "\n".join(lines))
    return compile


def _beam_seconds() -> float:
    text = os.environ.get("QUERN_BEAM_SECONDS", "600")
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"QUERN_BEAM_SECONDS takes a number of seconds, not {text!r}") from None


def _beam_search(original):
    @functools.wraps(original)
    def beam_search(lin: Kernel, rawbufs: list[Buffer], amt: int, allow_test_size: bool = True,
                    disable_cache=getenv("IGNORE_BEAM_CACHE")) -> Kernel:
        device = device_of(lin.opts) if "_plan" in lin.__dict__ else None
        if device is None:  # tinygrad times the candidates, which are Quern's all the same
            return original(lin, rawbufs, amt, allow_test_size, disable_cache)
        text = notation(lin.ast)
        key = {"quern": quern.__version__, "ast": lin.ast.key, "amt": amt, "device": lin.opts.device,
               "target": target_of(lin.opts)}
        cached = not disable_cache and CACHELEVEL >= 1
        opts = diskcache_get("quern_beam_search", key) if cached else None
        if opts is None:
            try:
                found = quern.tune(text, device=device, target=target_of(lin.opts), beam=amt,
                                   seconds=_beam_seconds())
            except quern.Error as e:
                attach_kernel(e, text, target_of(lin.opts), "")
                raise
            opts = found.opts
            if DEBUG >= 2:
                print(f"   quern tried {found.candidates} kernels, the best takes {found.seconds * 1e6:.2f} us: {opts}")
            if CACHELEVEL >= 1:
                diskcache_put("quern_beam_search", key, opts)
        return with_opts(Kernel(lin.ast, opts=lin.opts), opts)
    return beam_search
