"""From samples to medians, ratios and intervals. Knows nothing of GPUs.

Ratios are logarithms until they are shown: so faster and slower are alike, and a mean is a mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.bench import student

Array = NDArray[np.float64]
BLOCKS = 10
"""Stretches of one process, whose medians say how well its own median is known."""
TAIL = 0.025
"""What a 95 % interval leaves out on either side."""


@dataclass(frozen=True)
class Estimate:
    """A log-ratio, its standard error, and the degrees of freedom which that error has."""

    centre: float
    error: float
    freedom: float

    def half_width(self, tail: float = TAIL) -> float:
        """Half of the interval that leaves out ``tail`` on either side."""
        return self.error * student.quantile(tail, self.freedom) if self.freedom > 0 else math.inf

    def interval(self, tail: float = TAIL) -> tuple[float, float]:
        """The ends of the interval, as ratios."""
        half = self.half_width(tail)
        return math.exp(self.centre - half), math.inf if math.isinf(half) else math.exp(self.centre + half)

    def beyond(self, bar: float) -> float:
        """How likely a log-ratio of ``bar`` looks this large or larger (one-sided)."""
        return self._tail(self.centre - bar)

    def below(self, bar: float) -> float:
        """How likely a log-ratio of ``bar`` looks this small or smaller (one-sided)."""
        return self._tail(bar - self.centre)

    def _tail(self, distance: float) -> float:
        if self.freedom <= 0:
            return 1.0
        if self.error == 0:
            return 0.0 if distance > 0 else 1.0
        return student.upper_tail(distance / self.error, self.freedom)


def log_ratios(theirs: Array, ours: Array) -> Array:
    """One log-ratio for each round: times are rounds x 2, those of a round lie around one moment."""
    found: Array = (np.log(theirs) - np.log(ours)).mean(axis=-1)
    return found


def of_one_process(logs: Array, unseen: float = 0.0) -> Estimate:
    """The median log-ratio of one process.

    Neighbouring rounds are not independent: the medians of ``BLOCKS`` stretches are what its error is taken from.
    ``unseen`` is the standard deviation over processes, which one process cannot show; it is added.
    """
    if not len(logs):
        return Estimate(0.0, 0.0, 0.0)
    centre = float(np.median(logs))
    count = min(BLOCKS, len(logs))
    if count < 3:
        return Estimate(centre, 0.0, 0.0)
    blocks = np.array([np.median(block) for block in np.array_split(logs, count)])
    # A median of few varies less than medians of many would let one expect: 1.32 times less for 4 normal values,
    # 1.22 for 6, 1.14 for 10.
    seen = float(blocks.var(ddof=1)) / count * (1 + 1.3 * count / len(logs))
    square = seen + unseen**2
    # Welch and Satterthwaite: what is taken for granted has no scatter of its own.
    freedom = (count - 1) * (square / seen) ** 2 if seen > 0 else math.inf
    return Estimate(centre, math.sqrt(square), freedom)


def of_processes(centres: Sequence[float], swapped: Sequence[bool]) -> Estimate:
    """The mean over processes, each order of allocation counting one half.

    What depends on that order alone moves neither the mean nor its error.
    """
    groups = [np.array([c for c, s in zip(centres, swapped, strict=True) if s is order]) for order in (False, True)]
    groups = [group for group in groups if len(group)]
    if not groups:
        return Estimate(0.0, 0.0, 0.0)
    centre = float(np.mean([group.mean() for group in groups]))
    freedom = sum(len(group) - 1 for group in groups)
    if freedom < 1:
        return Estimate(centre, 0.0, 0.0)
    variance = sum(float(((group - group.mean()) ** 2).sum()) for group in groups) / freedom
    error = math.sqrt(variance * sum(1 / len(group) for group in groups)) / len(groups)
    return Estimate(centre, error, float(freedom))


def quartiles(values: Array) -> tuple[float, float, float]:
    first, median, third = np.percentile(values, (25, 50, 75))
    return float(first), float(median), float(third)


CLOCK_DROP = 0.03
"""A sample is set apart where its clock is lower by more than this share than its side's usual one."""


def lowered(clocks: Array) -> NDArray[np.bool_]:
    """Rounds in which the clock had dropped; ``clocks`` are … x rounds x sides x 2.

    Against each side's own median: a kernel that draws more power than another runs at a lower clock all the time, and
    that is its speed.
    """
    usual = np.median(clocks, axis=(-3, -1), keepdims=True)
    found: NDArray[np.bool_] = (clocks < (1 - CLOCK_DROP) * usual).any(axis=(-2, -1))
    return found
