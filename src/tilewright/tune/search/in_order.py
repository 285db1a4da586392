"""All points, the one predicted to be fastest first."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright.tune.points import Point


class InOrder:
    """A :class:`~tilewright.tune.search.interface.Search` that leaves nothing out and learns nothing."""

    name = "exhaustive"

    def __init__(self, points: Sequence[Point]) -> None:
        def predicted(index: int) -> float:
            seconds = points[index].predicted_seconds
            return math.inf if seconds is None else seconds

        self._left = sorted(range(len(points)), key=predicted, reverse=True)
        self._gone: set[int] = set()

    def next(self) -> int | None:
        while self._left:
            index = self._left.pop()
            if index not in self._gone:
                self._gone.add(index)
                return index
        return None

    def told(self, index: int, seconds: float | None) -> None:
        self._gone.add(index)
