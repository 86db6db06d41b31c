"""tinygrad's UOps as the text that Quern reads, and back."""

from __future__ import annotations

from tinygrad.dtype import DType, dtypes
from tinygrad.ops import KernelInfo, Ops, UOp
from tinygrad.shape.shapetracker import ShapeTracker
from tinygrad.shape.view import View

_op_text = {op: str(op) for op in Ops}
_dtype_text: dict[DType, str] = {}  # there is one object a dtype


def _view_text(view: View) -> str:
    return (f"View(shape={view.shape},strides={view.strides},offset={view.offset},mask={view.mask},"
            f"contiguous={view.contiguous})")


def _arg_text(node: UOp) -> str:
    arg = node.arg
    if arg is None:
        return "None"
    if isinstance(arg, ShapeTracker):
        return f"ShapeTracker(views=({','.join(map(_view_text, arg.views))},))"
    if node.op is Ops.REDUCE_AXIS:
        return f"({_op_text[arg[0]]},{arg[1]})"
    return repr(arg)


def notation(root: UOp) -> str:
    """The kernel in tinygrad's own notation, on one line: a node with more than one user is named where it stands first."""
    uses: dict[UOp, int] = {root: 1}
    stack = [root]
    while stack:
        for source in stack.pop().src:
            if source in uses:
                uses[source] += 1
            else:
                uses[source] = 1
                stack.append(source)
    names: dict[UOp, str] = {}
    parts: list[str] = []
    pending: list[UOp | str] = [root]  # what is still to be written, the next one last
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            parts.append(item)
            continue
        if uses[item] > 1:
            if item in names:
                parts.append(names[item])
                continue
            names[item] = name = f"x{len(names)}"
            parts.append(f"{name}:=")
        if (dtype := _dtype_text.get(item.dtype)) is None:
            dtype = _dtype_text[item.dtype] = repr(item.dtype)
        parts.append(f"UOp({_op_text[item.op]},{dtype},arg={_arg_text(item)},src=(")
        pending.append("))")
        for source in reversed(item.src):
            pending.append(",")
            pending.append(source)
    return "".join(parts)


_NAMES = {"UOp": UOp, "Ops": Ops, "dtypes": dtypes, "ShapeTracker": ShapeTracker, "View": View, "KernelInfo": KernelInfo,
          "inf": float("inf"), "nan": float("nan")}


def uop_of(text: str) -> UOp:
    """The node that a text of Quern's own making tells."""
    return eval(text, dict(_NAMES))  # noqa: S307: it is Python, written by quern
