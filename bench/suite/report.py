"""What a run shows: a line a case as it is measured, then sums."""

import math

QUERN = ("default", "tuned")
FAR_BEHIND = 0.7


class Row:
    """A case on a number of threads, and what each contender did."""

    def __init__(self, case, threads, results):
        self.case, self.threads, self.results = case, threads, results

    def time(self, name):
        return self.results.get(name, {}).get("best_s")

    @property
    def best_peer(self):
        """(name, seconds) of the fastest peer with a right result, or None."""
        times = [(self.time(name), name) for name in self.results if name not in QUERN and self.time(name)]
        return min(times)[::-1] if times else None

    @property
    def quern(self):
        """What Quern is judged by: tuned where it was."""
        return self.time("tuned") or self.time("default")

    @property
    def quern_trouble(self):
        return any(self.results[name].keys() & {"failed", "wrong"} for name in QUERN if name in self.results)

    def ratio(self, name):
        """To the best peer: above 1 is faster than it."""
        peer, time = self.best_peer, self.time(name)
        return peer[1] / time if peer and time else None

    def limit_seconds(self, machine):
        """The least time that the machine's limits allow: its arithmetic, and its memory where the arrays are beyond the caches."""
        case = self.case
        arithmetic = case.flops / peak(case, machine) if case.flops else 0
        memory = 0
        if case.bytes > 1.5 * machine["cache"]:
            reads_only = case.output.bytes < 0.1 * case.read_bytes
            memory = moved_bytes(case) / (machine["read"] if reads_only else max(machine["copy"], machine["nt_copy"], 1))
        return max(arithmetic, memory)

    def of_limit(self, name, machine):
        limit, time = self.limit_seconds(machine), self.time(name)
        return limit / time if limit and time else None

    @property
    def unit(self):
        return "GFLOPS" if self.case.flops else "GB/s"

    def speed(self, seconds):
        return (self.case.flops or moved_bytes(self.case)) / seconds * 1e-9

    def json(self, machine):
        peer = self.best_peer
        told = {"name": self.case.name, "group": self.case.group, "threads": self.threads, "flops": self.case.flops, "bytes": moved_bytes(self.case),
                "kernels": len(self.case.steps), "unit": self.unit, "best_peer": peer[0] if peer else None,
                "limit_s": self.limit_seconds(machine) or None, "contenders": {}}
        for name, result in self.results.items():
            entry = dict(result)
            if "best_s" in entry:
                entry.update(speed=self.speed(entry["best_s"]), to_best_peer=self.ratio(name), of_limit=self.of_limit(name, machine))
            told["contenders"][name] = entry
        return told


def peak(case, machine):
    return machine.get(case.peak) or machine["float"]


def moved_bytes(case):
    """Those that have to be read and written at least."""
    if case.operation == "gather":
        return 2 * case.output.bytes + case.inputs["index"].bytes
    if case.operation == "strided":  # whole cache lines are read
        return case.read_bytes // case.sizes["step"] + case.output.bytes
    return case.bytes


def time_text(seconds):
    for unit, size in (("s", 1), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds < 1000 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds * 1e6:.3g} us" if seconds < 1e-3 else f"{seconds * 1e6:.0f} us"


def number(value, digits=2):
    return "-" if value is None else f"{value:.{digits}f}"


def mean_of(values):
    """Geometric; None of nothing."""
    values = [value for value in values if value]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


class Printer:
    def __init__(self, args, machine):
        self.peers = args.peers
        self.tuned = not args.no_tune
        for threads, found in machine.items():
            rates = ", ".join(f"{key} {value * 1e-9:.1f}" for key, value in found.items() if key in ("float", "bfloat16", "char"))
            memory = ", ".join(f"{key} {found[key] * 1e-9:.1f}" for key in ("read", "copy", "nt_copy"))
            print(f"{threads} thread{'s' * (threads > 1)}: peak GFLOPS {rates}; GB/s {memory}")
        print("time and the ratios are those of Quern tuned (default: of Quern's own opts); speeds in GFLOPS, or GB/s where arithmetic is not")
        print("what counts; of best: how fast against the fastest peer (above 1 is faster); of limit: against the machine's peak and memory")
        heads = [*(name for name in QUERN if self.tuned or name != "tuned"), *self.peers]
        print(f"{'case':28} {'thr':>3} {'time':>8} " + " ".join(f"{head:>9}" for head in heads) + f"  {'best peer':10} {'of best':>7} {'default':>7} {'of limit':>8}")

    def cell(self, row, name):
        result = row.results.get(name, {})
        if "best_s" in result:
            return f"{row.speed(result['best_s']):9.1f}"
        return f"{'WRONG' if 'wrong' in result else 'failed' if 'failed' in result else '-':>9}"

    def row(self, row, machine):
        names = [*(name for name in QUERN if self.tuned or name != "tuned"), *self.peers]
        main = "tuned" if row.time("tuned") else "default"
        peer = row.best_peer
        time = time_text(row.quern) if row.quern else "-"
        print(f"{row.case.name:28} {row.threads:3} {time:>8} " + " ".join(self.cell(row, name) for name in names) +
              f"  {peer[0] if peer else '-':10} {number(row.ratio(main)):>7} {number(row.ratio('default')):>7} {number(row.of_limit(main, machine)):>8}", flush=True)
        for name, result in row.results.items():
            for kind in ("wrong", "failed"):
                if kind in result:
                    print(f"    {name} {kind}: {result[kind]}", flush=True)

    def summary(self, rows, machine, missing):
        for peer, why in missing.items():
            print(f"not measured: {peer}, {why}")
        print("\ngeometric means; a case without a right result or a peer is left out")
        print(f"{'group':12} {'thr':>3} {'cases':>5} {'tuned/best peer':>15} {'default/best peer':>17} {'default/tuned':>13} {'of limit':>8}")
        for threads in sorted({row.threads for row in rows}):
            groups = list(dict.fromkeys(row.case.group for row in rows))
            for group in [*groups, "all"] if len(groups) > 1 else groups:
                some = [row for row in rows if row.threads == threads and group in (row.case.group, "all")]
                both = [row.time("tuned") / row.time("default") for row in some if row.time("tuned") and row.time("default")]
                main = "tuned" if self.tuned else "default"
                limits = mean_of(row.of_limit(main, machine[threads]) for row in some)
                print(f"{group:12} {threads:3} {len(some):5} {number(mean_of(r.ratio('tuned') for r in some)):>15} "
                      f"{number(mean_of(r.ratio('default') for r in some)):>17} {number(mean_of(both)):>13} {number(limits):>8}")
        behind = sorted((row.ratio("tuned" if row.time("tuned") else "default"), row.case.name, row.threads, row.best_peer[0])
                        for row in rows if row.quern and row.best_peer and row.best_peer[1] / row.quern < FAR_BEHIND)
        if behind:
            print(f"\nbelow {FAR_BEHIND} of the best peer:")
            for ratio, name, threads, peer in behind:
                print(f"  {ratio:5.2f}  {name} on {threads} thread{'s' * (threads > 1)} ({peer})")
        trouble = [f"{row.case.name} on {row.threads}" for row in rows if row.quern_trouble]
        if trouble:
            print("\nno right result of Quern: " + ", ".join(trouble))
