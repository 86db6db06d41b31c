"""Kernels in Quern's notation, by size.

A kernel here is an expression over loads, written with the methods of Node, and printed by kernel(): the text that `quern run` reads.
Shapes are those of the whole loop nest, with the reduced axes where they are; strides say how a buffer is read along each axis (0: not
at all). The functions from matmul on return one Kernel each; buffer 0 is what it writes,
their arguments are the sizes.
"""

LOG2_E = 1.4426950408889634


def row_major(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step if size != 1 else 0)
        step *= size
    return tuple(reversed(strides))


def view_text(shape, strides, offset=0, mask=None):
    shape, strides = tuple(shape), tuple(0 if size == 1 else stride for size, stride in zip(shape, strides))
    contiguous = offset == 0 and mask is None and strides == row_major(shape)
    return f"View(shape={shape}, strides={strides}, offset={offset}, mask={mask}, contiguous={contiguous})"


class Node:
    """One operation; the same Node used twice is printed once."""

    def __init__(self, op, dtype, arg="None", src=()):
        self.op, self.dtype, self.arg, self.src = op, dtype, arg, tuple(src)

    def with_other(self, op, other, dtype=None):
        return Node(op, dtype or self.dtype, src=(self, as_node(other, self.dtype)))

    def __add__(self, other):
        return self.with_other("ADD", other)

    def __sub__(self, other):
        return self + as_node(other, self.dtype) * -1

    def __mul__(self, other):
        return self.with_other("MUL", other)

    def max(self, other):
        return self.with_other("MAX", other)

    def less(self, other):
        return self.with_other("CMPLT", other, "bool")

    def equal(self, other):
        return self.with_other("CMPNE", other, "bool").with_other("CMPNE", True)

    def where(self, yes, no):
        dtype = (yes if isinstance(yes, Node) else no).dtype
        return Node("WHERE", dtype, src=(self, as_node(yes, dtype), as_node(no, dtype)))

    def cast(self, dtype):
        return self if dtype == self.dtype else Node("CAST", dtype, src=(self,))

    def exp2(self):
        return Node("EXP2", self.dtype, src=(self,))

    def exp(self):
        return (self * LOG2_E).exp2()

    def sqrt(self):
        return Node("SQRT", self.dtype, src=(self,))

    def reciprocal(self):
        return Node("RECIP", self.dtype, src=(self,))

    def sum(self, *axes):
        return Node("REDUCE_AXIS", self.dtype, f"(Ops.ADD, {axes})", (self,))

    def reduce_max(self, *axes):
        return Node("REDUCE_AXIS", self.dtype, f"(Ops.MAX, {axes})", (self,))


def as_node(value, dtype):
    if isinstance(value, Node):
        return value
    if dtype == "bool":
        return Node("CONST", dtype, repr(bool(value)))
    return Node("CONST", dtype, repr(float(value) if dtype in ("float", "half", "bfloat16", "double") else int(value)))


def views(*all_views):
    node = Node("VIEW", "void", f"ShapeTracker(views=({', '.join(view_text(*view) for view in all_views)},))")
    node.reach = reach(*all_views[0])
    return node


def reach(shape, strides, offset=0, mask=None):
    """How many elements of a buffer a view sees, from the first on."""
    ends = [last - 1 for _, last in mask] if mask else [size - 1 for size in shape]
    return 1 + offset + sum(end * stride for end, stride in zip(ends, strides))


def buffer(number, dtype):
    return Node("DEFINE_GLOBAL", f"{dtype}.ptr()", str(number))


def load(number, dtype, shape, strides=None, offset=0, mask=None):
    return load_views(number, dtype, (shape, row_major(shape) if strides is None else strides, offset, mask))


def load_views(number, dtype, *all_views):
    """A load through several views: the last one's axes are the kernel's."""
    return Node("LOAD", dtype, src=(buffer(number, dtype), views(*all_views)))


def count_up_to(shape, axis, tail=0):
    """1 + the index along an axis: a sum over a triangle of ones, which Quern folds away; `tail` axes of one follow its own."""
    n = shape[axis]
    strides = tuple(1 if i == axis else 0 for i in range(len(shape))) + (2 * n,) + (0,) * tail
    counted = tuple(shape) + (n,) + (1,) * tail
    triangle = views(((n + 1, 2 * n - 1), (0, 0), 0, ((0, n + 1), (n - 1, 2 * n - 1))), (counted, strides))
    return Node("VALID", "bool", src=(triangle,)).where(as_node(1, "int"), 0).sum(len(shape))


class Kernel(str):
    """The text of a kernel, and {buffer: elements of it that are read}."""


