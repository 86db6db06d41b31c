"""What tinygrad launches, made from Quern's programs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import quern
from tinygrad.helpers import to_function_name
from tinygrad.ops import UOp, sint
from tinygrad.renderer import Program

from ._notation import uop_of


_symbolic_size = functools.lru_cache(maxsize=1024)(uop_of)


def size_of(size: int | quern.Symbolic) -> sint:
    return size if isinstance(size, int) else _symbolic_size(size.notation)


class LinearUOps(Sequence):
    """A program's linear UOps. They are made again when somebody looks at one: a program that is only run has no need of them."""

    def __init__(self, program: quern.Program, ast: UOp, plan: Callable[[], quern.Kernel]) -> None:
        self.ast, self.plan, self.estimates = ast, plan, program.estimates
        self.name, self.target, self.opts, self._length = program.name, program.target, program.opts, program.num_uops

    @functools.cached_property
    def _uops(self) -> list[UOp]:
        plan = self.plan()
        plan.apply_opts(self.opts)
        return list(uop_of(plan.compile(self.name).linear_notation).src)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, at):
        return self._uops[at]

    def __iter__(self) -> Iterator[UOp]:
        return iter(self._uops)

    def __reduce__(self):
        return list, (self._uops,)


class QuernProgram(Program):
    """A Program that Quern made. Its uops, if they are asked for, are Quern's linear program."""

    @functools.cached_property
    def _ops_lds(self) -> tuple[sint, sint]:
        if not isinstance(self.uops, LinearUOps):  # it was pickled
            return super()._ops_lds
        estimates = self.uops.estimates
        return size_of(estimates.ops), size_of(estimates.load_store_bytes)


def program_of(program: quern.Program, display_name: str, device: str, ast: UOp,
               plan: Callable[[], quern.Kernel]) -> QuernProgram:
    def sizes(three):
        return None if three is None else [size_of(size) for size in three]

    return QuernProgram(
        display_name if to_function_name(display_name) == program.name else program.name, program.source, device,
        LinearUOps(program, ast, plan), mem_estimate=size_of(program.estimates.buffer_bytes), global_size=sizes(program.global_size),
        local_size=sizes(program.local_size), vars=[UOp.variable(v.name, v.min, v.max) for v in program.vars],
        globals=list(program.globals), outs=sorted(program.outs), _ran_post_init=True)
