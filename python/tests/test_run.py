import array
import ctypes
import gc
import signal
import threading
import time
import weakref

import pytest

import quern

from conftest import add_kernel, device_or_skip

numpy = pytest.importorskip("numpy")


@pytest.fixture
def add():
    device_or_skip("CPU")
    return quern.compile(add_kernel(), "CPU")


def floats(n=64):
    return numpy.arange(n, dtype="f4")


@pytest.mark.parametrize("device", ["CPU", "CLANG", "OPENCL", "INTERP"])
def test_kernels_run_on_numpy_arrays_without_copies(matmul, device):
    opened = device_or_skip(device)
    opts = "none" if device == "INTERP" else None
    text = matmul if device != "INTERP" else add_kernel()
    kernel = quern.compile(text, opened, opts=opts)
    if device == "INTERP":
        out, a, b = numpy.zeros(64, "f4"), floats(), floats()
        expected = a + b
    else:
        rng = numpy.random.default_rng(1)
        out, a, b = numpy.zeros((256, 256), "f4"), rng.random((256, 256), "f4"), rng.random((256, 256), "f4")
        expected = a @ b
    assert kernel.run(out, a, b) > 0
    numpy.testing.assert_allclose(out, expected, rtol=1e-4)


@pytest.mark.parametrize("dtype,numpy_dtype", [("char", "i1"), ("uchar", "u1"), ("short", "i2"), ("ushort", "u2"), ("int", "i4"),
                                               ("uint", "u4"), ("long", "i8"), ("ulong", "u8"), ("half", "f2"), ("float", "f4"),
                                               ("double", "f8")])
def test_every_type(dtype, numpy_dtype):
    device_or_skip("CPU")
    out, a = numpy.zeros(64, numpy_dtype), numpy.arange(64).astype(numpy_dtype)
    quern.run(add_kernel(dtype), out, a, a)
    numpy.testing.assert_array_equal(out, a + a)


def test_bfloat16_comes_as_other_16_bits():
    device_or_skip("CPU")
    out, a = numpy.zeros(64, "u2"), numpy.full(64, 0x3FC0, "u2")  # 1.5
    quern.run(add_kernel("bfloat16"), quern.Buffer(out, dtype="bfloat16"), quern.Buffer(a, dtype="bfloat16"),
              quern.Buffer(a, dtype="bfloat16"))
    assert (out == 0x4040).all()  # 3


def test_variables(symbolic_sum):
    device_or_skip("CPU")
    kernel = quern.compile(symbolic_sum)
    out, a = numpy.zeros(64, "f4"), numpy.ones((64, 512), "f4")
    kernel.run(out, a, vars={"n": 7})
    assert (out == 7).all()
    for wrong in ({}, {"n": 0}, {"n": 513}, {"m": 7}):
        with pytest.raises(quern.DeviceError, match="n"):
            kernel.run(out, a, vars=wrong)
    for wrong in ({"n": 2**70}, {"n": "7"}, {7: 7}, [7]):
        with pytest.raises(TypeError):
            kernel.run(out, a, vars=wrong)


def test_other_arrays_than_numpys(add):
    out = bytearray(4 * 64)
    a, b = array.array("f", range(64)), (ctypes.c_float * 64)(*range(64))
    view = memoryview(out).cast("f")
    add.run(view, a, b)
    assert list(view) == [2.0 * i for i in range(64)]
    made = quern.Buffer.zeros((8, 8))
    add(made, floats(), floats())
    assert made.numpy()[7, 7] == 126 and made.numpy().shape == (8, 8)


