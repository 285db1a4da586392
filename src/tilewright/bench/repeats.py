"""Whether a call is faster on values it has seen: then it keeps answers, and its time is not that of its work."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

_FASTER = 1.3
_LEAST_REPEATS = 3
TRIALS = 6
_WON = 5  # trials: a spike now and then must neither hide a cheat nor make one


@dataclass
class Repeats:
    """Times of one function by draw: the first call with a draw's values, and the later ones.

    The same values are compared with themselves: other values may mean other work.
    """

    first: dict[int, float] = field(default_factory=dict)
    later: dict[int, list[float]] = field(default_factory=dict)

    def add(self, draw: int, seconds: float) -> None:
        if draw in self.first:
            self.later.setdefault(draw, []).append(seconds)
        else:
            self.first[draw] = seconds

    def is_suspicious(self, but: int) -> bool:
        """Whether most draws were faster when repeated; ``but`` one, whose first call was none of those timed."""
        known = [draw for draw in self.first if draw != but and len(self.later.get(draw, ())) >= _LEAST_REPEATS]
        gains = [self.first[draw] / statistics.median(self.later[draw]) for draw in known]
        return bool(gains) and statistics.median(gains) > _FASTER


def gain(trials: Iterable[Callable[[], float]]) -> float | None:
    """How many times as fast repetitions are, where nearly all trials say so; a trial times a call on values of its own,
    which no call has seen."""
    gains = [timed() / statistics.median(timed() for _ in range(_LEAST_REPEATS)) for timed in trials]
    won = sum(one > _FASTER for one in gains)
    return statistics.median(gains) if won >= _WON else None
