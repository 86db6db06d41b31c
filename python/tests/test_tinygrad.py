"""quern.tinygrad: in processes of their own where what is installed matters to others."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

import quern

numpy = pytest.importorskip("numpy")
pytest.importorskip("tinygrad")

from tinygrad import Device, Tensor, Variable, dtypes
from tinygrad.codegen.kernel import Kernel, KernelOptError, Opt, OptOps
from tinygrad.engine.realize import get_kernel, get_runner
from tinygrad.helpers import Context
from tinygrad.ops import Ops, UOp

import quern.tinygrad
from quern.tinygrad._notation import notation, uop_of
from quern.tinygrad._program import QuernProgram
from quern.tinygrad._targets import target_of

# tinygrad 0.10.0 leaves this to the reader of its logs
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture
def installed():
    quern.tinygrad.install()
    yield
    quern.tinygrad.uninstall()
    quern.tinygrad.differences.clear()


def asts(tensor):
    return [si.ast for si in tensor.schedule_with_vars()[0] if si.ast.op is Ops.SINK]


def kernels():
    a, b = Tensor.empty(64, 64), Tensor.empty(64, 64)
    n = Variable("n", 1, 16).bind(5)
    return {
        "matmul": (a @ b).relu(), "softmax": a.softmax(), "sum": a.sum(), "where": (a > 0).where(a, b),
        "conv": Tensor.empty(1, 4, 16, 16).conv2d(Tensor.empty(8, 4, 3, 3), padding=1), "arange": Tensor.arange(100),
        "half": a.cast(dtypes.half) @ b.cast(dtypes.half), "int": (a.cast(dtypes.int) // 3) ^ 5,
        "constants": a * float("inf") + float("nan"), "symbolic": Tensor.empty(16, 8)[:5].reshape(n, 8).sum(0),
    }


@pytest.mark.parametrize("name", list(kernels()))
def test_the_notation_is_tinygrads_own(name):
    for ast in asts(kernels()[name]):
        assert uop_of(notation(ast)) is ast or "nan" in repr(ast)  # no NaN is another
        assert quern.parse(notation(ast)).text == quern.parse(repr(ast)).text


def renderers():
    from tinygrad.renderer.cstyle import (AMDRenderer, ClangRenderer, CUDARenderer, IntelRenderer, MetalRenderer, NVRenderer,
                                          OpenCLRenderer, QCOMRenderer)
    from tinygrad.renderer.llvmir import LLVMRenderer
    from tinygrad.renderer.ptx import PTXRenderer
    return [ClangRenderer(), LLVMRenderer(), OpenCLRenderer(), IntelRenderer(), QCOMRenderer(), CUDARenderer("sm_75"),
            CUDARenderer("sm_89"), PTXRenderer("sm_80"), NVRenderer("sm_80"), MetalRenderer(), AMDRenderer()]


@pytest.mark.parametrize("renderer", renderers(), ids=lambda r: f"{type(r).__name__}-{getattr(r, 'arch', '')}")
def test_decisions_are_tinygrads_for_every_renderer(renderer, recwarn):
    made = []
    quern.tinygrad.install(compare=True)
    try:
        for tensor in kernels().values():
            for ast in asts(tensor):
                made.append(get_kernel(renderer, ast).to_program())
        assert not quern.tinygrad.differences, quern.tinygrad.differences[0]
    finally:
        quern.tinygrad.uninstall()
        quern.tinygrad.differences.clear()
    assert made and all(isinstance(p, QuernProgram) and p.src for p in made)


def image_convolution():
    with Context(IMAGE=2):
        return asts(Tensor.empty(1, 1024, 1, 1).image_conv2d(Tensor.empty(16, 1024, 1, 1)))


@pytest.mark.parametrize("ast,opts", [(asts(kernels()["matmul"])[0], None), *((ast, None) for ast in image_convolution()),
                                      (image_convolution()[-1], [Opt(OptOps.GROUPTOP, 0, 16), Opt(OptOps.UPCASTMID, 1, 4)])],
                         ids=["matmul", "image 1", "image 2", "image convolution", "mid upcast"])
def test_a_kernel_tells_what_tinygrads_does(installed, ast, opts):
    def apply(kernel):
        if opts is None:
            kernel.hand_coded_optimizations()
        for opt in opts or ():
            kernel.apply_opt(opt)

    renderer = renderers()[4]
    ours = Kernel(ast, opts=renderer)
    apply(ours)
    copied = ours.copy()
    quern.tinygrad.uninstall()
    theirs = Kernel(ast, opts=renderer)
    apply(theirs)
    facts = ("applied_opts", "full_shape", "shape_len", "global_dims", "local_dims", "first_reduce", "group_for_reduces", "upcasted",
             "first_upcast", "dont_use_locals", "tensor_core", "name", "output_shape", "bufs", "sts", "reduceop", "membufs",
             "full_unupcasted_shape", "upcast_in_mid_reduce_axes")
    want = {name: getattr(theirs, name) for name in facts if name != "name"} | {"colors": theirs.colors()}
    quern.tinygrad.install()
    for kernel in (ours, copied):
        assert {name: getattr(kernel, name) for name in facts if name != "name"} | {"colors": kernel.colors()} == want
        assert kernel.colored_shape(dense=True)
    assert ours.get_optimized_ast().op is Ops.SINK
    assert any(u.op is Ops.STORE for u in ours.linearize().uops)


def test_opts_that_do_not_apply(installed):
    kernel = Kernel(asts(kernels()["matmul"])[0], opts=renderers()[0])
    with pytest.raises(KernelOptError):
        kernel.apply_opt(Opt(OptOps.LOCAL, 0, 4))
    with pytest.raises(KernelOptError):
        kernel.apply_opt(Opt(OptOps.UPCAST, 0, 5))
    with pytest.raises(KernelOptError):
        kernel.apply_opt(Opt(OptOps.UPCAST, 17, 4))
    with pytest.raises(KernelOptError):
        kernel.apply_opt(Opt(OptOps.UPCAST, 0))
    assert kernel.applied_opts == []
    kernel.apply_opt(Opt(OptOps.UPCAST, 0, 4))
    assert kernel.applied_opts == [Opt(OptOps.UPCAST, 0, 4)]
    with pytest.raises(NotImplementedError, match="shift_to"):
        kernel.shift_to(0, 4)
    with pytest.raises(AttributeError, match="upcasted"):
        kernel.upcasted = 3


def test_an_error_has_the_kernel_attached(installed):
    from tinygrad.renderer.cstyle import ClangRenderer
    view = UOp(Ops.VIEW, arg=__import__("tinygrad.shape.shapetracker", fromlist=["x"]).ShapeTracker.from_shape((4, 4)))
    image = UOp(Ops.DEFINE_GLOBAL, dtypes.imagef((1, 4, 4)), arg=0)
    load = UOp(Ops.LOAD, dtypes.float, (UOp(Ops.DEFINE_GLOBAL, dtypes.float.ptr(), arg=1), view))
    ast = UOp(Ops.SINK, src=(UOp(Ops.STORE, src=(image, view, load)),))
    with pytest.raises(quern.InvalidKernel, match="image") as e:
        Kernel(ast, opts=ClangRenderer()).to_program()
    assert e.value.kernel == notation(ast) and notation(ast) in str(e.value) and "clang" in str(e.value)
    with pytest.raises(quern.InvalidKernel) as e:
        Kernel(UOp(Ops.SINK, src=(load,)), opts=ClangRenderer())
    assert "Ops.LOAD" in e.value.kernel


def test_what_a_compiler_refuses_has_the_kernel_attached(installed, monkeypatch):
    device = Device["CLANG"]
    monkeypatch.setattr(device.compiler, "compile_cached", lambda src: (_ for _ in ()).throw(RuntimeError("refused")))
    ast = asts(Tensor.empty(7, device="CLANG") + 3)[0]
    with pytest.raises(RuntimeError, match="refused") as e:
        get_runner("CLANG", ast)
    assert e.value.kernel == notation(ast)


def test_other_renderers_stay_tinygrads(installed):
    from tinygrad.renderer.cstyle import ClangRenderer
    from tinygrad.runtime.ops_python import PythonRenderer

    class Own(ClangRenderer):
        pass
    ast = asts(kernels()["sum"])[0]
    for renderer in (PythonRenderer(), Own()):
        assert target_of(renderer) is None
        kernel = Kernel(ast, opts=renderer)
        kernel.hand_coded_optimizations()
        assert kernel.copy().applied_opts == kernel.applied_opts and kernel.name
        assert type(kernel.to_program()) is not QuernProgram


def test_values_on_clang(installed):
    rng = numpy.random.default_rng(1)
    a, b = rng.random((33, 65), "f4"), rng.random((65, 17), "f4")
    got = (Tensor(a, device="CLANG") @ Tensor(b, device="CLANG")).softmax().numpy()
    want = numpy.exp(a @ b - (a @ b).max(1, keepdims=True))
    numpy.testing.assert_allclose(got, want / want.sum(1, keepdims=True), rtol=1e-4)


def test_symbolic_shapes_on_clang(installed):
    data = numpy.arange(32, dtype="f4").reshape(16, 2)
    for n in (3, 9):
        v = Variable("rows", 1, 16).bind(n)
        got = Tensor(data, device="CLANG").shrink(((0, v), None)).sum(0).reshape(2).numpy()
        numpy.testing.assert_array_equal(got, data[:n].sum(0))


def test_a_jit_of_kernels_that_bring_the_same_functions(installed):
    from tinygrad import TinyJit

    @TinyJit
    def step(x):
        return (x.exp2().realize().log2().realize() + x.sin()).realize()
    data = numpy.linspace(0.5, 2, 10, dtype="f4")
    for i in range(4):
        got = step(Tensor(data + i, device="CLANG").realize()).numpy()
        numpy.testing.assert_allclose(got, data + i + numpy.sin(data + i), rtol=1e-5)


def test_beam_searches_with_quern(installed):
    from tinygrad.engine.search import beam_search, bufs_from_lin, get_kernel_actions
    try:
        quern.Device("CLANG")
    except quern.DeviceError as e:
        pytest.skip(str(e))
    renderer = renderers()[0]
    kernel = Kernel(asts(Tensor.empty(6, 4, device="CLANG") + 1)[0], opts=renderer)
    best = beam_search(kernel, bufs_from_lin(kernel, allocate=False), 1, disable_cache=True)
    assert isinstance(best.to_program(), QuernProgram)
    found = get_kernel_actions(Kernel(asts(kernels()["matmul"])[0], opts=renderers()[5]), include_0=False)
    assert len(found) > 20


def test_kernels_and_programs_pickle(installed):
    import pickle
    kernel = Kernel(asts(kernels()["matmul"])[0], opts=renderers()[0])
    kernel.hand_coded_optimizations()
    again = pickle.loads(pickle.dumps(kernel))
    assert again.applied_opts == kernel.applied_opts and again.ast is kernel.ast
    program = kernel.to_program()
    assert pickle.loads(pickle.dumps(program)).src == program.src


def test_uninstalled_tinygrad_is_as_it_was():
    import tinygrad.engine.realize as realize
    import tinygrad.engine.search as search
    before = {**Kernel.__dict__}, search.beam_search, realize.CompiledRunner.__init__
    quern.tinygrad.install()
    quern.tinygrad.install()
    assert quern.tinygrad.is_installed() and Kernel.__dict__["to_program"] is not before[0]["to_program"]
    quern.tinygrad.uninstall()
    quern.tinygrad.uninstall()
    assert not quern.tinygrad.is_installed()
    assert ({**Kernel.__dict__}, search.beam_search, realize.CompiledRunner.__init__) == before


def test_other_versions_are_refused(monkeypatch):
    import importlib.metadata
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.9.2")
    with pytest.raises(quern.tinygrad.TinygradVersionError, match="0.9.2.*pip install tinygrad==0.10.0"):
        quern.tinygrad.install()
    assert not quern.tinygrad.is_installed()


SCRIPT = """
    import sys
    from tinygrad import Tensor
    from tinygrad.codegen.kernel import Kernel
    assert sys.argv[1:] == ["x"], sys.argv
    print(Kernel.to_program.__module__ == "tinygrad.codegen.kernel" and hasattr(Kernel, "__getattr__"), Tensor.ones(3, 4).sum().item())
