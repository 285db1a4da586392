"""Points as rows of numbers between 0 and 1: what a surrogate learns on, and who is whose neighbour.

Nothing is read into names: a parameter is its ordered levels, a feature is a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.tune.points import Point

Matrix = NDArray[Any]


@dataclass(frozen=True)
class Encoded:
    """``rows`` has a line for each point: its parameters, then its features. ``levels`` are its parameters' levels."""

    rows: Matrix
    levels: NDArray[np.int64]

    def neighbours(self, index: int) -> list[int]:
        """Points that differ from one by a single step of a single parameter; where a space has none, the nearest."""
        differs = self.levels != self.levels[index]
        alone = np.flatnonzero(differs.sum(axis=1) == 1)
        found: list[int] = []
        for parameter in range(self.levels.shape[1]):
            along = alone[differs[alone, parameter]]
            steps = self.levels[along, parameter] - self.levels[index, parameter]
            for side in (along[steps > 0], along[steps < 0]):
                if side.size:
                    distance = np.abs(self.levels[side, parameter] - self.levels[index, parameter])
                    found.append(int(side[distance.argmin()]))
        if found:
            return found
        distance = ((self.rows - self.rows[index]) ** 2).sum(axis=1)
        return [int(i) for i in distance.argsort()[1 : 1 + 2 * max(1, self.levels.shape[1])]]


def encoded(points: Sequence[Point]) -> Encoded:
    """The points as numbers; what is the same for all of them is left out."""
    names = list(dict.fromkeys(name for point in points for name in point.config.values))
    levels = [_levels([point.config.values.get(name) for point in points]) for name in names]
    varied = [found for found in levels if found[0].max(initial=0) > 0]
    columns = [column for found, ordered in varied for column in _parameter(found, ordered)]
    columns += _features(points)
    rows = np.column_stack(columns) if columns else np.zeros((len(points), 1))
    grid = np.column_stack([found for found, _ in varied]) if varied else np.zeros((len(points), 1), np.int64)
    return Encoded(rows, grid)


def _levels(values: Sequence[Any]) -> tuple[NDArray[np.int64], bool]:
    """Each value as its place among those that occur, and whether their order means something."""
    ordered = all(isinstance(value, (bool, int, float)) for value in values)
    distinct = sorted(set(values)) if ordered else sorted({repr(value) for value in values})
    place = {value: i for i, value in enumerate(distinct)}
    return np.array([place[value if ordered else repr(value)] for value in values], np.int64), ordered


def _parameter(levels: NDArray[np.int64], ordered: bool) -> list[Matrix]:
    """Numbers by their place, so that 32, 64, 128 are as far apart as they are meant; words one column each."""
    count = int(levels.max()) + 1
    if ordered or count == 2:
        return [levels / (count - 1)]
    return [(levels == level).astype(np.float64) for level in range(count)]


def _features(points: Sequence[Point]) -> list[Matrix]:
    """A column for each feature that varies, on a log scale; what a point lacks is the middle of what others have."""
    names = list(dict.fromkeys(name for point in points for name in point.features))
    columns: list[Matrix] = []
    for name in names:
        values = np.array([point.features.get(name, np.nan) for point in points], np.float64)
        values[~np.isfinite(values)] = np.nan
        if np.isnan(values).all():
            continue
        values = np.where(np.isnan(values), np.nanmedian(values), values)
        least = values.min()
        column = scaled(np.log2(values if least > 0 else values - least + 1))
        if column.any() and not any(np.allclose(column, other, atol=1e-3) for other in columns):
            columns.append(column)
    return columns


def scaled(values: Matrix) -> Matrix:
    """From 0 for the least to 1 for the greatest; all 0 where they are one."""
    least, span = values.min(), np.ptp(values)
    return (values - least) / span if span > 1e-12 else np.zeros_like(values)
