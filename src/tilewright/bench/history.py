"""One operator's ratios over many runs, and where they changed for good."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

from tilewright.bench import student
from tilewright.bench.changes import Earlier
from tilewright.records import Comparison, Environment

SURE = 0.99
"""That a change point is none of chance, over all places where it might be."""
LEAST_CHANGE = 0.01
_LEAST_FOR_SCATTER = 5  # runs from which how much they scatter can be told from how they change


@dataclass(frozen=True)
class Point:
    """One run of a series: its ratio with interval, and whether the level is another from here on."""

    environment: Environment
    comparison: Comparison
    change: float | None = None


@dataclass(frozen=True)
class Series:
    """The runs of one shape against one baseline on one chip, oldest first.

    A point's ``change`` is by how much the level after it is above that before it, as a ratio of levels: above 1 the
    operator became faster. None where it did not change.
    """

    operator: str
    shape: str
    baseline: str
    chip: str
    points: tuple[Point, ...]


def series(found: Sequence[Earlier]) -> list[Series]:
    """A series for each operator, case, configuration, baseline, regime and chip; those that kept no error left out."""
    groups: dict[tuple[str, ...], list[Earlier]] = {}
    for earlier in found:
        if earlier.comparison.error is not None:
            groups.setdefault(_key(earlier), []).append(earlier)
    return [_series(group) for group in groups.values()]


def _key(earlier: Earlier) -> tuple[str, ...]:
    c, env = earlier.comparison, earlier.environment
    chip = env.cpu if env.chip == "no GPU" else env.chip
    return c.operator, c.case.id, c.config.key if c.config else "", c.baseline, c.regime, chip


def _series(group: Sequence[Earlier]) -> Series:
    logs = [math.log(e.comparison.ratio) for e in group]
    errors = [e.comparison.error or 0.0 for e in group]
    changes = change_points(logs, errors)
    points = tuple(Point(e.environment, e.comparison, changes.get(i)) for i, e in enumerate(group))
    last = group[-1].comparison
    return Series(last.operator, last.shape, last.baseline, _key(group[-1])[-1], points)


def change_points(logs: Sequence[float], errors: Sequence[float]) -> dict[int, float]:
    """Where the level of a series changes: the first index of each new level, and the ratio of levels.

    Binary segmentation: the split at which the means of both sides differ most, in their standard errors, is one if it
    is so by more than chance over all splits explains and by ``LEAST_CHANGE``; then either side is looked at again.
    A run's error is its own and what runs scatter beyond it; that scatter is itself an estimate, from few runs.
    """
    extra = _scatter_between_runs(logs, errors)
    # The median of successive differences knows a variance about as well as a third as many independent values.
    freedom = len(logs) / 3 if extra else math.inf
    weights = [1 / max(error**2 + extra, 1e-16) for error in errors]
    found = sorted(_splits(logs, weights, freedom, 0, len(logs)))
    bounds = [0, *found, len(logs)]
    levels = [_mean(logs, weights, a, b) for a, b in itertools.pairwise(bounds)] if logs else []
    return {at: math.exp(levels[i + 1] - levels[i]) for i, at in enumerate(found)}


def _splits(logs: Sequence[float], weights: Sequence[float], freedom: float, first: int, end: int) -> list[int]:
    best, at = 0.0, None
    for split in range(first + 1, end):
        difference = _mean(logs, weights, split, end) - _mean(logs, weights, first, split)
        error = math.sqrt(1 / sum(weights[first:split]) + 1 / sum(weights[split:end]))
        if abs(difference) > math.log1p(LEAST_CHANGE) and abs(difference) / error > best:
            best, at = abs(difference) / error, split
    bar = student.quantile((1 - SURE) / 2 / max(end - first - 1, 1), freedom)
    if at is None or best <= bar:
        return []
    return [*_splits(logs, weights, freedom, first, at), at, *_splits(logs, weights, freedom, at, end)]


def _mean(logs: Sequence[float], weights: Sequence[float], first: int, end: int) -> float:
    total = sum(weights[first:end])
    return sum(w * x for w, x in zip(weights[first:end], logs[first:end], strict=True)) / total


def _scatter_between_runs(logs: Sequence[float], errors: Sequence[float]) -> float:
    """The variance of runs beyond their own errors, from successive differences, which few changes do not move."""
    if len(logs) < _LEAST_FOR_SCATTER:
        return 0.0
    steps = [abs(b - a) for a, b in itertools.pairwise(logs)]
    deviation = median(steps) / (NormalDist().inv_cdf(0.75) * math.sqrt(2))
    return max(deviation**2 - sum(e * e for e in errors) / len(errors), 0.0)
