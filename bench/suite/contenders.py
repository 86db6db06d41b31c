"""Those who are timed. Each prepares a case, writes its result to a file for the comparison, and is then timed for so many seconds."""

import json
import os
import pathlib
import select
import subprocess

import data
from setup import BUILD, PYTHON, ROOT, VENV, compile_native, openblas, torch_python

HERE = pathlib.Path(__file__).resolve().parent
QUERN = ROOT / "build" / "release" / "bin" / "quern"


class Skip(Exception):
    """It has nothing for the case."""


class Failed(Exception):
    """It should have, but did not work."""


def cpus(threads):
    """Those to run on: the first of the allowed ones."""
    return sorted(os.sched_getaffinity(0))[:threads]


def environment(threads, **more):
    """The caller's, without settings of Quern or of threads, which would decide in the suite's place."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("QUERN_", "BEAM", "OMP_", "OPENBLAS_"))}
    count = str(threads)
    return {**kept, "OMP_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count, "MKL_NUM_THREADS": count, "QUERN_THREADS": count, **more}


def pinned(threads):
    chosen = set(cpus(threads))
    return lambda: os.sched_setaffinity(0, chosen)


class Quern:
    """`quern run`, a process a kernel and round; what several kernels take is summed."""

    def __init__(self, tuned, threads, tune_options=()):
        self.name = "tuned" if tuned else "default"
        self.tuned, self.threads, self.tune_options = tuned, threads, tune_options
        database = BUILD / f"tuned-{threads}.db" if tuned else "off"
        self.env = environment(threads, QUERN_TUNED=str(database), QUERN_CACHE=str(BUILD / "cache.db"))

    def quern(self, *arguments, timeout=900):
        made = subprocess.run([QUERN, *map(str, arguments)], capture_output=True, text=True, env=self.env,
                              preexec_fn=pinned(self.threads), timeout=timeout)
        if made.returncode != 0:
            told = (made.stdout + made.stderr).strip().splitlines()  # the error is the last; before it are the log's messages
            raise Failed(told[-1][:200] if told else f"exit status {made.returncode}")
        return made.stdout

    def prepare(self, case, files, folder, result):
        files = {**files, "out": result, **{name: folder / f"{self.name}-{name}.npy" for name in case.between}}
        self.steps = []
        for i, (text, buffers) in enumerate(case.steps):
            kernel = folder / f"{i}.kernel"
            kernel.write_text(text)
            inputs = [f"{number}={file}" for number, file in data.buffer_files(text, buffers, files).items()]
            self.steps.append((kernel, [part for text in inputs for part in ("--in", text)]))
            if self.tuned:
                self.quern("tune", kernel, *self.tune_options)
            self.quern("run", kernel, *self.steps[-1][1], "--out", f"0={files[buffers[0]]}")

    def time(self, seconds):
        total = {"best": 0.0, "median": 0.0, "runs": 0}
        self.opts = []
        for kernel, inputs in self.steps:
            share = f"{max(1, round(1000 * seconds / len(self.steps)))}ms"
            told = json.loads(self.quern("run", kernel, *inputs, "--time", share, "--repeat", "2", "--emit", "json"))
            total["best"] += told["best_us"] * 1e-6
            total["median"] += told["median_us"] * 1e-6
            total["runs"] += told["runs"]
            self.opts.append(told["opts"])
        return total

    def details(self):
        return {"opts": self.opts}

    def close(self):
        pass


class Worker:
    """A peer that is a Python process and stays for the whole run."""

    timeout = 300

    def __init__(self, name, python, script, threads, timeout=300, **env):
        self.name, self.timeout = name, timeout
        self.command = [python, str(HERE / script)]
        self.threads, self.env = threads, environment(threads, **env)
        self.process = None

    def ask(self, **request):
        if self.process is None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                            env=self.env, preexec_fn=pinned(self.threads))
        try:
            self.process.stdin.write((json.dumps(request) + "\n").encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        if not select.select([self.process.stdout], [], [], self.timeout)[0]:
            self.close()
            raise Failed(f"no answer in {self.timeout} s")
        line = self.process.stdout.readline()
        if not line:
            self.close()
            raise Failed("ended")
        answer = json.loads(line)
        if "skip" in answer:
            raise Skip(answer["skip"])
        return answer

    def prepare(self, case, files, folder, result):
        self.ask(load=case.operation, sizes=case.sizes, inputs={name: str(file) for name, file in files.items()}, output=str(result))

    def time(self, seconds):
        return self.ask(time=seconds)

    def details(self):
        return {}

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class Native:
    """A peer that is a C++ program, a process a round."""

    def __init__(self, name, program, threads, fixed, **env):
        self.name, self.program, self.threads, self.fixed = name, program, threads, fixed
        self.env = environment(threads, **env)

    def ask(self, **more):
        given = {**self.fixed, **self.case, **more}
        command = [self.program, *(f"{key}={int(value) if isinstance(value, bool) else value}" for key, value in given.items())]
        made = subprocess.run(command, capture_output=True, text=True, env=self.env, preexec_fn=pinned(self.threads), timeout=300)
        if made.returncode != 0:
            raise Failed(made.stderr.strip()[:200] or f"exit status {made.returncode}")
        answer = json.loads(made.stdout)
        if "skip" in answer:
            raise Skip(answer["skip"])
        return answer

    def prepare(self, case, files, folder, result):
        self.case = {"operation": case.operation, **case.sizes, **{f"in_{name}": file for name, file in files.items()}}
        self.ask(output=result, seconds=0)

    def time(self, seconds):
        return self.ask(seconds=seconds)

    def details(self):
        return {}

    def close(self):
        pass


def make_peer(name, threads, reference_timeout):
    """The contender, or raises Skip with why it is not there."""
    if name == "numpy":
        return Worker("numpy", str(PYTHON), "numpy_peer.py", threads)
    if name == "torch":
        return Worker("torch", torch_python(), "torch_peer.py", threads)
    if name == "reference":
        cache = str(BUILD / "reference.db")
        return Worker("reference", str(PYTHON), "reference_peer.py", threads, reference_timeout, BEAM="2", CACHEDB=cache, PARALLEL="0")
    try:
        if name == "openblas":
            library, prefix = openblas()
            return Native("openblas", compile_native("blas"), threads, {"library": library, "prefix": prefix})
        libraries = VENV / "lib"
        flags = (f"-I{VENV / 'include'}", f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-ldnnl")
        return Native("onednn", compile_native("onednn", *flags), threads, {})
    except subprocess.CalledProcessError as error:
        raise Skip(f"cannot be built: {(error.stderr or '').strip().splitlines()[:1]}")


def limits(threads, seconds):
    """The machine's: operations a second by type, bytes a second by kind of access."""
    program = compile_native("limits")
    command = [program, f"threads={threads}", f"seconds={seconds}", f"bytes={256 << 20}"]
    made = subprocess.run(command, check=True, capture_output=True, text=True, preexec_fn=pinned(threads))
    return {**json.loads(made.stdout), "cache": last_cache()}


def last_cache():
    """Bytes of the largest cache; 32 MiB where the system does not tell."""
    sizes = []
    for file in pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = file.read_text().strip()
        sizes.append(int(text.rstrip("KM")) << {"K": 10, "M": 20}.get(text[-1], 0))
    return max(sizes, default=32 << 20)
