"""All points, the one predicted to be fastest first, and nothing learnt on the way.

So a small space is exhausted; and any other search must be better than this to earn its keep.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright.tune.points import Point
from tilewright.tune.search.ordered import Ordered


class InOrder(Ordered):
    """Points without a prediction come last, in the order given."""

    name = "prior"

    def __init__(self, points: Sequence[Point], seed: int = 0) -> None:
        def predicted(index: int) -> float:
            seconds = points[index].predicted_seconds
            return math.inf if seconds is None else seconds

        super().__init__(sorted(range(len(points)), key=predicted))
