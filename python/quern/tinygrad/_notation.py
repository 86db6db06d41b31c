"""tinygrad's UOps as the text that Quern reads, and back."""

from __future__ import annotations

from quern import _native
from tinygrad.dtype import DType, dtypes
from tinygrad.ops import KernelInfo, Ops, UOp
from tinygrad.shape.shapetracker import ShapeTracker
from tinygrad.shape.view import View

_op_text = {op: str(op) for op in Ops}
_dtype_text: dict[DType, str] = {}  # there is one object a dtype


def _arg_text(node: UOp) -> str:
    """Of args that are neither None nor an int nor a ShapeTracker."""
    if node.op is Ops.REDUCE_AXIS:
        return f"({_op_text[node.arg[0]]},{node.arg[1]})"
    return repr(node.arg)


def notation(root: UOp) -> str:
    """The kernel in tinygrad's own notation, on one line: a node with more than one user is named where it stands first."""
    if not isinstance(root, UOp):
        raise TypeError(f"a kernel's AST is a UOp, not a {type(root).__name__}")
    return _native._notation(root, _op_text, _dtype_text, _arg_text)


_NAMES = {"UOp": UOp, "Ops": Ops, "dtypes": dtypes, "ShapeTracker": ShapeTracker, "View": View, "KernelInfo": KernelInfo,
          "inf": float("inf"), "nan": float("nan")}


def uop_of(text: str) -> UOp:
    """The node that a text of Quern's own making tells."""
    return eval(text, dict(_NAMES))  # noqa: S307: it is Python, written by quern
