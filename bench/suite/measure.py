"""The run: contenders take turns on each case; then the report."""

import datetime
import json
import platform
import statistics
import subprocess

import data
import report
from cases import named
from contenders import Failed, Quern, Skip, limits, make_peer
from setup import BUILD, ROOT, say, versions


class Peers:
    """One process of each peer a number of threads."""

    def __init__(self, names, missing, reference_timeout):
        self.names, self.missing, self.timeout = names, dict(missing), reference_timeout
        self.made = {}

    def at(self, threads):
        if threads not in self.made:
            self.made[threads] = []
            for name in self.names:
                if name in self.missing:
                    continue
                try:
                    self.made[threads].append(make_peer(name, threads, self.timeout))
                except Skip as why:
                    self.missing[name] = str(why)
        return self.made[threads]

    def close(self):
        for peers in self.made.values():
            for peer in peers:
                peer.close()


def prepare(contender, case, files, folder, expected):
    """Whether it takes part: how it failed, or None. A peer's sums in bfloat16 are allowed its rounding."""
    result = folder / f"{contender.name}-out.npy"
    try:
        contender.prepare(case, files, folder, result)
    except Skip as why:
        return {"skip": str(why)}
    except (Failed, subprocess.TimeoutExpired) as why:
        return {"failed": str(why)}
    if expected is None:
        return None
    rounding = 0.01 if case.peak == "bfloat16" and not isinstance(contender, Quern) else 0
    wrong = data.difference(case, result, expected, rounding)
    return {"wrong": wrong} if wrong else None


def measure_case(case, contenders, files, folder, expected, rounds, seconds):
    """{contender's name: what it did}"""
    results, turns = {}, {}
    for contender in contenders:
        trouble = prepare(contender, case, files, folder, expected)
        if trouble is not None:
            results[contender.name] = trouble
        else:
            turns[contender] = []
    for number in range(rounds):
        order = list(turns)
        for contender in order[number % max(1, len(order)):] + order[: number % max(1, len(order))]:
            try:
                turns[contender].append(contender.time(seconds))
            except (Failed, Skip, subprocess.TimeoutExpired) as why:
                results[contender.name] = {"failed": str(why)}
                del turns[contender]
    for contender, times in turns.items():
        best, middle = min(t["best"] for t in times), statistics.median(t["median"] for t in times)
        results[contender.name] = {"best_s": best, "median_s": middle, "runs": sum(t["runs"] for t in times), **contender.details()}
    return results


def expected_result(case, files, folder, numpy):
    """NumPy's result: what all others are compared with."""
    expected = folder / "expected.npy"
    if not expected.exists():
        numpy.prepare(case, files, folder, expected)
    return expected


def merged(a, b):
    """The better of two measurements of the machine."""
    return {key: max(a.get(key, 0), value) for key, value in b.items()}


def about(args):
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    cpu = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as lines:
            cpu = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), cpu)
    except OSError:
        pass
    return {"quern": commit, "cpu": cpu, "date": datetime.datetime.now().isoformat(timespec="seconds"), "rounds": args.rounds,
            "slice_s": args.slice, "tune_budget": args.tune_budget, "versions": versions()}


def write_json(args, told, rows, machine, missing):
    if args.json:
        cases = [row.json(machine[row.threads]) for row in rows]
        found = {"about": told, "limits": machine, "missing": missing, "cases": cases}
        args.json.write_text(json.dumps(found, indent=1) + "\n")


def measure_all(args, told, chosen, peers, machine, printer, rows):
    numpy = make_peer("numpy", 1, 300)
    tune_options = ["--budget", args.tune_budget, *(["--again"] if args.again else [])]
    try:
        for name, group, make in chosen:
            case = named(name, group, make)
            folder = BUILD / "data" / name
            files = data.write_inputs(case, folder)
            expected = expected_result(case, files, folder, numpy)
            for threads in args.threads:
                quern = [Quern(False, threads)] + ([] if args.no_tune else [Quern(True, threads, tune_options)])
                results = measure_case(case, quern + peers.at(threads), files, folder, expected, args.rounds, args.slice)
                rows.append(report.Row(case, threads, results))
                printer.row(rows[-1], machine[threads])
            write_json(args, told, rows, machine, peers.missing)
            for file in folder.glob("*.npy"):
                file.unlink()
    finally:
        peers.close()
        numpy.close()


def run(args, chosen, missing):
    machine = {t: limits(t, 1 if args.quick else 3) for t in args.threads}
    peers = Peers(args.peers, missing, args.reference_timeout)
    rows, told = [], about(args)
    printer = report.Printer(args, machine)
    try:
        measure_all(args, told, chosen, peers, machine, printer, rows)
    except KeyboardInterrupt:
        say("interrupted: the sums are those of the cases above")
    for threads in args.threads:  # a neighbour may have slowed the first look
        machine[threads] = merged(machine[threads], limits(threads, 1 if args.quick else 3))
    printer.summary(rows, machine, peers.missing)
    write_json(args, told, rows, machine, peers.missing)
    return 1 if any(row.quern_trouble for row in rows) else 0
