"""NumPy: the peer that every result is compared with. Runs as a process of its own."""

import numpy as np

import worker
from data import from_bfloat16


def widened(x, dtype):
    """16-bit floats as floats, int8 as int32: NumPy has no product that widens."""
    if dtype == "bfloat16":
        return from_bfloat16(x)
    return x.astype(np.int32 if dtype == "char" else np.float32) if dtype != "float" else x


def matmul(a, b, m, n, k, batch, ta, tb, dtype):
    a = a.swapaxes(-1, -2) if ta else a
    b = b.swapaxes(-1, -2) if tb else b
    if dtype == "char":  # NumPy multiplies ints without BLAS; as doubles the sums are exact too
        return lambda: np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int32)
    if dtype != "float":
        return lambda: np.matmul(widened(a, dtype), widened(b, dtype))
    out = np.empty((*a.shape[:-1], n), np.float32)
    return lambda: np.matmul(a, b, out=out)


def matvec(a, x, m, k, transposed):
    a = a.T if transposed else a
    out = np.empty(m, np.float32)
    return lambda: np.matmul(a, x, out=out)


def conv(x, w, n, c, h, w_, o, size, stride, pad, depthwise):
    oh, ow = (h + 2 * pad - size) // stride + 1, (w_ + 2 * pad - size) // stride + 1

    def windows():
        padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad))) if pad else x
        return np.lib.stride_tricks.sliding_window_view(padded, (size, size), (2, 3))[:, :, ::stride, ::stride]

    if depthwise:
        kernel = w.reshape(c, size, size)

        def taps():
            view = windows()
            out = np.zeros((n, c, oh, ow), np.float32)
            for y in range(size):
                for z in range(size):
                    out += view[..., y, z] * kernel[:, y, z].reshape(1, c, 1, 1)
            return out

        return taps
    flat = w.reshape(o, c * size * size)

    def gemm():
        columns = windows().transpose(0, 1, 4, 5, 2, 3).reshape(n, c * size * size, oh * ow)
        return np.matmul(flat, columns)

    return gemm


def argmax(x, rows, columns):
    return lambda: x.argmax(1).astype(np.int32)


def softmax_of(x):
    y = x - x.max(-1, keepdims=True)
    np.exp(y, out=y)
    y /= y.sum(-1, keepdims=True)
    return y


def layernorm(x, w, b, rows, columns):
    def run():
        y = x - x.mean(1, keepdims=True)
        scale = 1 / np.sqrt(np.mean(y * y, 1, keepdims=True) + np.float32(1e-5))
        y *= scale
        y *= w
        y += b
        return y

    return run


def attention(q, k, v, heads, length, width):
    scale = np.float32(width**-0.5)
    return lambda: np.matmul(softmax_of(np.matmul(q, k.transpose(0, 2, 1)) * scale), v)


def fma(a, b, c, n):
    out = np.empty(n, np.float32)

    def run():
        np.multiply(a, b, out=out)
        return np.add(out, c, out=out)

    return run


def chain(a, b, c, n):
    return lambda: np.maximum(a * b + c, 0) * a + np.minimum(b, c)


def gelu(a, n):
    scale = np.float32(0.7978845608028654)

    def run():
        inner = a * a
        inner *= np.float32(0.044715)
        inner += 1
        inner *= a
        inner *= scale
        np.tanh(inner, out=inner)
        inner += 1
        inner *= a
        inner *= np.float32(0.5)
        return inner

    return run


def threefry(counter, key, n):
    """Threefry-2x32 with 20 rounds; low halves first."""
    rotations = ((13, 15, 26, 6), (17, 29, 16, 24))
    low, high = key[:1].view(np.uint32)
    keys = (low, high, np.uint32(0x1BD11BDA) ^ low ^ high)

    def run():
        with np.errstate(over="ignore"):
            x0 = counter.astype(np.uint32) + keys[0]
            x1 = (counter >> np.uint64(32)).astype(np.uint32) + keys[1]
            for group in range(5):
                for r in rotations[group % 2]:
                    x0 += x1
                    x1 = (x1 << np.uint32(r)) | (x1 >> np.uint32(32 - r))
                    x1 ^= x0
                x0 += keys[(group + 1) % 3]
                x1 += keys[(group + 2) % 3] + np.uint32(group + 1)
            return (x1.astype(np.uint64) << np.uint64(32)) | x0

    return run


def into(shape, dtype, function):
    out = np.empty(shape, dtype)
    return lambda: function(out)


def copy_of(view):
    out = np.empty(view.shape, view.dtype)

    def run():
        np.copyto(out, view)
        return out

    return run


OPERATIONS = {
    "matmul": matmul,
    "matvec": matvec,
    "conv": conv,
    "sum_rows": lambda x, rows, columns: into(rows, np.float32, lambda out: x.sum(1, out=out)),
    "sum_columns": lambda x, rows, columns: into(columns, np.float32, lambda out: x.sum(0, out=out)),
    "max_rows": lambda x, rows, columns: into(rows, np.float32, lambda out: x.max(1, out=out)),
    "sum_all": lambda x, n: lambda: x.sum(keepdims=True),
    "argmax": argmax,
    "softmax": lambda x, rows, columns: lambda: softmax_of(x),
    "layernorm": layernorm,
    "attention": attention,
    "fma": fma,
    "chain": chain,
    "gelu": gelu,
    "threefry": threefry,
    "transpose": lambda x, rows, columns: copy_of(x.T),
    "permute_021": lambda x, a, b, c: copy_of(x.transpose(0, 2, 1)),
    "pad": lambda x, rows, columns, border: lambda: np.pad(x, border),
    "strided": lambda x, rows, columns, step: copy_of(x[::step, ::step]),
    "gather": lambda x, index, count, rows, columns: into((count, columns), x.dtype, lambda out: np.take(x, index, 0, out, "clip")),
    "cumsum_rows": lambda x, rows, columns: into(x.shape, x.dtype, lambda out: np.cumsum(x, 1, out=out)),
    "cumsum": lambda x, n: into(x.shape, x.dtype, lambda out: np.cumsum(x, out=out)),
}


def load(operation, sizes, files):
    arrays = [np.load(file) for file in files.values()]
    sizes = list(sizes.values())
    function = OPERATIONS[operation](*arrays, *sizes)
    return function, function


if __name__ == "__main__":
    worker.serve(load)
