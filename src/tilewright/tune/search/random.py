"""Points in an order drawn at random: what every other search must be better than."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.tune.points import Point
from tilewright.tune.search.ordered import Ordered


class Random(Ordered):
    name = "random"

    def __init__(self, points: Sequence[Point], seed: int = 0) -> None:
        super().__init__(np.random.default_rng(seed).permutation(len(points)).tolist())
