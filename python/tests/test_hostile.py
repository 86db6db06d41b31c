"""Input that is wrong on purpose, and the interpreter's end: an exception that says what is wrong, never a crash."""

import copy
import os
import pathlib
import pickle
import subprocess
import sys
import textwrap

import pytest

import quern

from conftest import add_kernel, device_or_skip

numpy = pytest.importorskip("numpy")


@pytest.mark.parametrize("call", [
    lambda text: quern.Kernel(add_kernel(), text),
    lambda text: quern.Kernel(add_kernel()).apply_opt(text),
    lambda text: quern.Kernel(add_kernel()).optimize(text),
    lambda text: quern.Kernel(add_kernel()).compile(text),
    lambda text: quern.Device(text),
    lambda text: quern.Device("INTERP", **{text: "1"}),
    lambda text: quern.Device("INTERP", CC="x" + text),
    lambda text: quern.parse(text),
    lambda text: quern.Buffer.zeros(4, text),
])
@pytest.mark.parametrize("text", ["?" * 1_000_000, "a\0b", "\x1b[31m"])
def test_a_message_quotes_a_little_of_what_was_given_and_nothing_that_no_terminal_shows(call, text):
    try:
        call(text)
    except (quern.Error, ValueError) as e:
        assert len(str(e)) < 2000 and "\0" not in str(e) and "\x1b" not in str(e)


def test_arrays_have_up_to_64_axes():
    assert quern.Buffer.zeros((1,) * 64).shape == (1,) * 64
    for axes in (65, 1000):
        with pytest.raises(ValueError, match=f"up to 64 axes, not {axes}"):
            quern.Buffer.zeros((1,) * axes)


def test_numpy_is_not_given_what_it_has_no_array_for():
    with pytest.raises(TypeError, match=r"NumPy has no array for Buffer\(bfloat16, \(4,\)\)"):
        quern.Buffer.zeros(4, "bfloat16").numpy()


def test_an_empty_array_has_no_gaps():
    empty = numpy.zeros((0, 5), "f4")[:, ::2]
    assert quern.Buffer(empty).shape == (0, 3)


class Speaks:
    """DLPack, but only to raise."""

    def __init__(self, error):
        self.error = error

    def __dlpack__(self, **kwargs):
        raise self.error

    def __dlpack_device__(self):
        return (1, 0)


def test_what_dlpack_raises_is_told():
    with pytest.raises(TypeError, match="its __dlpack__ raises ZeroDivisionError: mine"):
        quern.Buffer(Speaks(ZeroDivisionError("mine")))
    with pytest.raises(KeyboardInterrupt):
        quern.Buffer(Speaks(KeyboardInterrupt()))
    kernel = quern.compile(add_kernel(), "INTERP", opts="none")
    with pytest.raises(TypeError, match="argument 0: .* raises BufferError: elsewhere"):
        kernel.run(Speaks(BufferError("elsewhere")), numpy.zeros(64, "f4"), numpy.zeros(64, "f4"))


def test_a_compilers_output_may_be_any_bytes(tmp_path):
    device_or_skip("CLANG")
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\nprintf '\\377\\376 bad' >&2\nexit 1\n")
    compiler.chmod(0o755)
    with pytest.raises(quern.CompileError, match="bad") as e:
        quern.compile(add_kernel(), quern.Device("CLANG", CC=str(compiler), QUERN_CACHE="off"))
    assert e.value.log == "\ufffd\ufffd bad"


def test_a_search_takes_a_time_and_a_file_that_can_be():
    for seconds in (-1, float("nan"), float("-inf")):
        with pytest.raises(quern.Error, match="seconds"):
            quern.tune(add_kernel(), device="INTERP", seconds=seconds)
    for database, why in (("a\0b", "zero bytes"), ("/dev/null/x", "/dev/null"), ("/dev/full", "/dev/full")):
        with pytest.raises(quern.Error, match=why):
            quern.tune(add_kernel(), device="INTERP", database=database, seconds=1)


def test_a_device_with_threads_of_its_own_is_refused_in_a_forked_process():
    device_or_skip("OPENCL")
    kernel = quern.compile(add_kernel(), "OPENCL")
    arrays = [numpy.zeros(64, "f4") for _ in range(3)]
    kernel.run(*arrays)
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            kernel.run(*arrays)
        except BaseException as e:
            os.write(writing, f"{type(e).__name__}: {e}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 1000).startswith(b"DeviceError: device OPENCL was opened by process")


def test_opts_and_errors_are_copied_and_pickled_and_what_is_open_is_not():
    for opt in (quern.Opt("UPCAST", 0, 4), quern.Opt("NOLOCALS")):
        assert copy.copy(opt) == copy.deepcopy(opt) == pickle.loads(pickle.dumps(opt)) == opt
    with pytest.raises(quern.ParseError) as e:
        quern.parse("UOp(")
    again = pickle.loads(pickle.dumps(e.value))
    assert (str(again), again.line, again.column, again.expected) == (str(e.value), 1, 5, e.value.expected)
    assert str(pickle.loads(pickle.dumps(quern.parse(add_kernel())))) == str(quern.parse(add_kernel()))
    kernel = quern.Kernel(add_kernel())
    for value in (kernel, kernel.compile(), quern.Device("INTERP"), quern.Buffer.zeros(4)):
        with pytest.raises(TypeError, match="pickle"):
            pickle.dumps(value)


@pytest.mark.parametrize("at_work", [
    "kernel = quern.compile(add_kernel(), 'INTERP', opts='none')\nwhile True: kernel.run(*(numpy.zeros(64, 'f4') for _ in range(3)))",
    "while True: quern.compile(add_kernel(), 'INTERP')",
    "while True: quern.parse(add_kernel())",
    "quern.tune(add_kernel(), device='CPU', seconds=20, progress=lambda *_: True)",
    "quern.tune(add_kernel(), device='INTERP', seconds=20, progress=lambda *_: all(range(1, 100)))",
])
def test_the_interpreter_may_end_while_threads_are_at_work(at_work):
    script = "\n".join([
        "import threading, time, numpy, quern",
        "from conftest import add_kernel",
        "def work():",
        textwrap.indent(at_work, "  "),
        "for _ in range(3): threading.Thread(target=work, daemon=True).start()",
        "time.sleep(0.5)",
    ])
    env = os.environ | {"PYTHONPATH": str(pathlib.Path(__file__).parent)}
    done = subprocess.run([sys.executable, "-c", script], env=env, text=True, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
