"""The analytic model's order, and nothing learnt on the way: what a search must be better than to earn its keep.

It goes through all points, so it is also how a small space is exhausted, best predicted first. Points without a
prediction come last, those that keep most shared memory in use first: they have most in flight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright.tune.points import Point
from tilewright.tune.search.ordered import Ordered


class Prior(Ordered):
    name = "prior"

    def __init__(self, points: Sequence[Point], seed: int = 0) -> None:
        def rank(index: int) -> tuple[float, float]:
            point = points[index]
            seconds = math.inf if point.predicted_seconds is None else point.predicted_seconds
            return seconds, -point.features.get("shared", 0.0)

        super().__init__(sorted(range(len(points)), key=rank))