def kernel(value, shape, strides=None):
    """The kernel that writes a value to buffer 0, row-major where no strides are given."""
    shape = tuple(shape)
    store = Node("STORE", "void", src=(buffer(0, value.dtype), views((shape, strides or row_major(shape))), value))
    sink = Node("SINK", "void", src=(store,))
    uses, reads = {}, {}

    def count(node):
        uses[node] = uses.get(node, 0) + 1
        if node.op == "LOAD":
            number = int(node.src[0].arg)
            reads[number] = max(reads.get(number, 0), node.src[1].reach)
        if uses[node] == 1:
            for source in node.src:
                count(source)

    names = {}

    def text(node):
        if node in names:
            return names[node]
        prefix = ""
        if uses[node] > 1 and node.src:
            names[node] = f"x{len(names)}"
            prefix = names[node] + ":="
        sources = "".join(text(source) + ", " for source in node.src)
        return f"{prefix}UOp(Ops.{node.op}, dtypes.{node.dtype}, arg={node.arg}, src=({sources}))"

    count(sink)
    made = Kernel(text(sink) + "\n")
    made.reads = reads
    return made


# --- products -------------------------------------------------------------------------------------------------------


def matmul(m, n, k, batch=1, ta=False, tb=False, dtype="float"):
    """C = A B, with A stored K by M if `ta` and B stored N by K if `tb`; sums of 16-bit floats are float's, of int8 int's."""
    total = "int" if dtype == "char" else "float"
    many = [batch] if batch > 1 else []
    shape = (*many, m, n, k)
    a = load(1, dtype, shape, (*[m * k for _ in many], *((1, 0, m) if ta else (k, 0, 1))))
    b = load(2, dtype, shape, (*[n * k for _ in many], *((0, k, 1) if tb else (0, 1, n))))
    return kernel((a.cast(total) * b.cast(total)).sum(len(shape) - 1), (*shape[:-1], 1))


def matvec(m, k, transposed=False):
    """y = A x, or A stored K by M."""
    a = load(1, "float", (m, k), (1, m) if transposed else (k, 1))
    return kernel((a * load(2, "float", (m, k), (0, 1))).sum(1), (m, 1))


def conv_sizes(h, w, k, stride, pad):
    return (h + 2 * pad - k) // stride + 1, (w + 2 * pad - k) // stride + 1


def conv(n, c, h, w, o, k, stride=1, pad=0, depthwise=False):
    """NCHW; weights O by C by k by k, or C by k by k if depthwise (then O = C)."""
    oh, ow = conv_sizes(h, w, k, stride, pad)
    hp, wp = h + 2 * pad, w + 2 * pad
    padded = (n, c, hp, wp)
    step = (c * hp * wp, hp * wp, wp, 1)
    first = (padded, (c * h * w, h * w, w, 1), -pad * (w + 1), ((0, n), (0, c), (pad, pad + h), (pad, pad + w)))
    if depthwise:
        shape = (n, c, oh, ow, k, k)
        strides = (step[0], step[1], stride * wp, stride, wp, 1)
        weight = (0, k * k, 0, 0, k, 1)
        reduced = (4, 5)
    else:
        shape = (n, o, oh, ow, c, k, k)
        strides = (step[0], 0, stride * wp, stride, step[1], wp, 1)
        weight = (0, c * k * k, 0, 0, k * k, k, 1)
        reduced = (4, 5, 6)
    x = load_views(1, "float", *([first] if pad else []), (shape, strides))
    out = tuple(1 if i in reduced else size for i, size in enumerate(shape))
    return kernel((x * load(2, "float", shape, weight)).sum(*reduced), out)


# --- reductions -----------------------------------------------------------------------------------------------------


def sum_rows(rows, columns):
    return kernel(load(1, "float", (rows, columns)).sum(1), (rows, 1))


def sum_columns(rows, columns):
    return kernel(load(1, "float", (rows, columns)).sum(0), (1, columns))


def sum_all(n):
    return kernel(load(1, "float", (n,)).sum(0), (1,))


def max_rows(rows, columns):
    return kernel(load(1, "float", (rows, columns)).reduce_max(1), (rows, 1))


def argmax_rows(rows, columns):
    """Where a row first is its maximum; axes: rows, columns, those that are counted, those of the maximum."""
    top = load(1, "float", (rows, columns, 1, columns), (columns, 0, 0, 1)).reduce_max(3)
    x = load(1, "float", (rows, columns, 1, 1), (columns, 1, 0, 0))
    from_end = as_node(columns + 1, "int") - count_up_to((rows, columns), 1, tail=1)
    found = x.equal(top).where(from_end, 0).reduce_max(1)
    return kernel(as_node(columns, "int") - found, (rows, 1, 1, 1))


# --- softmax and norms: several passes over a row in one kernel -------------------------------------------------------


