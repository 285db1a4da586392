"""The searches by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tilewright.errors import UsageError
from tilewright.tune.points import Point
from tilewright.tune.search.distinct import Distinct
from tilewright.tune.search.in_order import InOrder
from tilewright.tune.search.interface import Search
from tilewright.tune.search.portfolio import Portfolio
from tilewright.tune.search.random import Random

SEARCHES: Mapping[str, Callable[[Sequence[Point], int], Search]] = {
    Portfolio.name: Portfolio,
    InOrder.name: InOrder,
    Random.name: Random,
}


def search_named(name: str, points: Sequence[Point], seed: int = 0) -> Search:
    """The search of that name over points; those of equal binary are one measurement.

    Raises:
        UsageError: there is no such search.
    """
    if name not in SEARCHES:
        raise UsageError(f"no search is called {name!r}", f"there are {', '.join(SEARCHES)}")
    return Distinct(points, lambda shown: SEARCHES[name](shown, seed))
