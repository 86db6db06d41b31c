"""What tinygrad launches, made from Quern's programs."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import quern
from tinygrad.helpers import to_function_name
from tinygrad.ops import UOp, sint
from tinygrad.renderer import Program

from ._notation import uop_of


def size_of(size: int | quern.Symbolic) -> sint:
    return size if isinstance(size, int) else uop_of(size.notation)


class LinearUOps(Sequence):
    """A program's linear UOps, made when somebody looks at one."""

    def __init__(self, program: quern.Program, ast: UOp, target: str) -> None:
        self.program, self.ast, self.target = program, ast, target

    @functools.cached_property
    def _uops(self) -> list[UOp]:
        return list(uop_of(self.program.linear_notation).src)

    def __len__(self) -> int:
        return self.program.num_uops

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
        estimates = self.uops.program.estimates
        return size_of(estimates.ops), size_of(estimates.load_store_bytes)


def program_of(program: quern.Program, display_name: str, device: str, ast: UOp, target: str) -> QuernProgram:
    def sizes(three):
        return None if three is None else [size_of(size) for size in three]

    return QuernProgram(
        display_name if to_function_name(display_name) == program.name else program.name, program.source, device,
        LinearUOps(program, ast, target), mem_estimate=size_of(program.estimates.buffer_bytes), global_size=sizes(program.global_size),
        local_size=sizes(program.local_size), vars=[UOp.variable(v.name, v.min, v.max) for v in program.vars],
        globals=list(program.globals), outs=sorted(program.outs), _ran_post_init=True)
