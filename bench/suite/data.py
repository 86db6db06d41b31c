"""Arrays of a case as .npy files, and the comparison of results."""

import zlib

import numpy as np

from cases import NUMPY


def to_bfloat16(x):
    """Bits of floats rounded to bfloat16."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bfloat16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def make(array, seed):
    rng = np.random.default_rng(seed)
    if array.values == "index":
        return rng.integers(0, array.limit, array.shape, dtype=np.int32)
    if array.values == "bits":
        return rng.integers(0, 1 << 64, array.shape, dtype=np.uint64)
    if array.dtype == "char":
        return rng.integers(-128, 128, array.shape, dtype=np.int8)
    values = rng.standard_normal(array.shape, dtype=np.float32)
    return to_bfloat16(values) if array.dtype == "bfloat16" else values.astype(NUMPY[array.dtype])


def write_inputs(case, folder):
    """Each input's file, made anew only where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for name, array in case.inputs.items():
        files[name] = folder / f"{name}.npy"
        if not files[name].exists():
            np.save(files[name], make(array, zlib.crc32(f"{case.name} {name}".encode())))
    return files


def buffer_files(kernel, buffers, files):
    """{buffer: file} of a kernel's inputs. Of an array whose end the kernel does not read, the file is of what it reads: the command
    takes no more."""
    found = {}
    for number, name in buffers.items():
        if number == 0:
            continue
        found[number] = files[name]
        array = np.load(files[name], mmap_mode="r").reshape(-1)
        if array.size > kernel.reads[number]:
            found[number] = files[name].with_name(f"{files[name].stem}-start.npy")
            np.save(found[number], array[: kernel.reads[number]])
    return found


def difference(case, result, expected, rounding=0):
    """What is wrong with a result, or ""; `rounding` allows it more than the case does, as a share of the largest value."""
    got, want = np.load(result).reshape(-1), np.load(expected).reshape(-1)
    if got.size != want.size:
        return f"{got.size} values instead of {want.size}"
    if case.tolerance == 0 or case.output.dtype != "float":
        wrong = np.count_nonzero(got != want.astype(got.dtype))
        return f"{wrong} of {want.size} values differ" if wrong else ""
    scale = max(1e-6, float(np.abs(want).max()))
    worst = float(np.abs(got.astype(np.float64) - want).max())
    if not worst <= max(case.tolerance, rounding) * scale:
        return f"off by {worst:.3g}, of values up to {scale:.3g}"
    return ""