class Passes:
    """Buffer 1, rows by columns, as it is read by the outputs (axis 1), by a reduce (axis 2), and by a reduce that this one needs
    (axis 3): `outputs`, `first` and `second` are its elements for each of them."""

    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.outputs = self.along(1, (rows, columns, 1, 1))
        self.first = self.along(2, (rows, columns, columns, 1))

    def along(self, axis, shape):
        return load(1, "float", shape, tuple({0: self.columns, axis: 1}.get(i, 0) for i in range(4)))

    def second(self, for_outputs):
        return self.along(3, (self.rows, self.columns, 1 if for_outputs else self.columns, self.columns))

    def column(self, number):
        """A value a column."""
        return load(number, "float", (self.rows, self.columns, 1, 1), (0, 1, 0, 0))

    def kernel(self, value):
        return kernel(value, (self.rows, self.columns, 1, 1))


def softmax(rows, columns):
    x = Passes(rows, columns)
    sums = (x.first - x.second(False).reduce_max(3)).exp().sum(2)
    return x.kernel((x.outputs - x.second(True).reduce_max(3)).exp() * sums.reciprocal())


def layernorm(rows, columns, epsilon=1e-5):
    """Times buffer 2 plus buffer 3, both a value a column."""
    x = Passes(rows, columns)

    def mean(for_outputs):
        return x.second(for_outputs).sum(3) * (1.0 / columns)

    away = x.first - mean(False)
    scale = ((away * away).sum(2) * (1.0 / columns) + epsilon).sqrt().reciprocal()
    return x.kernel((x.outputs - mean(True)) * scale * x.column(2) + x.column(3))


def attention_scores(heads, length, width):
    """Q K^T / sqrt(width), both heads by length by width."""
    shape = (heads, length, length, width)
    q = load(1, "float", shape, (length * width, width, 0, 1))
    k = load(2, "float", shape, (length * width, 0, width, 1))
    return kernel((q * k).sum(3) * width**-0.5, (heads, length, length, 1))


# --- element by element -----------------------------------------------------------------------------------------------


def fma(n):
    return kernel(load(1, "float", (n,)) * load(2, "float", (n,)) + load(3, "float", (n,)), (n,))


def chain(n):
    """relu(a * b + c) * a + min(b, c): several uses of each input."""
    a, b, c = (load(i, "float", (n,)) for i in (1, 2, 3))
    return kernel((a * b + c).max(0) * a + b.less(c).where(b, c), (n,))


def gelu(n):
    """With tanh: x / (1 + exp(-2 sqrt(2 / pi) (x + 0.044715 x^3)))."""
    x = load(1, "float", (n,))
    inner = (x + x * x * x * 0.044715) * 0.7978845608028654
    return kernel(x * ((inner * (-2 * LOG2_E)).exp2() + 1).reciprocal(), (n,))


def threefry(n):
    """Random bits: a counter a value, one key."""
    value = Node("THREEFRY", "ulong", src=(load(1, "ulong", (n,)), load(2, "ulong", (n,), (0,))))
    return kernel(value, (n,))


# --- movement ---------------------------------------------------------------------------------------------------------


def transpose(rows, columns):
    return kernel(load(1, "float", (columns, rows), (1, columns)), (columns, rows))


def permute_021(a, b, c):
    return kernel(load(1, "float", (a, c, b), (b * c, 1, c)), (a, c, b))


def pad(rows, columns, border):
    mask = ((border, border + rows), (border, border + columns))
    shape = (rows + 2 * border, columns + 2 * border)
    return kernel(load(1, "float", shape, (columns, 1), -border * (columns + 1), mask), shape)


def strided(rows, columns, step):
    """Every `step`-th row and column."""
    shape = (rows // step, columns // step)
    return kernel(load(1, "float", shape, (columns * step, step)), shape)


def gather(count, rows, columns):
    """Rows of buffer 1 by the indices in buffer 2: a sum over all rows of those that match, which Quern folds to a load."""
    shape = (count, rows, columns, 1)
    table = load(1, "float", shape, (0, columns, 1, 0))
    wanted = load(2, "int", shape, (1, 0, 0, 0))
    index = count_up_to((count, rows, columns), 1) - 1
    return kernel(wanted.equal(index).where(table, 0).sum(1), (count, 1, columns, 1))


def cumsum_rows(rows, columns, exclusive=False):
    """Sums of each row's elements so far; `exclusive`: without the element itself."""
    lead = columns if exclusive else columns - 1
    width = columns - 1 + columns
    mask = ((0, rows), (lead, width))
    first = ((rows, width), (columns, 1), -lead, mask)
    x = load_views(1, "float", first, ((rows, columns, columns), (width, 1, 1)))
    return kernel(x.sum(2), (rows, columns, 1))


def last_of_rows(rows, columns):
    """The last column."""
    return kernel(load(1, "float", (rows,), (columns,), columns - 1), (rows,))


def add_to_rows(rows, columns):
    """Buffer 1 plus a value a row."""
    return kernel(load(1, "float", (rows, columns)) + load(2, "float", (rows, columns), (1, 0)), (rows, columns))
