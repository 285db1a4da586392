"""The engine on a GPU: the same against itself, and against 1 % more work, with do_bench beside.

    python proof/bench_gpu.py quick --out FOLDER [--minutes 8.5] [--repeats 5]
    python proof/bench_gpu.py gate  --out FOLDER [--minutes 8.5] [--repeats 3]
    python proof/bench_gpu.py slowed --out FOLDER [--minutes 8.5] [--repeats 3]
    python proof/bench_gpu.py summary --out FOLDER

Each of the first three appends to a file in FOLDER and stops after so many minutes; the same line goes on where it
stopped. Processes are fresh for each repetition (in ``gate``: for each process of the plan); all shapes share the start
of one. ``summary`` writes ``proof/results/bench_<chip>.json``. ``--device cpu --quick-check`` tries it all without a GPU.
"""

import argparse
import gzip
import json
import math
import sys
import time
from dataclasses import replace
from pathlib import Path

import bench_gpu_kernels as kernels
from bench_gpu_summary import summarise
from results import FOLDER

from tilewright.bench import engine, summary
from tilewright.bench.plan import GATE, QUICK, is_swapped
from tilewright.bench.worker import Job, in_process
from tilewright.errors import ChildFailed, TilewrightError
from tilewright.hardware.probe import environment
from tilewright.process import Limits, Worker
from tilewright.records import Case, from_dict, to_dict
from tilewright.spec.load import address

SPARE_SECONDS = 20.0  # that an item may take once it was begun
LIMITS = Limits(120.0, 100 * 2**30)


class TimeUp(Exception):
    """This piece has had its minutes."""


class Piece:
    """One run of this script: its child, its clock, what earlier runs left."""

    def __init__(self, options, study):
        self.options, self.study = options, study
        self._until = time.monotonic() + 60 * options.minutes - SPARE_SECONDS
        self._path = Path(options.out) / f"{study}.jsonl.gz"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self.rows = read(self._path)
        self._child, self._child_key = None, None

    def keep(self, row):
        self.rows[row["key"]] = row
        with gzip.open(self._path, "at") as file:  # a member of its own for each: a kill loses no other
            file.write(json.dumps(row) + "\n")

    def measure(self, operator, shape, process, child_key, plan, *, naive, label=None):
        """Raises TimeUp, or what the child raised."""
        if time.monotonic() > self._until:
            raise TimeUp
        if self._child is None or self._child_key != child_key:
            self.close()
            self._child, self._child_key = Worker(stdout_to_stderr=True), child_key
        case = Case(operator.name, operator.shapes[shape])
        job = Job(
            address=address(operator), case=in_process(case, process), recorded=case, shape=label or shape,
            device=self.options.device, seconds=plan.seconds_a_process, process=process, swapped=is_swapped(process),
            slowdown=plan.resolution, compile=False, baselines=tuple(operator.baselines),
        )  # fmt: skip
        try:
            self._child.submit("bench_gpu_tasks:measure", {"job": job, "naive": naive}, LIMITS)
            return self._child.result()
        except ChildFailed:
            self._child.kill()
            self._child = None
            raise

    def close(self):
        if self._child is not None:
            self._child.close()
            self._child = None


def read(path):
    """Rows by key; the last of a key counts, and a line cut off by a kill does not."""
    rows = {}
    if path.exists():
        try:
            with gzip.open(path, "rt") as file:
                for line in file:
                    row = json.loads(line)
                    rows[row["key"]] = row
        except (EOFError, ValueError, gzip.BadGzipFile):
            print(f"{path}: the last line was cut off", file=sys.stderr)
    return rows


def key(*parts):
    return "/".join(map(str, parts))


def items(options, chosen=None):
    for operator in kernels.PAIRS:
        for shape in list(operator.shapes)[: 1 if options.quick_check else None]:
            if chosen is None or options.quick_check or shape in chosen.get(operator.name, ()):
                yield operator, shape


def quick(piece, options):
    """Every pair, by the quick plan, in ``repeats`` fresh processes."""
    plan = replace(QUICK, seconds=0.05) if options.quick_check else QUICK
    for repeat in range(options.repeats):
        for operator, shape in items(options):
            at = key(operator.name, shape, repeat)
            if at in piece.rows:
                continue
            row = {"key": at, "operator": operator.name, "shape": shape, "repeat": repeat}
            try:
                taken, naive, seconds, naive_seconds = piece.measure(operator, shape, repeat, repeat, plan, naive=True)
            except TilewrightError as error:
                piece.keep({**row, "error": str(error)})
                continue
            (found,) = summary.compare({shape: [taken]}, plan, {shape: 1.0})
            do_bench = {"ours": naive[0], "theirs": naive[1], "seconds": naive_seconds}
            piece.keep({**row, **compared(found), "cost": seconds, "do_bench": do_bench})
            print(f"{at}: {found.ratio:.4f} {found.verdict}, do_bench {naive[1] / naive[0]:.4f}", flush=True)


