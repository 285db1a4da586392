"""What happens inside one process: a warm-up until times stand still, then rounds until the time is spent."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.bench.plan import palindrome
from tilewright.bench.timer import Reading, Timer
from tilewright.bench.watching import UNWATCHED, Watching

LEAST_ROUNDS = 5
"""However slow a call is: an interval needs some."""
MOST_ROUNDS = 1000
LEAKS = 0.05
_WARM_UP_SHARE = 0.5  # of the time for rounds, at most
_WARM_UP_WINDOW = 12  # passes over all sides that are looked at for a trend
_STILL = 2.5  # standard errors by which two halves of a window may differ


@dataclass
class Rounds:
    """Samples in the order taken. ``order`` holds the side of each, as an index into ``sides``.

    A round is every side twice. ``stationary`` is False where times still moved when the warm-up had to end.
    """

    sides: tuple[str, ...]
    order: list[int] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    warm_up_seconds: float = 0.0
    stationary: bool = True

    def seconds(self) -> NDArray[np.float64]:
        """Rounds x sides x 2."""
        return by_side(self.order, [reading.seconds for reading in self.readings], len(self.sides))

    def leaking(self) -> list[str]:
        """The sides of whose times more than ``LEAKS`` have the host's part in them."""
        leaked = by_side(self.order, [reading.leaked for reading in self.readings], len(self.sides))
        shares = leaked.mean(axis=(0, 2))
        return [side for side, share in zip(self.sides, shares, strict=True) if share > LEAKS]

    def without(self, left_out: Collection[str]) -> Rounds:
        """The same rounds as if some sides had not been among them."""
        kept = [side for side in self.sides if side not in left_out]
        place = {index: kept.index(side) for index, side in enumerate(self.sides) if side in kept}
        taken = [(place[s], reading) for s, reading in zip(self.order, self.readings, strict=True) if s in place]
        return replace(self, sides=tuple(kept), order=[s for s, _ in taken], readings=[r for _, r in taken])


def by_side(order: list[int] | tuple[int, ...], values: Any, sides: int) -> NDArray[np.float64]:
    """Values in the order taken, as rounds x sides x 2."""
    taken = np.asarray(values, dtype=np.float64).reshape(-1, 2 * sides)
    places = np.argsort(np.asarray(order).reshape(-1, 2 * sides), axis=1, kind="stable")
    return np.take_along_axis(taken, places, axis=1).reshape(-1, sides, 2)


def take(
    calls: Mapping[str, Callable[[], Any]],
    timer: Timer,
    *,
    seconds: float,
    seed: int = 0,
    watch: Watching = UNWATCHED,
) -> Rounds:
    """Times all calls in rounds, for about ``seconds``; at least ``LEAST_ROUNDS``.

    Raises:
        LauncherFailed: an operator was not right in a call that was watched.
    """
    source = Random(seed)
    rounds = Rounds(tuple(calls))
    _warm_up(rounds, calls, timer, seconds, source, watch)
    started = timer.now()
    for taken in range(1, MOST_ROUNDS + 1):
        last = taken >= LEAST_ROUNDS and (timer.now() - started >= seconds or taken == MOST_ROUNDS)
        watch.begin(last=last)
        order = palindrome(range(len(calls)), source)
        rounds.order += order
        rounds.readings += [_sample(rounds.sides[side], calls, timer, watch) for side in order]
        if last:
            break
    return rounds


def _sample(side: str, calls: Mapping[str, Callable[[], Any]], timer: Timer, watch: Watching) -> Reading:
    watch.ready(side)
    reading = timer.time(calls[side], partial(watch.before, side), partial(watch.after, side))
    watch.done(side, reading.seconds)
    return reading


def _warm_up(
    rounds: Rounds,
    calls: Mapping[str, Callable[[], Any]],
    timer: Timer,
    seconds: float,
    source: Random,
    watch: Watching,
) -> None:
    """Passes over all sides until the last of them show no trend, or the time for it is spent."""
    order = list(calls)
    started = timer.now()
    passes: list[float] = []
    while True:
        source.shuffle(order)
        # Of logarithms, so that each side counts alike.
        logs = [math.log(max(_sample(side, calls, timer, watch).seconds, 1e-12)) for side in order]
        passes.append(sum(logs) / len(logs))
        rounds.warm_up_seconds = timer.now() - started
        if is_still(passes[-_WARM_UP_WINDOW:]):
            return
        if rounds.warm_up_seconds > _WARM_UP_SHARE * seconds:
            # Too slow a call for so many passes is no sign of a trend.
            rounds.stationary = len(passes) < _WARM_UP_WINDOW
            return


def is_still(window: list[float]) -> bool:
    """Whether the two halves of a full window differ by no more than their scatter explains."""
    if len(window) < _WARM_UP_WINDOW:
        return False
    half = len(window) // 2
    early, late = window[:half], window[half:]
    error = math.sqrt((_scatter(early) ** 2 + _scatter(late) ** 2) / half)
    return abs(statistics.median(early) - statistics.median(late)) <= _STILL * error + 1e-9


def _scatter(values: list[float]) -> float:
    """Standard deviation of the middle of the values: a spike must not pass for scatter."""
    middle = statistics.median(values)
    return 1.4826 * 1.2533 * statistics.median(abs(value - middle) for value in values)
