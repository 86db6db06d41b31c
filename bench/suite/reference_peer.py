"""The reference, tinygrad 0.10.0: device CLANG, opts by its own search (BEAM=2, set by the caller); its kernels' times are summed."""

import statistics
import time

import numpy as np
from tinygrad import Tensor, dtypes
from tinygrad.engine.realize import CompiledRunner, lower_schedule

import worker

DEVICE = "CLANG"


def matmul(a, b, m, n, k, batch, ta, tb, dtype):
    a = a.transpose(-1, -2) if ta else a
    b = b.transpose(-1, -2) if tb else b
    if dtype == "char":
        return a.cast(dtypes.int).matmul(b.cast(dtypes.int))
    return a.cast(dtypes.float).matmul(b.cast(dtypes.float))


def conv(x, w, n, c, h, w_, o, size, stride, pad, depthwise):
    return x.conv2d(w, stride=stride, padding=pad, groups=c if depthwise else 1)


def threefry(counter, key, n):
    raise NotImplementedError("its counters are not given by the caller")


def attention(q, k, v, heads, length, width):
    return (q.matmul(k.transpose(1, 2)) * width**-0.5).softmax(-1).matmul(v)


OPERATIONS = {
    "matmul": matmul,
    "matvec": lambda a, x, m, k, transposed: (a.T if transposed else a).matmul(x),
    "conv": conv,
    "sum_rows": lambda x, rows, columns: x.sum(1),
    "sum_columns": lambda x, rows, columns: x.sum(0),
    "max_rows": lambda x, rows, columns: x.max(1),
    "sum_all": lambda x, n: x.sum().reshape(1),
    "argmax": lambda x, rows, columns: x.argmax(1),
    "softmax": lambda x, rows, columns: x.softmax(1),
    "layernorm": lambda x, w, b, rows, columns: x.layernorm() * w + b,
    "attention": attention,
    "fma": lambda a, b, c, n: a * b + c,
    "chain": lambda a, b, c, n: (a * b + c).relu() * a + b.minimum(c),
    "gelu": lambda a, n: a.gelu(),
    "threefry": threefry,
    "transpose": lambda x, rows, columns: x.T.contiguous(),
    "permute_021": lambda x, a, b, c: x.transpose(1, 2).contiguous(),
    "pad": lambda x, rows, columns, border: x.pad(((border, border), (border, border))).contiguous(),
    "strided": lambda x, rows, columns, step: x[::step, ::step].contiguous(),
    "gather": lambda x, index, count, rows, columns: x[index],
    "cumsum_rows": lambda x, rows, columns: x.cumsum(1),
    "cumsum": lambda x, n: x.cumsum(0),
}


def tensor(file, bfloat16):
    x = np.load(file)
    if bfloat16:
        return Tensor(x, device=DEVICE).bitcast(dtypes.bfloat16).realize()
    return Tensor(x, device=DEVICE).realize()


def load(operation, sizes, files):
    tensors = [tensor(file, sizes.get("dtype") == "bfloat16") for file in files.values()]
    out = OPERATIONS[operation](*tensors, *sizes.values())
    items = list(lower_schedule(out.schedule()))  # this is where it searches
    kernels = [item for item in items if isinstance(item.prg, CompiledRunner)]
    for item in items:
        item.run(wait=True, do_update_stats=False)

    def once():
        for item in kernels:
            item.run(wait=True, do_update_stats=False)

    def timed(seconds):
        total = {"best": 0.0, "median": 0.0, "runs": 0}
        for item in kernels:
            times, end = [], time.perf_counter() + seconds / len(kernels)
            while len(times) < 3 or time.perf_counter() < end:
                times.append(item.run(wait=True, do_update_stats=False))
            total["best"] += min(times)
            total["median"] += statistics.median(times)
            total["runs"] += len(times)
        return total

    return once, out.numpy, timed


if __name__ == "__main__":
    worker.serve(load)
