"""python -m quern.tinygrad [--compare] SCRIPT [ARGUMENTS…] or -m MODULE [ARGUMENTS…]: runs a program of tinygrad's with Quern."""

from __future__ import annotations

import os
import runpy
import sys

from . import install


def main() -> None:
    arguments = sys.argv[1:]
    compare = arguments[:1] == ["--compare"]
    if compare:
        arguments = arguments[1:]
    if not arguments or arguments[0] in ("-h", "--help") or arguments == ["-m"]:
        print(__doc__, file=sys.stderr)
        sys.exit(0 if arguments[:1] in (["-h"], ["--help"]) else 2)
    if arguments[0].startswith("-") and arguments[0] != "-m":
        print(f"there is no option {arguments[0]}\n\n{__doc__}", file=sys.stderr)
        sys.exit(2)
    install(compare=compare)
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


main()
