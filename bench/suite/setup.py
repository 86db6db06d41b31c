"""What a run needs: NumPy and the peers, installed into build/suite/venv where they are missing. What cannot be is told, not fatal."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build" / "suite"
VENV = BUILD / "venv"
PYTHON = VENV / "bin" / "python"

# (what it is for, its package, the module that shows that it is there)
PACKAGES = {
    "numpy": ("numpy", "numpy"),
    "openblas": ("scipy-openblas32", "scipy_openblas32"),
    "onednn": ("onednn-devel-cpu-gomp==2023.2.0", None),
    "reference": ("tinygrad==0.10.0", "tinygrad"),
}


def say(text):
    print(text, file=sys.stderr, flush=True)


def succeeds(command):
    return subprocess.run(command, capture_output=True).returncode == 0


def has(peer, module):
    if peer == "onednn":
        return (VENV / "include" / "dnnl.hpp").exists()
    return succeeds([PYTHON, "-c", f"import {module}"])


def install(peers):
    """Peers that are not there, with why."""
    missing = {}
    if not PYTHON.exists():
        base = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
        subprocess.run([base, "-m", "venv", VENV], check=True)
    for peer in dict.fromkeys(["numpy", *peers]):
        if peer not in PACKAGES:
            continue
        package, module = PACKAGES[peer]
        if has(peer, module):
            continue
        say(f"installing {package}")
        made = subprocess.run([PYTHON, "-m", "pip", "-q", "install", package], capture_output=True, text=True)
        if made.returncode != 0 or not has(peer, module):
            missing[peer] = f"{package} could not be installed"
    if "torch" in peers and torch_python() is None:
        say("installing python3-torch")
        sudo = [] if os.getuid() == 0 else ["sudo", "-n"]
        quiet = dict(capture_output=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
        if shutil.which("apt-get"):
            subprocess.run([*sudo, "apt-get", "install", "-y", "--no-install-recommends", "python3-torch", "libopenblas0-pthread"], **quiet)
        if torch_python() is None:
            missing["torch"] = "neither the environment in build/suite nor Debian's python3-torch has it"
    return missing


def torch_python():
    """The interpreter that has PyTorch: the suite's own if somebody put it there, or Debian's."""
    for python in (str(PYTHON), "/usr/bin/python3"):
        if os.path.exists(python) and succeeds([python, "-c", "import torch, numpy"]):
            return python
    return None


def versions():
    """{package: version} of what the peers are."""
    code = "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in m.distributions()}))"
    made = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True)
    installed = json.loads(made.stdout) if made.returncode == 0 else {}
    known = {package.split("==")[0] for package, _ in PACKAGES.values()}
    found = {name: version for name, version in installed.items() if name in known}
    if torch_python():
        found["torch"] = subprocess.run([torch_python(), "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True).stdout.strip()
    return found


def openblas():
    """(library, prefix of its names)."""
    code = "import scipy_openblas32 as s; print(s.get_lib_dir())"
    folder = subprocess.run([PYTHON, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    return next(pathlib.Path(folder).glob("libscipy_openblas*")), "scipy_"


def compile_native(name, *flags):
    """A program of native/, compiled for this machine; raises CalledProcessError."""
    source = pathlib.Path(__file__).resolve().parent / "native" / f"{name}.cpp"
    program = BUILD / "bin" / name
    header = source.parent / "peer.h"
    if not program.exists() or program.stat().st_mtime < max(source.stat().st_mtime, header.stat().st_mtime):
        program.parent.mkdir(parents=True, exist_ok=True)
        compiler = os.environ.get("CXX", "g++")
        command = [compiler, "-O3", "-march=native", "-std=c++20", "-pthread", source, "-o", program, *flags, "-ldl"]
        subprocess.run(command, check=True, capture_output=True, text=True)
    return program