def test_dlpack_goes_both_ways_without_copies():
    a = floats()
    buffer = quern.Buffer(a)
    assert (buffer.dtype, buffer.shape, buffer.size, buffer.nbytes, buffer.writable) == ("float", (64,), 64, 256, True)
    back = numpy.from_dlpack(buffer)
    back[3] = -1
    assert a[3] == -1 and numpy.shares_memory(a, buffer.numpy())

    class Speaker:  # DLPack alone
        def __init__(self, of):
            self.of = of

        def __dlpack__(self, **kwargs):
            return self.of.__dlpack__(**kwargs)

        def __dlpack_device__(self):
            return self.of.__dlpack_device__()
    assert numpy.shares_memory(quern.Buffer(Speaker(a)).numpy(), a)


def test_a_buffer_keeps_its_memory():
    a = floats()
    alive = weakref.ref(a)
    buffer = quern.Buffer(a)
    view = buffer.numpy()
    del a, buffer
    gc.collect()
    assert view[63] == 63
    del view
    gc.collect()
    assert alive() is None


def test_arrays_that_do_not_fit_are_refused(add):
    out = numpy.zeros(64, "f4")
    read_only = floats()
    read_only.setflags(write=False)
    big = numpy.zeros(200, "f4")
    misaligned = numpy.frombuffer(bytearray(4 * 64 + 1), "u1")[1:]
    for arrays, error, message in [
        ((out, floats()), quern.DeviceError, "2"),
        ((out, floats(), floats(), floats()), quern.DeviceError, "4"),
        ((), quern.DeviceError, "0"),
        ((out, floats().astype("f8"), floats()), quern.DeviceError, "double"),
        ((out, floats(63), floats()), quern.DeviceError, "63"),
        ((read_only, floats(), floats()), quern.DeviceError, "const|read-only"),
        ((out, out, floats()), quern.DeviceError, "shares memory"),
        ((big[:64], big[32:96], floats()), quern.DeviceError, "shares memory"),
        ((out, numpy.zeros(128, "f4")[::2], floats()), ValueError, "argument 1.*strides"),
        ((out, numpy.zeros((8, 16), "f4")[:, :8], floats()), ValueError, r"\(8, 8\).*\(16, 1\)"),
        ((out, numpy.zeros((8, 8), "f4").T, floats()), ValueError, "row-major"),
        ((out, floats()[::-1], floats()), ValueError, "row-major"),
        ((out, floats().astype(">f4"), floats()), TypeError, "argument 1"),
        ((out, numpy.zeros(64, "c8"), floats()), TypeError, "complex"),
        ((out, numpy.array([object()] * 64), floats()), TypeError, "argument 1"),
        ((out, numpy.array(["a"] * 64), floats()), TypeError, "argument 1"),
        ((out, [1.0] * 64, floats()), TypeError, "a list"),
        ((out, None, floats()), TypeError, "NoneType"),
        ((out, 3.0, floats()), TypeError, "float"),
        ((out, numpy.float32(3), floats()), (TypeError, quern.DeviceError), None),
        ((out, numpy.zeros((0,), "f4"), floats()), quern.DeviceError, None),
        ((out, misaligned.view("f4"), floats()), quern.DeviceError, "aligned"),
    ]:
        with pytest.raises(error, match=message):
            add.run(*arrays)
    assert (out == 0).all()
    add.run(out, read_only, read_only)  # inputs may be read-only, and the same
    assert out[63] == 126


def test_buffers_refuse_what_they_cannot_be():
    with pytest.raises(TypeError, match="host"):
        quern.Buffer(object())
    with pytest.raises(TypeError, match="bytes"):
        quern.Buffer(floats(), dtype="half")
    with pytest.raises(ValueError, match="no type is called 'quad'"):
        quern.Buffer(floats(), dtype="quad")
    with pytest.raises(ValueError):
        quern.Buffer.zeros(4, "quad")
    for shape in (-1, (2**62,), (2**40, 2**40), "ab", None, (1.5,)):
        with pytest.raises((TypeError, ValueError, MemoryError)):
            quern.Buffer.zeros(shape)
    assert quern.Buffer.zeros(()).size == 1 and quern.Buffer.zeros(0).size == 0

    class OnGpu:
        def __dlpack__(self, **kwargs):
            raise BufferError("on a GPU")

        def __dlpack_device__(self):
            return (2, 0)
    with pytest.raises(TypeError):
        quern.Buffer(OnGpu())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::RuntimeWarning")
