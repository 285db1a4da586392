"""What a plan needs of a timer, and the timer of the host. ``device.py`` has the one of a GPU, ``simulated.py`` one whose
noise is known."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Reading:
    """One timed call, and the clock it ran at where that is known."""

    seconds: float
    clock_mhz: float | None = None


class Timer(Protocol):
    """Times one call in one regime. A plan needs no more of a machine than this."""

    regime: str
    """What is timed, in words that go into every record."""

    def time(self, call: Callable[[], Any]) -> Reading:
        """Times one call."""

    def now(self) -> float:
        """Seconds on the clock that a plan's time is counted by."""

    def conditions(self) -> tuple[str, ...]:
        """What at this moment makes the machine unfit to time on, such as a throttled or shared GPU."""

    def slowed(self, call: Callable[[], Any], share: float, typical: float) -> Callable[[], Any] | None:
        """The call made slower by a known ``share`` of its ``typical`` seconds; None where this timer cannot."""


class HostTimer:
    """The host's clock around a call that computes on the CPU."""

    regime = "host time, warm caches"

    def time(self, call: Callable[[], Any]) -> Reading:
        start = time.perf_counter()
        call()
        return Reading(time.perf_counter() - start)

    def now(self) -> float:
        return time.perf_counter()

    def conditions(self) -> tuple[str, ...]:
        return ()

    def slowed(self, call: Callable[[], Any], share: float, typical: float) -> Callable[[], Any] | None:
        def longer() -> None:
            start = time.perf_counter()
            call()
            until = time.perf_counter()
            until += share * (until - start)
            while time.perf_counter() < until:
                pass

        return longer
