"""What the suite measures: for each case its arrays, Quern's kernels, the work in it, and how closely results have to agree.

An operation (the functions of OPERATIONS) makes a case of sizes; CASES names the sizes that are measured, TINY those of the smoke test.
The peers' side of an operation is in numpy_peer.py, torch_peer.py, reference_peer.py and native/.
"""

import dataclasses
import math

import kernels as k

BYTES = {"float": 4, "half": 2, "bfloat16": 2, "char": 1, "int": 4, "ulong": 8}
NUMPY = {"float": "<f4", "half": "<f2", "bfloat16": "<u2", "char": "|i1", "int": "<i4", "ulong": "<u8"}


@dataclasses.dataclass
class Array:
    shape: tuple
    dtype: str = "float"
    values: str = "normal"  # or bits, index (below `limit`)
    limit: int = 0

    @property
    def bytes(self):
        return math.prod(self.shape) * BYTES[self.dtype]


@dataclasses.dataclass
class Case:
    operation: str
    sizes: dict
    inputs: dict  # name: Array
    output: Array
    steps: list  # (kernel's text, {buffer number: array's name}); "out" is the output, other names are between kernels
    between: dict = dataclasses.field(default_factory=dict)  # name: Array
    flops: int = 0  # 0: what counts is bytes
    tolerance: float = 1e-4  # of the largest value
    peak: str = "float"  # whose arithmetic limits it
    name: str = ""
    group: str = ""

    @property
    def read_bytes(self):
        return sum(array.bytes for array in self.inputs.values())

    @property
    def bytes(self):
        return self.read_bytes + self.output.bytes


def matmul(m, n, k_, batch=1, ta=False, tb=False, dtype="float"):
    many = (batch,) if batch > 1 else ()
    a = Array((*many, *((k_, m) if ta else (m, k_))), dtype)
    b = Array((*many, *((n, k_) if tb else (k_, n))), dtype)
    out = Array((*many, m, n), "int" if dtype == "char" else "float")
    text = k.matmul(m, n, k_, batch, ta, tb, dtype)
    sizes = dict(m=m, n=n, k=k_, batch=batch, ta=ta, tb=tb, dtype=dtype)
    return Case("matmul", sizes, {"a": a, "b": b}, out, [(text, {0: "out", 1: "a", 2: "b"})], flops=2 * batch * m * n * k_, peak=dtype)


def matvec(m, k_, transposed=False):
    a = Array((k_, m) if transposed else (m, k_))
    steps = [(k.matvec(m, k_, transposed), {0: "out", 1: "a", 2: "x"})]
    return Case("matvec", dict(m=m, k=k_, transposed=transposed), {"a": a, "x": Array((k_,))}, Array((m,)), steps)


def conv(c, h, w, o, size, stride=1, pad=0, depthwise=False, n=1):
    oh, ow = k.conv_sizes(h, w, size, stride, pad)
    weight = Array((c, 1, size, size) if depthwise else (o, c, size, size))
    steps = [(k.conv(n, c, h, w, o, size, stride, pad, depthwise), {0: "out", 1: "x", 2: "w"})]
    sizes = dict(n=n, c=c, h=h, w=w, o=o, size=size, stride=stride, pad=pad, depthwise=depthwise)
    flops = 2 * n * o * oh * ow * size * size * (1 if depthwise else c)
    return Case("conv", sizes, {"x": Array((n, c, h, w)), "w": weight}, Array((n, o, oh, ow)), steps, flops=flops)


def of_rows(operation, text, out_shape, rows, columns):
    steps = [(text(rows, columns), {0: "out", 1: "x"})]
    return Case(operation, dict(rows=rows, columns=columns), {"x": Array((rows, columns))}, Array(out_shape(rows, columns)), steps)


def sum_rows(rows, columns):
    return of_rows("sum_rows", k.sum_rows, lambda r, c: (r,), rows, columns)


def sum_columns(rows, columns):
    return of_rows("sum_columns", k.sum_columns, lambda r, c: (c,), rows, columns)


def max_rows(rows, columns):
    return of_rows("max_rows", k.max_rows, lambda r, c: (r,), rows, columns)