"""


def run(tmp_path: pathlib.Path, *arguments: str, **environment: str) -> str:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run([sys.executable, *arguments, str(script), "x"], text=True, capture_output=True,
                          env={**os.environ, "CLANG": "1", **environment}, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_scripts_run_with_quern(tmp_path):
    assert run(tmp_path) == ["False", "12.0"]
    assert run(tmp_path, "-m", "quern.tinygrad") == ["True", "12.0"]
    assert run(tmp_path, "-m", "quern.tinygrad", "--compare") == ["True", "12.0"]
    assert run(tmp_path, QUERN_TINYGRAD="1") == ["True", "12.0"]
    assert run(tmp_path, QUERN_TINYGRAD="0") == ["False", "12.0"]


@pytest.mark.parametrize("arguments,mode,status,why", [
    (["-c", "import tinygrad"], "yes", 1, "QUERN_TINYGRAD takes 0, 1 or compare, not 'yes'"),
    (["-m", "quern.tinygrad", "--comapre", "script.py"], "0", 2, "there is no option --comapre"),
    (["-m", "quern.tinygrad"], "0", 2, "runs a program of tinygrad's with Quern"),
])
def test_modes_and_options_that_there_are_not(arguments, mode, status, why):
    done = subprocess.run([sys.executable, *arguments], text=True, capture_output=True, env={**os.environ, "QUERN_TINYGRAD": mode},
                          check=False)
    assert done.returncode == status and why in done.stderr


def test_what_is_no_kernel_is_refused(installed, monkeypatch):
    for wrong in (None, 3, "UOp()"):
        with pytest.raises(TypeError, match="a kernel's AST is a UOp, not a"):
            Kernel(wrong, opts=renderers()[0])
    with pytest.raises(quern.InvalidKernel, match="CONST"):
        Kernel(UOp(Ops.CONST, dtypes.int, arg=3).sink(), opts=renderers()[0])
    monkeypatch.setenv("QUERN_BEAM_SECONDS", "soon")
    from tinygrad.engine.search import beam_search
    with pytest.raises(ValueError, match="QUERN_BEAM_SECONDS takes a number of seconds, not 'soon'"):
        beam_search(Kernel(asts(Tensor.empty(6, 4, device="CLANG") + 1)[0], opts=renderers()[0]), [], 1, disable_cache=True)
