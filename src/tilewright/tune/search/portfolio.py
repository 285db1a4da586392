"""The default search: seeds, samples that fill the space, then a surrogate that is asked in three ways in turn.

1. The first points: the best that the analytic model predicts, where there is a prediction, and points that fill the
   space; never more than half by the model, so that a wrong one cannot anchor what is learnt.
2. Then the greatest improvement that two Gaussian processes expect together, one smooth and one rough: where one is
   sure of something wrong, the other is not. By turns of all points, and of neighbours of the fastest so far (polish);
   and now and then of none: a point far from all is taken.

What failed counts as slow as the slowest, so its neighbourhood is left alone unless what is around it is fast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tilewright.tune.points import Point
from tilewright.tune.search.design import farthest
from tilewright.tune.search.encoding import Encoded, Matrix, encoded, scaled
from tilewright.tune.search.gaussian import Gaussian, Prediction

OPENING = 8
"""Points before the surrogate is asked."""
SEEDS = 4
"""Of these, at most so many by the analytic model."""
POLISH_EVERY, POLISHED = 3, 3
"""Every third point is a neighbour of one of the fastest three."""
EXPLORE_EVERY = 10
"""Every tenth is far from all others, whatever is believed."""
CANDIDATES = 2000
"""Points of a large space that the surrogate is asked about at a time."""
ALWAYS_FITTED = 32
"""From so many measured points on, the surrogate's lengths are kept until there are a tenth more."""


class Portfolio:
    name = "portfolio"

    def __init__(self, points: Sequence[Point], seed: int = 0) -> None:
        self._points = points
        self._generator = np.random.default_rng(seed)
        self._look()
        self._left = set(range(len(points)))
        self._pending: set[int] = set()
        self._told: dict[int, float | None] = {}
        self._asked = 0
        self._lengths: dict[bool, Matrix] = {}
        self._fitted = 0

    def next(self) -> int | None:
        if not self._left:
            return None
        if any(now is not seen for now, seen in zip(self._points, self._seen, strict=True)):
            self._look()  # more was compiled meanwhile
        index = self._chosen()
        self._asked += 1
        self._left.discard(index)
        self._pending.add(index)
        return index

    def _look(self) -> None:
        """Encodes the points as they are now."""
        self._seen = list(self._points)
        self._space = encoded(self._seen)
        self._rows = described(self._seen, self._space)
        self._seeds = _predicted_first(self._seen)

    def told(self, index: int, seconds: float | None) -> None:
        self._left.discard(index)
        self._pending.discard(index)
        self._told[index] = seconds if seconds is not None and math.isfinite(seconds) and seconds > 0 else None

    def _chosen(self) -> int:
        taken = [*self._told, *self._pending]
        left = sorted(self._left)
        if len(taken) < OPENING or not self._times():
            if self._asked % 2 == 0 and self._asked < 2 * SEEDS:
                for index in self._seeds:
                    if index in self._left:
                        return index
            return farthest(self._rows, left, taken, self._generator)
        if self._asked % EXPLORE_EVERY == 0:
            return farthest(self._rows, left, taken, self._generator)
        nearby = self._neighbours() if self._asked % POLISH_EVERY == 0 else []
        candidates = nearby or self._some_of(left)
        worth = self._improvement(candidates)
        return candidates[int(worth.argmax())]

    def _improvement(self, candidates: Sequence[int]) -> Matrix:
        """The expected improvement of each, by both surrogates."""
        best, rows = math.log(min(self._times().values())), self._rows[list(candidates)]
        rough, smooth = (improvement(model.predict(rows), best) for model in self._models())
        total: Matrix = rough + smooth
        return total

    def _times(self) -> dict[int, float]:
        return {index: seconds for index, seconds in self._told.items() if seconds is not None}

    def _neighbours(self) -> list[int]:
        """Points left beside one of the fastest."""
        times = self._times()
        fastest = sorted(times, key=lambda index: times[index])[:POLISHED]
        return sorted({near for index in fastest for near in self._space.neighbours(index)} & self._left)

    def _some_of(self, left: list[int]) -> list[int]:
        if len(left) <= CANDIDATES:
            return left
        drawn = self._generator.choice(np.array(left), CANDIDATES, replace=False).tolist()
        return sorted({*drawn, *self._neighbours()})

    def _models(self) -> list[Gaussian]:
        """The surrogates of what was told; points still being measured count as what they predict of them."""
        known = list(self._told)
        values = log_times([self._told[index] for index in known])
        fits = len(known) <= ALWAYS_FITTED or len(known) >= 1.1 * self._fitted
        steps, self._fitted = (40, len(known)) if fits else (0, self._fitted)
        models = []
        for smooth in (False, True):
            model = Gaussian(self._rows[known], values, self._lengths.get(smooth), smooth=smooth, steps=steps)
            self._lengths[smooth] = model.parameters
            if self._pending:
                pending = sorted(self._pending)
                believed = np.concatenate([values, model.predict(self._rows[pending]).mean])
                model = Gaussian(self._rows[known + pending], believed, model.parameters, smooth=smooth, steps=0)
            models.append(model)
        return models


def log_times(seconds: Sequence[float | None]) -> Matrix:
    """Logarithms; what has no time is as slow as the slowest that has one."""
    slowest = max((value for value in seconds if value is not None), default=1.0)
    logarithms: Matrix = np.log([slowest if value is None else value for value in seconds])
    return logarithms


def improvement(prediction: Prediction, best: float) -> Matrix:
    """By how much each value is expected to be below the best (D. R. Jones et al., 1998)."""
    better = (best - prediction.mean) / prediction.deviation
    below = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in better])
    density = np.exp(-0.5 * better**2) / math.sqrt(2 * math.pi)
    expected: Matrix = prediction.deviation * (better * below + density)
    return expected


def _predicted_first(points: Sequence[Point]) -> list[int]:
    predicted = {i: point.predicted_seconds for i, point in enumerate(points) if point.predicted_seconds is not None}
    return sorted(predicted, key=lambda index: predicted[index])


def described(points: Sequence[Point], space: Encoded | None = None) -> Matrix:
    """What the surrogate learns on: the points as numbers, and the analytic model's prediction as one more column,
    so that the surrogate finds out how far it is to be believed."""
    rows = (space or encoded(points)).rows
    if any(point.predicted_seconds is None or point.predicted_seconds <= 0 for point in points):
        return rows
    column = scaled(np.log(np.array([point.predicted_seconds for point in points], np.float64)))
    return np.column_stack([rows, column]) if column.any() else rows
