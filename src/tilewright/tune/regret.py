"""How much faster than the fastest measured point another one may be: the estimated regret, and how sure that is.

The search's surrogates, one smooth and one rough, predict every point that was not measured. The regret stated at a
confidence is the least r for which the chance that none of them is faster than (1 - r) times the best is at least that
confidence: each point's chance taken as independent, each surrogate as likely to be right as the other. How wide their
predictions must be is judged within the run: each measured point is predicted from the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tilewright.tune.points import Point
from tilewright.tune.search.distinct import representatives
from tilewright.tune.search.encoding import Matrix
from tilewright.tune.search.gaussian import Gaussian
from tilewright.tune.search.portfolio import described, log_times

CONFIDENCE = 0.9
WIDER = 1.25
"""On top of that: a search measures beside what it knows, so what it measured is easier to predict than the rest."""
LEAST_MEASURED = 5
"""Fewer times than that say nothing of the others."""


def regret(points: Sequence[Point], told: Mapping[int, float | None], confidence: float = CONFIDENCE) -> float:
    """The share by which the best of all points may be faster than the best measured, at a confidence; 1 if unknown.

    ``told`` has seconds for the points that were measured, None for those that failed.
    """
    stands_for = representatives(points)
    measured = {stands_for[index]: seconds for index, seconds in told.items()}
    others = sorted(set(stands_for) - set(measured))
    if not others:
        return 0.0
    if sum(seconds is not None for seconds in measured.values()) < LEAST_MEASURED:
        return 1.0
    rows, known = described(points), list(measured)
    values = log_times([measured[index] for index in known])
    beliefs = [_belief(rows[known], values, rows[others], smooth) for smooth in (False, True)]
    return _least(beliefs, confidence)


def _belief(rows: Matrix, values: Matrix, others: Matrix, smooth: bool) -> tuple[Matrix, Matrix]:
    """Of each point not measured how far it is above the best, in deviations, and the deviation."""
    model = Gaussian(rows, values, smooth=smooth)
    prediction = model.predict(others)
    deviation = prediction.deviation * WIDER * max(1.0, float(np.sqrt(np.mean(model.left_out() ** 2))))
    return (prediction.mean - values.min()) / deviation, deviation


def _least(beliefs: Sequence[tuple[Matrix, Matrix]], confidence: float) -> float:
    """The least regret at which the chance that no point is beyond it reaches the confidence, by halving."""
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        gain = -math.log1p(-middle)
        chances = [chance_of_none(away + gain / deviation) for away, deviation in beliefs]
        if sum(chances) / len(chances) >= confidence:
            high = middle
        else:
            low = middle
    return high


def chance_of_none(away: Matrix) -> float:
    """The chance that none of several values is below a level that is so many deviations below each one's mean."""
    logarithms = [math.log1p(-min(0.5 * math.erfc(value / math.sqrt(2)), 1 - 1e-12)) for value in away]
    return math.exp(math.fsum(logarithms))
