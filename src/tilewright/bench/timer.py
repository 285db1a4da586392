"""What a plan needs of a timer, and the timer of the host. ``device.py`` has the one of a GPU, ``simulated.py`` one whose
noise is known."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tilewright.bench.held import Held

# Held from before the first kernel runs: what is put in the place of the clock afterwards changes nothing here.
_clock = time.perf_counter


def nothing() -> None:
    """Is done around a call that asks for nothing to be done around it."""


@dataclass(frozen=True)
class Reading:
    """One timed call, and the clock it ran at where that is known; ``leaked`` is whether what the host takes to launch it
    may be in its time, though it is not what is timed."""

    seconds: float
    clock_mhz: float | None = None
    leaked: bool = False


@dataclass(frozen=True)
class Slowed:
    """A call made slower by a known share of its time."""

    call: Callable[[], Any]
    share: float


class Timer(Protocol):
    """Times one call in one regime. A plan needs no more of a machine than this."""

    regime: str
    """What is timed, in words that go into every record."""

    def time(
        self, call: Callable[[], Any], before: Callable[[], None] = nothing, after: Callable[[], None] = nothing
    ) -> Reading:
        """Times one call; ``before`` and ``after`` go just before and behind it, outside of its time."""

    def now(self) -> float:
        """Seconds on the clock that a plan's time is counted by."""

    def conditions(self) -> tuple[str, ...]:
        """What, since this was asked last, made the machine unfit to time on, such as a throttled or shared GPU."""

    def slowed(self, call: Callable[[], Any], share: float, typical: float) -> Slowed | None:
        """The call made slower by ``share`` of its ``typical`` seconds, by more where no less can be added; None where
        this timer cannot."""


class MachineTimer(Timer, Protocol):
    """A timer of a real machine."""

    def ready(self, call: Held) -> Callable[[], Any]:
        """Runs a call for the first time; what is to be timed in its place."""


class HostTimer:
    """The host's clock around a call that computes on the CPU."""

    regime = "host time, warm caches"

    def ready(self, call: Held) -> Callable[[], Any]:
        call()
        return call

    def time(
        self, call: Callable[[], Any], before: Callable[[], None] = nothing, after: Callable[[], None] = nothing
    ) -> Reading:
        before()
        start = _clock()
        call()
        end = _clock()
        after()
        return Reading(end - start)

    def now(self) -> float:
        return _clock()

    def conditions(self) -> tuple[str, ...]:
        return ()

    def slowed(self, call: Callable[[], Any], share: float, typical: float) -> Slowed:
        def longer() -> None:
            start = _clock()
            call()
            until = _clock()
            until += share * (until - start)
            while _clock() < until:
                pass

        return Slowed(longer, share)
