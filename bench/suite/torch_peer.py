"""PyTorch on the CPU, as a process of its own."""

import os

import numpy as np
import torch
import torch.nn.functional as F

import worker

torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
torch.set_grad_enabled(False)


def matmul(a, b, m, n, k, batch, ta, tb, dtype):
    a = a.transpose(-1, -2) if ta else a
    b = b.transpose(-1, -2) if tb else b
    if dtype == "char":
        if not hasattr(torch, "_int_mm"):
            raise NotImplementedError("this PyTorch has no product of int8 with sums of int32")
        return lambda: torch._int_mm(a, b)
    if dtype == "half":
        return lambda: torch.matmul(a.float(), b.float())
    return lambda: torch.matmul(a, b)


def conv(x, w, n, c, h, w_, o, size, stride, pad, depthwise):
    return lambda: F.conv2d(x, w, stride=stride, padding=pad, groups=c if depthwise else 1)


def attention(q, k, v, heads, length, width):
    if hasattr(F, "scaled_dot_product_attention"):
        q, k, v = (x.unsqueeze(0) for x in (q, k, v))
        return lambda: F.scaled_dot_product_attention(q, k, v)
    scale = width**-0.5
    return lambda: torch.bmm(torch.softmax(torch.bmm(q, k.transpose(1, 2)).mul_(scale), -1), v)


def fma(a, b, c, n):
    out = torch.empty(n)
    return lambda: torch.addcmul(c, a, b, out=out)


def threefry(counter, key, n):
    raise NotImplementedError("its random numbers are another generator's")


def copy_of(view):
    out = torch.empty(view.shape, dtype=view.dtype)
    return lambda: out.copy_(view)


OPERATIONS = {
    "matmul": matmul,
    "matvec": lambda a, x, m, k, transposed: lambda: torch.mv(a.T if transposed else a, x),
    "conv": conv,
    "sum_rows": lambda x, rows, columns: lambda: x.sum(1),
    "sum_columns": lambda x, rows, columns: lambda: x.sum(0),
    "max_rows": lambda x, rows, columns: lambda: x.amax(1),
    "sum_all": lambda x, n: lambda: x.sum().reshape(1),
    "argmax": lambda x, rows, columns: lambda: x.argmax(1),
    "softmax": lambda x, rows, columns: lambda: torch.softmax(x, 1),
    "layernorm": lambda x, w, b, rows, columns: lambda: F.layer_norm(x, (columns,), w, b),
    "attention": attention,
    "fma": fma,
    "chain": lambda a, b, c, n: lambda: torch.addcmul(c, a, b).relu_().mul_(a).add_(torch.minimum(b, c)),
    "gelu": lambda a, n: lambda: F.gelu(a, approximate="tanh"),
    "threefry": threefry,
    "transpose": lambda x, rows, columns: copy_of(x.T),
    "permute_021": lambda x, a, b, c: copy_of(x.transpose(1, 2)),
    "pad": lambda x, rows, columns, border: lambda: F.pad(x, (border,) * 4),
    "strided": lambda x, rows, columns, step: copy_of(x[::step, ::step]),
    "gather": lambda x, index, count, rows, columns: lambda: torch.index_select(x, 0, index),
    "cumsum_rows": lambda x, rows, columns: lambda: torch.cumsum(x, 1),
    "cumsum": lambda x, n: lambda: torch.cumsum(x, 0),
}


def tensor(file, bfloat16):
    x = np.load(file)
    if bfloat16:
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x.view(np.int64) if x.dtype == np.uint64 else x)


def load(operation, sizes, files):
    tensors = [tensor(file, sizes.get("dtype") == "bfloat16") for file in files.values()]
    function = OPERATIONS[operation](*tensors, *sizes.values())

    def result():
        out = function()
        return (out.float() if out.dtype == torch.bfloat16 else out).numpy()

    return function, result


if __name__ == "__main__":
    worker.serve(load)
