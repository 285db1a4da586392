"""How often verdicts and intervals of the bench stage are right, on machines whose noise is known; others beside them.

    python proof/verdict_study.py [plans]      # 3000 plans a row unless said, a quarter of an hour on one core

Writes ``results/verdicts.json``; ``write_benchmarking.py`` makes the tables of docs/benchmarking.md from it. In
``ours``, FASTER is a slowdown of the baseline that was found.
"""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import rival_rules
from plans import MACHINES, ROUNDS, TOO_NOISY, Ended, Machine, claims_at_any_look, ended, round_logs
from results import keep

from tilewright.bench.plan import GATE, QUICK, Plan
from tilewright.bench.stats import of_processes

PLANS = 3000
CHUNK = 50  # plans at a time: a few hundred megabytes at most
SHAPES = 10
"""Of the runs that judge several shapes together."""
SLOWDOWNS = {GATE.name: (0.0, GATE.margin, 0.01, 0.02), QUICK.name: (0.0, 0.02, 0.04)}


def main() -> None:
    keep("verdicts", timed(int(sys.argv[1]) if len(sys.argv) > 1 else PLANS))


def timed(plans: int) -> dict[str, Any]:
    """The study, and the seconds of processor time that it took."""
    started = time.process_time()
    return study(plans) | {"seconds": round(time.process_time() - started)}


def study(plans: int) -> dict[str, Any]:
    """All rows: our plans, runs of several shapes, the rivals, and intervals over few processes."""
    machines = [*MACHINES, TOO_NOISY]
    return {
        "plans": plans,
        "rounds": ROUNDS,
        "ours": [
            row
            for plan in (GATE, QUICK)
            for machine in machines
            for slowdown in SLOWDOWNS[plan.name]
            for row in [our_row(plan, machine, slowdown, plans)]
        ],
        "runs": [run_row(machine, slowdown, plans) for machine in MACHINES[:2] for slowdown in (0.0, 0.01)],
        "rivals": [row for machine in machines for slowdown in (0.0, 0.01, 0.02) for row in rival_rows(machine, slowdown, plans)],
        "intervals": interval_rows(4 * plans),
    }  # fmt: skip


def our_row(plan: Plan, machine: Machine, slowdown: float, plans: int) -> dict[str, Any]:
    """One kind of plan on one machine, theirs being slower by so much."""
    rng = np.random.default_rng(seed(plan.name, machine.noise.name, slowdown))
    found: list[Ended] = []
    peeked = 0
    for start in range(0, plans, CHUNK):
        for logs in round_logs(machine, plan, slowdown, rng, min(CHUNK, plans - start), plan.processes):
            found += ended(plan, [logs])
            peeked += claims_at_any_look(plan, logs)
    return {
        "plan": plan.name, "machine": machine.noise.name, "slowdown": slowdown, **shares([e.judgement.verdict for e in found]),
        "coverage": share_covering(found, slowdown), "claims_when_peeking": peeked / plans,
        "half_width": float(np.median([e.ratio.half_width() for e in found])),
        "processes": float(np.mean([e.processes for e in found])),
    }  # fmt: skip


def run_row(machine: Machine, slowdown: float, plans: int) -> dict[str, Any]:
    """Gate runs of ``SHAPES`` shapes judged together: all alike, or one of them slower."""
    rng = np.random.default_rng(seed("run", machine.noise.name, slowdown))
    runs = max(plans // SHAPES, 20)
    wrong = hit = undecided = 0
    for _ in range(runs):
        logs = list(round_logs(machine, GATE, 0.0, rng, SHAPES, GATE.processes))
        if slowdown:
            logs[0] = round_logs(machine, GATE, slowdown, rng, 1, GATE.processes)[0]
        verdicts = [e.judgement.verdict for e in ended(GATE, logs)]
        same = verdicts[1:] if slowdown else verdicts
        wrong += any(verdict in ("FASTER", "SLOWER") for verdict in same)
        hit += verdicts[0] == "FASTER"
        undecided += verdicts.count("UNDECIDED")
    return {
        "machine": machine.noise.name, "shapes": SHAPES, "runs": runs, "slowdown_of_one": slowdown, "runs_with_a_false_verdict": wrong / runs,
        "found": hit / runs if slowdown else None, "undecided": undecided / (runs * SHAPES),
    }  # fmt: skip


def rival_rows(machine: Machine, slowdown: float, plans: int) -> list[dict[str, Any]]:
    """The same question put to the rules of others."""
    rng = np.random.default_rng(seed("rivals", machine.noise.name, slowdown))
    one = rival_rules.sequential(machine, slowdown, rng, plans)
    two, clocks = rival_rules.separate(machine, slowdown, rng, plans)
    verdicts = {
        "do_bench medians": [rival_rules.do_bench(*sides, GATE.margin) for sides in one],
        "Mann-Whitney on launches": [rival_rules.mann_whitney(*sides) for sides in one],
        "nvbench": [rival_rules.nvbench(*sides) for sides in zip(two, clocks, strict=True)],
    }
    return [
        {"rule": rule, "machine": machine.noise.name, "slowdown": slowdown, **shares(found)}
        for rule, found in verdicts.items()
    ]


def interval_rows(repeats: int) -> list[dict[str, Any]]:
    """How often 95 % intervals over few processes hold the truth: Student's t as we use it, and the bootstrap."""
    rng = np.random.default_rng(0)
    rows = []
    for processes in (3, 4, 6, 10, 16):
        swapped = [i % 2 == 1 for i in range(processes)]
        centres = rng.standard_normal((repeats, processes))
        ours = [of_processes(row, swapped) for row in centres]
        drawn = rng.integers(0, processes, (400, processes))
        low, high = np.percentile(centres[:, drawn].mean(axis=-1), (2.5, 97.5), axis=1)
        rows.append(
            {
                "processes": processes,
                "students_t": float(np.mean([abs(e.centre) <= e.half_width() for e in ours])),
                "percentile_bootstrap": float(np.mean((low <= 0) & (high >= 0))),
            }
        )
    return rows


def shares(verdicts: Sequence[str]) -> dict[str, float]:
    counted = Counter(verdicts)
    return {name.lower(): counted[name] / len(verdicts) for name in ("FASTER", "SLOWER", "SAME", "UNDECIDED")}


def share_covering(found: Sequence[Ended], slowdown: float) -> float:
    truth = math.log1p(slowdown)
    return float(np.mean([abs(e.ratio.centre - truth) <= e.ratio.half_width() for e in found]))


def seed(*words: object) -> list[int]:
    """The same for the same row, whichever rows are run."""
    return list(" ".join(map(str, words)).encode())


if __name__ == "__main__":
    main()