def sum_all(n, parts=1):
    """In one kernel, or first `parts` sums and then theirs, as the reference's scheduler does."""
    inputs = {"x": Array((n,))}
    if parts == 1:
        return Case("sum_all", dict(n=n), inputs, Array((1,)), [(k.sum_all(n), {0: "out", 1: "x"})])
    steps = [(k.sum_rows(parts, n // parts), {0: "sums", 1: "x"}), (k.sum_all(parts), {0: "out", 1: "sums"})]
    return Case("sum_all", dict(n=n), inputs, Array((1,)), steps, {"sums": Array((parts,))})


def argmax(rows, columns):
    steps = [(k.argmax_rows(rows, columns), {0: "out", 1: "x"})]
    return Case("argmax", dict(rows=rows, columns=columns), {"x": Array((rows, columns))}, Array((rows,), "int"), steps, tolerance=0)


def softmax(rows, columns):
    shape = (rows, columns)
    steps = [(k.softmax(rows, columns), {0: "out", 1: "x"})]
    return Case("softmax", dict(rows=rows, columns=columns), {"x": Array(shape)}, Array(shape), steps)


def layernorm(rows, columns):
    shape = (rows, columns)
    inputs = {"x": Array(shape), "w": Array((columns,)), "b": Array((columns,))}
    steps = [(k.layernorm(rows, columns), {0: "out", 1: "x", 2: "w", 3: "b"})]
    return Case("layernorm", dict(rows=rows, columns=columns), inputs, Array(shape), steps, tolerance=1e-3)


def attention(heads, length, width):
    rows = heads * length
    shape = (heads, length, width)
    steps = [
        (k.attention_scores(heads, length, width), {0: "scores", 1: "q", 2: "k"}),
        (k.softmax(rows, length), {0: "weights", 1: "scores"}),
        (k.matmul(length, width, length, heads), {0: "out", 1: "weights", 2: "v"}),
    ]
    squares = Array((heads, length, length))
    between = {"scores": squares, "weights": squares}
    inputs = {name: Array(shape) for name in "qkv"}
    flops = 4 * heads * length * length * width
    return Case("attention", dict(heads=heads, length=length, width=width), inputs, Array(shape), steps, between, flops=flops)


def elementwise(operation, text, inputs, n):
    names = "abc"[:inputs]
    numbers = {0: "out", **{i + 1: name for i, name in enumerate(names)}}
    return Case(operation, dict(n=n), {name: Array((n,)) for name in names}, Array((n,)), [(text(n), numbers)])


def fma(n):
    return elementwise("fma", k.fma, 3, n)


def chain(n):
    return elementwise("chain", k.chain, 3, n)


def gelu(n):
    return elementwise("gelu", k.gelu, 1, n)


def threefry(n):
    inputs = {"counter": Array((n,), "ulong", "bits"), "key": Array((1,), "ulong", "bits")}
    steps = [(k.threefry(n), {0: "out", 1: "counter", 2: "key"})]
    return Case("threefry", dict(n=n), inputs, Array((n,), "ulong"), steps, tolerance=0)


def moved(operation, text, in_shape, out_shape, sizes):
    return Case(operation, sizes, {"x": Array(in_shape)}, Array(out_shape), [(text, {0: "out", 1: "x"})], tolerance=0)


def transpose(rows, columns):
    return moved("transpose", k.transpose(rows, columns), (rows, columns), (columns, rows), dict(rows=rows, columns=columns))


def permute_021(a, b, c):
    return moved("permute_021", k.permute_021(a, b, c), (a, b, c), (a, c, b), dict(a=a, b=b, c=c))


def pad(rows, columns, border):
    out = (rows + 2 * border, columns + 2 * border)
    return moved("pad", k.pad(rows, columns, border), (rows, columns), out, dict(rows=rows, columns=columns, border=border))


def strided(rows, columns, step):
    out = (rows // step, columns // step)
    return moved("strided", k.strided(rows, columns, step), (rows, columns), out, dict(rows=rows, columns=columns, step=step))


def gather(count, rows, columns):
    """The table is read only where the indices say."""
    inputs = {"x": Array((rows, columns)), "index": Array((count,), "int", "index", rows)}
    steps = [(k.gather(count, rows, columns), {0: "out", 1: "x", 2: "index"})]
    return Case("gather", dict(count=count, rows=rows, columns=columns), inputs, Array((count, columns)), steps, tolerance=0)


def cumsum_rows(rows, columns):
    return dataclasses.replace(of_rows("cumsum_rows", k.cumsum_rows, lambda r, c: (r, c), rows, columns), tolerance=1e-3)


def cumsum(n, width):
    """Of one long row: of pieces, then their sums' cumulative sums are added."""
    pieces = n // width
    steps = [
        (k.cumsum_rows(pieces, width), {0: "piece", 1: "x"}),
        (k.last_of_rows(pieces, width), {0: "last", 1: "piece"}),
        (k.cumsum_rows(1, pieces, True), {0: "before", 1: "last"}),
        (k.add_to_rows(pieces, width), {0: "out", 1: "piece", 2: "before"}),
    ]
    between = {"piece": Array((n,)), "last": Array((pieces,)), "before": Array((pieces,))}
    return Case("cumsum", dict(n=n), {"x": Array((n,))}, Array((n,)), steps, between, tolerance=1e-3)


MI = 1 << 20

CASES = {
    "gemm": {
        **{f"sgemm-{n}": lambda n=n: matmul(n, n, n) for n in (64, 128, 256, 512, 1024, 2048)},
        "sgemm-17x33x65": lambda: matmul(17, 33, 65),
        "sgemm-1000": lambda: matmul(1000, 1000, 1000),
        "sgemm-4096x64x4096": lambda: matmul(4096, 64, 4096),
        "sgemm-64x4096x4096": lambda: matmul(64, 4096, 4096),
        "sgemm-4096x4096x64": lambda: matmul(4096, 4096, 64),
        "sgemm-256x256x8192": lambda: matmul(256, 256, 8192),
        "sgemm-batch-12x128x128x64": lambda: matmul(128, 128, 64, batch=12),
        "sgemm-batch-64x64x64x64": lambda: matmul(64, 64, 64, batch=64),
        "sgemm-512-ta": lambda: matmul(512, 512, 512, ta=True),
        "sgemm-512-tb": lambda: matmul(512, 512, 512, tb=True),
        "sgemm-512-tatb": lambda: matmul(512, 512, 512, ta=True, tb=True),
        "sgemm-1024-tb": lambda: matmul(1024, 1024, 1024, tb=True),
        "hgemm-512": lambda: matmul(512, 512, 512, dtype="half"),
        "bf16gemm-512": lambda: matmul(512, 512, 512, dtype="bfloat16"),
        "i8gemm-512": lambda: matmul(512, 512, 512, dtype="char"),
    },
    "gemv": {
        "sgemv-512": lambda: matvec(512, 512),
        "sgemv-4096": lambda: matvec(4096, 4096),
        "sgemv-4096-t": lambda: matvec(4096, 4096, transposed=True),
    },
    "conv": {
        "conv-3x3-64x56": lambda: conv(64, 56, 56, 64, 3, pad=1),
        "conv-3x3-128x28": lambda: conv(128, 28, 28, 128, 3, pad=1),
        "conv-3x3-512x7": lambda: conv(512, 7, 7, 512, 3, pad=1),
        "conv-3x3-s2-128x56": lambda: conv(128, 56, 56, 128, 3, stride=2, pad=1),
        "conv-1x1-256-64x56": lambda: conv(256, 56, 56, 64, 1),
        "conv-1x1-64-256x56": lambda: conv(64, 56, 56, 256, 1),
        "conv-1x1-512-2048x7": lambda: conv(512, 7, 7, 2048, 1),
        "conv-7x7-s2-3x224": lambda: conv(3, 224, 224, 64, 7, stride=2, pad=3),
        "conv-mobile-3x3-s2-3x224": lambda: conv(3, 224, 224, 32, 3, stride=2, pad=1),
        "depthwise-3x3-32x112": lambda: conv(32, 112, 112, 32, 3, pad=1, depthwise=True),
        "depthwise-3x3-s2-96x112": lambda: conv(96, 112, 112, 96, 3, stride=2, pad=1, depthwise=True),
        "depthwise-3x3-512x14": lambda: conv(512, 14, 14, 512, 3, pad=1, depthwise=True),
    },
    "attention": {
        "attention-12x128x64": lambda: attention(12, 128, 64),
        "attention-8x512x64": lambda: attention(8, 512, 64),
    },
    "norm": {
        "softmax-128x1000": lambda: softmax(128, 1000),
        "softmax-1024x1024": lambda: softmax(1024, 1024),
        "softmax-8192x2048": lambda: softmax(8192, 2048),
        "layernorm-512x768": lambda: layernorm(512, 768),
        "layernorm-8192x2048": lambda: layernorm(8192, 2048),
    },
    "reduce": {
        "sum-rows-1024x1024": lambda: sum_rows(1024, 1024),
        "sum-rows-4096x4096": lambda: sum_rows(4096, 4096),
        "sum-columns-1024x1024": lambda: sum_columns(1024, 1024),
        "sum-columns-4096x4096": lambda: sum_columns(4096, 4096),
        "sum-all-1M": lambda: sum_all(MI),
        "sum-all-16M": lambda: sum_all(16 * MI),
        "sum-all-16M-split": lambda: sum_all(16 * MI, 256),
        "max-rows-4096x4096": lambda: max_rows(4096, 4096),
        "argmax-1024x1000": lambda: argmax(1024, 1000),
        "argmax-4096x4096": lambda: argmax(4096, 4096),
    },
    "elementwise": {
        "fma-64K": lambda: fma(MI // 16),
        "fma-8M": lambda: fma(8 * MI),
        "chain-64K": lambda: chain(MI // 16),
        "chain-8M": lambda: chain(8 * MI),
        "gelu-64K": lambda: gelu(MI // 16),
        "gelu-16M": lambda: gelu(16 * MI),
        "threefry-4M": lambda: threefry(4 * MI),
    },
    "movement": {
        "transpose-512": lambda: transpose(512, 512),
        "transpose-4096": lambda: transpose(4096, 4096),
        "transpose-1000x3000": lambda: transpose(1000, 3000),
        "permute-64x256x1024": lambda: permute_021(64, 256, 1024),
        "pad-4000x4000-48": lambda: pad(4000, 4000, 48),
        "pad-224x224-3": lambda: pad(224, 224, 3),
        "strided-4096-2": lambda: strided(4096, 4096, 2),
        "gather-8192x768": lambda: gather(8192, 30522, 768),
    },
    "scan": {
        "cumsum-rows-4096x256": lambda: cumsum_rows(4096, 256),
        "cumsum-1M": lambda: cumsum(MI, 256),
    },
}

TINY = {
    "matmul": lambda: matmul(8, 12, 16),
    "matmul-odd": lambda: matmul(3, 5, 7, ta=True, tb=True),
    "matmul-batch": lambda: matmul(8, 4, 8, batch=3, tb=True),
    "matmul-half": lambda: matmul(8, 8, 8, dtype="half"),
    "matmul-bfloat16": lambda: matmul(8, 8, 8, dtype="bfloat16"),
    "matmul-int8": lambda: matmul(8, 8, 8, dtype="char"),
    "matvec": lambda: matvec(12, 20),
    "matvec-t": lambda: matvec(12, 20, transposed=True),
    "conv": lambda: conv(3, 9, 8, 4, 3, pad=1),
    "conv-stride": lambda: conv(3, 12, 12, 4, 5, stride=2, pad=2),
    "conv-1x1": lambda: conv(4, 6, 6, 8, 1),
    "depthwise": lambda: conv(4, 9, 9, 4, 3, stride=2, pad=1, depthwise=True),
    "attention": lambda: attention(2, 6, 4),
    "softmax": lambda: softmax(4, 10),
    "layernorm": lambda: layernorm(4, 12),
    "sum-rows": lambda: sum_rows(5, 12),
    "sum-columns": lambda: sum_columns(5, 12),
    "sum-all": lambda: sum_all(100),
    "sum-all-split": lambda: sum_all(64, 4),
    "max-rows": lambda: max_rows(4, 9),
    "argmax": lambda: argmax(6, 11),
    "fma": lambda: fma(40),
    "chain": lambda: chain(40),
    "gelu": lambda: gelu(40),
    "threefry": lambda: threefry(20),
    "transpose": lambda: transpose(6, 9),
    "permute": lambda: permute_021(3, 4, 5),
    "pad": lambda: pad(5, 6, 2),
    "strided": lambda: strided(8, 12, 2),
    "gather": lambda: gather(5, 9, 4),
    "cumsum-rows": lambda: cumsum_rows(3, 8),
    "cumsum": lambda: cumsum(32, 8),
}


def all_cases():
    """(name, group, function that makes the case), in the order in which they are measured."""
    return [(name, group, make) for group, members in CASES.items() for name, make in members.items()]


def named(name, group, make):
    return dataclasses.replace(make(), name=name, group=group)
