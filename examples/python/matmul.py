"""A kernel from text, compiled, run on NumPy arrays without copies, looked at, and tuned."""

import pathlib

import numpy

import quern

text = (pathlib.Path(__file__).parent.parent / "kernels" / "matmul.kernel").read_text()
rng = numpy.random.default_rng(1)
a, b, out = rng.random((256, 256), "f4"), rng.random((256, 256), "f4"), numpy.zeros((256, 256), "f4")

kernel = quern.compile(text, "CPU")
seconds = min(kernel.run(out, a, b) for _ in range(10))
assert numpy.allclose(out, a @ b, rtol=1e-4)
print(f"{kernel.name} on the CPU: {2 * 256**3 / seconds / 1e9:.1f} GFLOPS")

plan = quern.Kernel(text, "cuda:sm_80")
plan.apply_opt("UPCAST(0,4)")
plan.apply_opt("LOCAL(1,16)")
program = plan.compile()
print(f"{program.name} for {program.target}: groups {program.global_size}, threads {program.local_size}")
print(f"{len(plan.legal_opts())} opts could follow; {plan.try_apply_opt('UPCAST(0,5)')}")

found = quern.tune(text, beam=1, seconds=3)
print(f"a search of {found.candidates} candidates found {found.opts}: {2 * 256**3 / found.seconds / 1e9:.1f} GFLOPS")