def compared(found):
    """What the summary needs of a comparison."""
    return {
        "ratio": found.ratio, "low": found.low, "high": found.high if math.isfinite(found.high) else None,
        "verdict": found.verdict, "why": found.why, "microseconds": 1e6 * found.ours.median,
        "noise_floor": found.noise_floor, "control_ratio": found.control_ratio, "slowdown": found.slowdown,
        "conditions": list(found.conditions), "clock_mhz": found.ours.clock_mhz, "of_ceiling": found.ours.of_ceiling,
        "launch_overhead": found.ours.launch_overhead, "processes": len(found.processes), "samples": found.ours.count,
    }  # fmt: skip


def by_gate(piece, options, chosen):
    """The gate plan, ``repeats`` times over, each from fresh processes on; all shapes are measured by one child a process."""
    plan = replace(GATE, seconds=0.02 * GATE.processes) if options.quick_check else GATE
    for repeat in range(options.repeats):
        names = {key(operator.name, shape): (operator, shape) for operator, shape in chosen}
        cost = dict.fromkeys(names, 0.0)

        def take(process, name, repeat=repeat, names=names, cost=cost):
            at = key(name, repeat, process)
            if at not in piece.rows:
                operator, shape = names[name]
                number = 100 * repeat + process
                taken, _, seconds, _ = piece.measure(operator, shape, number, number, plan, naive=False, label=name)
                piece.keep({"key": at, "cost": seconds, "measurement": to_dict(shortened(taken))})
                print(at, flush=True)
            row = piece.rows[at]
            cost[name] += row["cost"]
            return (), from_dict(row["measurement"])

        outcome = drained(engine.run(plan, list(names), take))
        for name, taken in outcome.measurements.items():
            (operator, shape), at = names[name], key("verdict", name, repeat)
            if at in piece.rows:
                continue
            (found,) = summary.compare({name: taken}, plan, {name: plan.shares[plan.looks.index(len(taken))]})
            row = {"key": at, "operator": operator.name, "shape": shape, "repeat": repeat, "cost": cost[name]}
            piece.keep({**row, **compared(found)})
            print(f"{at}: {found.ratio:.4f} {found.verdict}", flush=True)
        for name, error in outcome.failed.items():
            print(f"{name}: {error}", file=sys.stderr, flush=True)


def shortened(measurement):
    """Six digits are more than the event clock has."""
    return replace(
        measurement,
        seconds=tuple(float(f"{s:.6g}") for s in measurement.seconds),
        clock_mhz=tuple(round(mhz, 1) for mhz in measurement.clock_mhz),
    )


def drained(events):
    while True:
        try:
            next(events)
        except StopIteration as end:
            return end.value


def gate(piece, options):
    by_gate(piece, options, list(items(options, kernels.GATED))[: 3 if options.quick_check else None])


def slowed(piece, options):
    chosen = [(o, s) for o in kernels.SLOWED for s in list(o.shapes)[: 1 if options.quick_check else None]]
    by_gate(piece, options, chosen)


STUDIES = {"quick": (quick, 5), "gate": (gate, 3), "slowed": (slowed, 3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=[*STUDIES, "summary"])
    parser.add_argument("--out", required=True)
    parser.add_argument("--minutes", type=float, default=8.5)
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--quick-check", action="store_true", help="the smallest shapes, hardly timed")
    options = parser.parse_args()
    if options.study == "summary":
        found = {study: list(read(Path(options.out) / f"{study}.jsonl.gz").values()) for study in STUDIES}
        where = read_environment(Path(options.out))
        name = "check" if options.quick_check else where["chip"].split()[-1].lower()
        path = (Path(options.out) if options.quick_check else FOLDER) / f"bench_{name}.json"
        path.write_text(
            json.dumps({"study": path.stem, "environment": where, "figures": summarise(found)}, indent=1) + "\n"
        )
        print(path)
        return
    run, repeats = STUDIES[options.study]
    options.repeats = options.repeats or repeats
    piece = Piece(options, options.study)
    (Path(options.out) / "environment.json").write_text(json.dumps(to_dict(environment())))
    started = time.monotonic()
    try:
        run(piece, options)
        print(f"{options.study}: complete", flush=True)
    except TimeUp:
        print(f"{options.study}: time is up, run the same line again", flush=True)
    finally:
        piece.close()
        print(f"{time.monotonic() - started:.0f} s, {len(piece.rows)} rows", flush=True)


def read_environment(folder):
    return json.loads((folder / "environment.json").read_text())


if __name__ == "__main__":
    main()
