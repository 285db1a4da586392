"""Searches on recorded trials: ours, what it must beat, and Kernel Tuner's by its own code, on many seeds.

    python replay_study.py [--seeds 30] [--workers 2]

The truths: three exhaustive H200 spaces, eight parts of public spaces of hand-written CUDA and HIP kernels, and the
recorded trials of our own operators. The search was shaped on those in ``SHAPED_ON``; it was not run on the others
before its design was settled. No model is learnt on one truth and used on another, so each is left out by itself.
"""

import argparse
import dataclasses
import statistics
import time
import zlib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from results import keep
from rivals import STRATEGIES, kernel_tuner_curves

from tilewright.records import Config
from tilewright.tune.points import Point
from tilewright.tune.recorded import read
from tilewright.tune.replay import Truth, replay, truth_of

HERE = Path(__file__).parent
FILES = [
    *sorted((HERE / "truths").glob("*.json")),
    *sorted((HERE.parent / "benchmarks" / "results").glob("h200_*.json")),
]
SHAPED_ON = ("H200", "RTX 3090", "MI250X")
RESOURCES = ("shared", "registers", "spills")
BUDGET = 30
AT = (15, 30)
RIVAL_SEEDS = 10
"""Seeds of each of Kernel Tuner's strategies, which take longer to choose than a GPU would to measure."""
SIGMA = 0.4
LEAST_POINTS = 20
"""Smaller spaces say little of a search; those below the budget are looked at after the first number of AT only."""


def truths() -> list[Truth]:
    found = [truth_of(recorded) for path in FILES for recorded in read(path)]
    large = [truth for truth in found if len(truth.points) >= LEAST_POINTS]
    return sorted(large, key=lambda truth: ("H200" not in truth.name, len(truth.points) <= BUDGET, truth.name))


def scrambled(truth: Truth) -> Truth:
    """The same with nothing but values and resources: no names, no prediction, nothing of the kernel."""
    return _with(truth, lambda point: Point(
        Config({f"p{i}": value for i, value in enumerate(point.config.values.values())}),
        features={name: value for name, value in point.features.items() if name in RESOURCES},
    ))  # fmt: skip


def spoiled(truth: Truth) -> Truth:
    """The same with each prediction off by log-normal noise; the same noise in each run."""
    generator = np.random.default_rng(zlib.crc32(truth.name.encode()))
    off = iter(np.exp(SIGMA * generator.standard_normal(len(truth.points))))
    return _with(truth, lambda point: dataclasses.replace(
        point, predicted_seconds=None if point.predicted_seconds is None else point.predicted_seconds * float(next(off))
    ))  # fmt: skip


def _with(truth: Truth, change) -> Truth:
    return dataclasses.replace(truth, points=tuple(change(point) for point in truth.points))


def predicts(truth: Truth) -> bool:
    return any(point.predicted_seconds is not None for point in truth.points)


def ways(truth: Truth) -> dict[str, tuple[Truth, str]]:
    """What is run on a truth: what it sees, and the search's name."""
    found = {"ours, names scrambled": (scrambled(truth), "portfolio"), "random": (scrambled(truth), "random")}
    if predicts(truth):
        found["ours, with the model"] = (truth, "portfolio")
        found["ours, with a spoiled model"] = (spoiled(truth), "portfolio")
        found["the model's order alone"] = (truth, "prior")
        found["a spoiled model's order alone"] = (spoiled(truth), "prior")
    return found


def ours(truth: Truth, way: str, first: int, seeds: int) -> list[list[float]]:
    seen, name = ways(truth)[way]
    return [list(curve) for curve in replay(seen, name, seeds=seeds, budget=BUDGET, first_seed=first).curves]


def theirs(truth: Truth, strategy: str, first: int, seeds: int) -> list[list[float]]:
    return kernel_tuner_curves(scrambled(truth), strategy, range(first, first + seeds), BUDGET)


def summary(curves: list[list[float]]) -> dict:
    """Mean and worst seed after some evaluations, and the mean curve."""
    columns = list(zip(*curves, strict=True))
    figures = {f"{word} at {at}": round(function(columns[at - 1]), 4) for at in AT for word, function in
               (("mean", statistics.fmean), ("worst", min))}  # fmt: skip
    return {"seeds": len(curves), **figures, "curve": [round(statistics.fmean(column), 4) for column in columns]}


def study(seeds: int, workers: int, *, rivals: bool = True, kept: bool = False) -> dict:
    started, rows, figures = time.time(), [], {}
    with ProcessPoolExecutor(workers) as pool:
        for truth in truths():
            jobs = {way: (ours, way) for way in ways(truth)}
            jobs |= {f"Kernel Tuner {name}": (theirs, name) for name in STRATEGIES if rivals}
            waiting = {}
            for label, (function, word) in jobs.items():
                of = seeds if function is ours else min(seeds, RIVAL_SEEDS)
                waiting[label] = [
                    pool.submit(function, truth, word, first, min(5, of - first)) for first in range(0, of, 5)
                ]
            results = {
                label: summary([curve for part in parts for curve in part.result()]) for label, parts in waiting.items()
            }
            rows.append({
                "truth": truth.name, "points": len(truth.points), "infeasible": truth.infeasible,
                "shaped on": any(word.lower() in truth.name.lower() for word in SHAPED_ON), "searches": results,
            })  # fmt: skip
            best = results["ours, names scrambled"]
            seconds = time.time() - started
            print(f"{truth.name}: {best['mean at 30']} {best['worst at 30']}, {seconds:.0f} s", flush=True)
            figures = {"budget": BUDGET, "sigma": SIGMA, "truths": rows, "seconds": round(seconds)}
            if kept:  # after each truth: what was done stays
                keep("replay", figures)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    study(given.seeds, given.workers, kept=True)


if __name__ == "__main__":
    main()
