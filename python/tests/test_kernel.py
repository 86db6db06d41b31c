import copy
import pickle
import threading

import pytest

import quern

from conftest import add_kernel


def test_opts_change_axes_and_name(matmul):
    kernel = quern.Kernel(matmul, "cuda:sm_80")
    kernel.apply_opt("UPCAST(0,4)")
    kernel.apply_opt(quern.Opt("LOCAL", 1, 8))
    assert [(a.size, a.kind, a.color) for a in kernel.axes] == [
        (64, "global", "blue"), (32, "global", "blue"), (8, "local", "cyan"), (256, "reduce", "red"), (4, "upcast", "yellow")]
    assert kernel.name == "r_64_32_8_256_4"
    assert kernel.applied_opts == [quern.Opt("UPCAST", 0, 4), quern.Opt("LOCAL", 1, 8)]
    assert kernel.opts == "UPCAST(0,4) LOCAL(1,8)"
    assert str(kernel.applied_opts[0]) == "UPCAST(0,4)"


def test_an_opt_that_does_not_apply_leaves_the_kernel_as_it_was(matmul):
    kernel = quern.Kernel(matmul)
    with pytest.raises(quern.OptError, match="LOCAL"):
        kernel.apply_opt("LOCAL(0,4)")
    assert kernel.try_apply_opt("LOCAL(0,4)")
    assert kernel.try_apply_opt("UPCAST(0,4)") is None
    assert kernel.opts == "UPCAST(0,4)"
    for wrong in ("UPCAST", "UPCAST(0,4", "NOSUCH(0,1)", "", "UPCAST(99999999999999999999,4)"):
        with pytest.raises(quern.OptError):
            kernel.apply_opt(wrong)
    with pytest.raises(TypeError):
        kernel.apply_opt(3)
    with pytest.raises(quern.OptError):
        kernel.optimize()


def test_a_program_tells_what_launching_takes(matmul):
    kernel = quern.Kernel(matmul, "opencl")
    kernel.optimize()
    program = kernel.compile()
    assert program.name == kernel.name and program.name in program.source
    assert program.globals == [0, 1, 2] and program.outs == [0] and program.vars == []
    assert [(b.number, b.dtype, b.elements, b.is_output) for b in program.buffers] == [
        (0, "float", 65536, True), (1, "float", 65536, False), (2, "float", 65536, False)]
    assert all(isinstance(n, int) for n in (*program.global_size, *program.local_size))
    assert program.estimates.ops >= 2 * 256**3
    assert program.num_uops == len(program.linear.splitlines())
    assert quern.Kernel(matmul, "clang").compile().global_size is None
    assert quern.Kernel(matmul).compile("other").name == "other"
    with pytest.raises(quern.InvalidKernel, match="name"):
        quern.Kernel(matmul).compile("not a name")


def test_symbolic_sizes_are_told_as_such(symbolic_sum):
    kernel = quern.Kernel(symbolic_sum, "opencl")
    size = kernel.axes[-1].size
    assert isinstance(size, quern.Symbolic) and str(size) == "n" and "DEFINE_VAR" in size.notation
    program = kernel.compile()
    assert [(v.name, v.min, v.max) for v in program.vars] == [("n", 1, 512)]
    assert str(program.estimates.ops) == "(n*64)" or "n" in str(program.estimates.ops)


def test_every_target_gives_a_source(matmul):
    for target in quern.targets():
        kernel = quern.Kernel(matmul, target)
        kernel.optimize()
        assert kernel.compile().source, target


def test_errors_mirror_the_libraries():
    with pytest.raises(quern.ParseError) as e:
        quern.parse("UOp(Ops.SINK,\n  dtypes.void, arg=None, src=(UOp(Ops.NOSUCH")
    assert (e.value.line, e.value.column, e.value.expected) == (2, 39, "the name of an op")
    assert isinstance(e.value, quern.Error) and isinstance(e.value, RuntimeError)
    with pytest.raises(quern.InvalidKernel, match="SINK|STORE"):
        quern.parse("UOp(Ops.CONST,dtypes.int,arg=1,src=())")
    with pytest.raises(quern.DeviceError, match="abacus"):
        quern.Kernel(add_kernel(), "abacus")
    with pytest.raises(quern.OptError):
        quern.Kernel(add_kernel(), tensor_cores=7)
    for wrong in (None, 3, b"UOp(", object()):
        with pytest.raises(TypeError):
            quern.Kernel(wrong)
    for text in ("", "\0", "UOp(" * 10000, "x0:=x0", "\ud800"):
        with pytest.raises((quern.ParseError, UnicodeEncodeError, RuntimeError, TypeError)):
            quern.parse(text)


def test_graphs_print_and_pickle(matmul):
    graph = quern.parse(matmul)
    again = pickle.loads(pickle.dumps(graph))
    assert again.text == graph.text == quern.parse(str(graph)).text
    assert quern.Kernel(graph).text == graph.text


def test_copies_go_their_own_ways(matmul):
    kernel = quern.Kernel(matmul)
    for other in (kernel.copy(), copy.copy(kernel), copy.deepcopy(kernel)):
        other.apply_opt("UPCAST(0,4)")
        assert (kernel.opts, other.opts) == ("", "UPCAST(0,4)")


def test_threads_compile_at_once(matmul):
    kernel = quern.Kernel(matmul, "cuda:sm_80")
    sources, errors = [], []

    def work():
        try:
            for _ in range(20):
                mine = kernel.copy()
                mine.hand_coded_optimizations()
                sources.append(mine.compile().source)
        except Exception as e:
            errors.append(e)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors and len(sources) == 80 and len(set(sources)) == 1


def test_legal_opts_apply(matmul):
    kernel = quern.Kernel(matmul, "cuda:sm_80")
    legal = kernel.legal_opts()
    assert len(legal) > 20
    for _, opt in legal:
        assert kernel.copy().try_apply_opt(opt) is None, opt
    assert len(kernel.legal_opts(max_threads=1)) < len(legal)