def test_uninitialized_objects_do_no_harm(add):
    for kind in (quern.Kernel, quern.Buffer, quern.Device, quern.Executable, quern.Program, quern.Graph):
        empty = kind.__new__(kind)
        with pytest.raises((TypeError, RuntimeError, quern.Error)):
            add.run(empty, empty, empty)
        with pytest.raises((TypeError, RuntimeError, quern.Error)):
            quern.compile(empty)
        with pytest.raises((TypeError, RuntimeError, quern.Error)):
            quern.compile(add_kernel(), empty)


def test_devices_and_settings():
    names = {d.name: d for d in quern.devices()}
    assert names["INTERP"].available
    assert quern.Device("INTERP", QUERN_CACHE="off").accepts("metal")
    with pytest.raises(quern.DeviceError, match="NOWHERE"):
        quern.Device("NOWHERE")
    with pytest.raises(quern.Error, match="NO_SUCH"):
        quern.Device("INTERP", NO_SUCH="1")
    with pytest.raises(quern.DeviceError):
        quern.compile(quern.Kernel(add_kernel(), "metal"), "CPU")
    with pytest.raises(TypeError):
        quern.compile(quern.Kernel(add_kernel(), "llvm"), "CPU", opts="none")
    with pytest.raises(TypeError, match="device"):
        quern.compile(add_kernel(), 3)


def test_a_compilers_refusal_has_its_log():
    device_or_skip("CLANG")
    device = quern.Device("CLANG", CC="false", QUERN_CACHE="off")
    with pytest.raises(quern.CompileError) as e:
        quern.compile(add_kernel(), device)
    assert isinstance(e.value.log, str)


def test_running_releases_the_gil(add):
    matmul = quern.compile(quern.parse(add_kernel("float", 1 << 22)), "CPU")
    out, a = numpy.zeros(1 << 22, "f4"), numpy.ones(1 << 22, "f4")
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.0005)
    thread = threading.Thread(target=tick)
    thread.start()
    spans = []
    for _ in range(20):
        start = time.perf_counter()
        matmul.run(out, a, a)
        spans.append((start, time.perf_counter()))
    stop.set()
    thread.join()
    assert any(start < t < end for start, end in spans for t in ticks)


def test_threads_run_one_kernel_at_once(add):
    outs = [numpy.zeros(64, "f4") for _ in range(4)]

    def work(out):
        for _ in range(200):
            add.run(out, floats(), floats())
    threads = [threading.Thread(target=work, args=(out,)) for out in outs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for out in outs:
        numpy.testing.assert_array_equal(out, 2 * floats())


def test_tune_finds_opts_that_compile_takes(matmul):
    device_or_skip("CPU")
    seen = []

    def progress(best, candidates, elapsed):
        seen.append((best, candidates, elapsed))
        return candidates < 6
    found = quern.tune(matmul, beam=1, seconds=20, progress=progress)
    assert found.candidates == len(seen) <= 6 and found.seconds > 0 and not found.known
    quern.compile(matmul, opts=found.opts)
    with pytest.raises(quern.Error, match="beam"):
        quern.tune(matmul, beam=0)
    with pytest.raises(TypeError):
        quern.tune(matmul, progress=3)


def test_what_a_callback_raises_comes_out_of_tune(matmul):
    device_or_skip("CPU")

    class Stop(Exception):
        pass

    def progress(*_):
        raise Stop
    with pytest.raises(Stop):
        quern.tune(matmul, seconds=20, progress=progress)


def test_ctrl_c_ends_a_search(matmul):
    device_or_skip("CPU")
    timer = threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        quern.tune(matmul, seconds=60)
    timer.join()
    assert time.monotonic() - start < 30
