"""How others decide, on the same simulated machines: written from the rules, in our own words.

- ``do_bench``: each side on its own, one after the other in one process; whichever median is smaller by the margin wins.
- Mann-Whitney: the same samples, the U test on single launches, p < 0.05.
- nvbench (nvbench_compare_robust.py at 66212f1, default thresholds): each side in a process of its own; an interval from
  the minimum to the third quartile; a gap of 0.5 % between the two, in time and in cycles, decides. The same where the
  samples, in time and in cycles, lie within 0.5 % of one another (97 % of samples, 80 % of distinct values).
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from plans import Machine

from tilewright.bench import simulated
from tilewright.records import Verdict

SAMPLES = 160
"""Of each side: as many as two sides get in one of our processes, of which there are several."""
GAP = 0.005
_SAMPLE_COVERAGE, _SUPPORT_COVERAGE = 0.97, 0.8


def sequential(machine: Machine, slowdown: float, rng: np.random.Generator, plans: int) -> np.ndarray:
    """Ours, then theirs, in one process: plans x 2 x samples, in seconds."""
    factors, _ = simulated.factors(machine.noise, rng, plans, 2 * SAMPLES)
    own = np.log1p([0.0, slowdown]) + simulated.effects(machine.noise, rng, plans, 2)
    own += np.array([0.0, machine.noise.order])
    seconds = machine.seconds * np.exp(own)[:, :, None] * factors.reshape(plans, 2, SAMPLES)
    return simulated.quantised(seconds, machine.noise, rng)


def separate(machine: Machine, slowdown: float, rng: np.random.Generator, plans: int) -> tuple[np.ndarray, np.ndarray]:
    """Each side in a process of its own: seconds and clocks, plans x 2 x samples."""
    factors, clocks = simulated.factors(machine.noise, rng, 2 * plans, SAMPLES)
    own = np.log1p([0.0, slowdown]) + simulated.effects(machine.noise, rng, plans, 2)
    seconds = machine.seconds * np.exp(own)[:, :, None] * factors.reshape(plans, 2, SAMPLES)
    return simulated.quantised(seconds, machine.noise, rng), clocks.reshape(plans, 2, SAMPLES)


def do_bench(ours: np.ndarray, theirs: np.ndarray, margin: float) -> Verdict:
    difference = math.log(float(np.median(theirs)) / float(np.median(ours)))
    if abs(difference) <= math.log1p(margin):
        return "SAME"
    return "FASTER" if difference > 0 else "SLOWER"


def mann_whitney(ours: np.ndarray, theirs: np.ndarray) -> Verdict:
    """Two-sided, normal approximation with the correction for ties."""
    both = np.concatenate([ours, theirs])
    _, inverse, counts = np.unique(both, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    n, m = len(ours), len(theirs)
    surplus = float(ranks[n:].sum()) - m * (n + m + 1) / 2
    ties = float((counts.astype(float) ** 3 - counts).sum()) / ((n + m) * (n + m - 1))
    deviation = math.sqrt(n * m / 12 * (n + m + 1 - ties))
    if 2 * NormalDist().cdf(-abs(surplus) / deviation) >= 0.05:
        return "SAME"
    return "FASTER" if surplus > 0 else "SLOWER"


def nvbench(seconds: np.ndarray, clocks: np.ndarray) -> Verdict:
    """``seconds`` and ``clocks`` are 2 x samples: ours, theirs."""
    cycles = seconds * clocks
    gap = _clear_gap(*seconds)
    if gap is not None:
        return gap if _clear_gap(*cycles) == gap else "UNDECIDED"
    return "SAME" if _cover(*seconds) and _cover(*cycles) else "UNDECIDED"


def _clear_gap(ours: np.ndarray, theirs: np.ndarray) -> Verdict | None:
    if theirs.min() / np.percentile(ours, 75) - 1 >= GAP:
        return "FASTER"
    return "SLOWER" if ours.min() / np.percentile(theirs, 75) - 1 >= GAP else None


def _cover(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Whether either side's samples have a neighbour of the other side's within the tolerance."""
    for one, other in ((ours, theirs), (theirs, ours)):
        logs, others = np.log(one), np.sort(np.log(other))
        right = np.clip(np.searchsorted(others, logs), 1, len(others) - 1)
        near = np.minimum(np.abs(logs - others[right - 1]), np.abs(logs - others[right])) <= math.log1p(GAP)
        _, first = np.unique(logs, return_index=True)
        if near.mean() < _SAMPLE_COVERAGE or near[first].mean() < _SUPPORT_COVERAGE:
            return False
    return True
