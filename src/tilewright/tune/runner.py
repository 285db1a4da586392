"""What measures points, whatever it is: children on the GPUs of this host, a cluster, recorded trials, a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Status = Literal["timed", "wrong", "failed"]
ABANDONED = 1.3
"""Times the best at which a configuration is given up, by the fastest of its first calls."""


@dataclass(frozen=True)
class Outcome:
    """How the measurement of one point went; seconds of one call.

    ``abandoned`` is whether it was given up after a first short timing, as clearly slower than the best: ``seconds`` is
    a lower bound then. ``error`` says why it failed, is wrong or was abandoned.
    """

    index: int
    status: Status
    seconds: float | None = None
    low: float | None = None
    high: float | None = None
    error: str = ""
    abandoned: bool = False
    error_over_tolerance: float | None = None

    @property
    def told(self) -> float | None:
        """What a Search is told: None where there is no time."""
        return self.seconds if self.status == "timed" else None


@dataclass(frozen=True)
class Measured:
    """What a child says of a configuration: its worst error over the tolerance, and its times in seconds where it was right.

    ``abandoned`` is whether ``median`` is the fastest of a few first calls, and no more were made. ``compiled`` counts
    the kernels that were not in Triton's cache, ``took`` are the seconds that all of it took.
    """

    error_over_tolerance: float
    median: float | None = None
    low: float | None = None
    high: float | None = None
    abandoned: bool = False
    compiled: int = 0
    took: float = 0.0


class Runner(Protocol):
    """Measures points by their index, ``capacity`` of them at a time."""

    @property
    def capacity(self) -> int: ...

    def submit(self, index: int, best: float | None = None) -> None:
        """Starts measuring a point. ``best`` are the seconds of the fastest so far: what is clearly slower is abandoned."""

    def results(self, timeout: float | None = None) -> Sequence[Outcome]:
        """What has ended since this was asked last; waits for the first, ``timeout`` seconds at most (None: for ever).

        Empty where nothing ended meanwhile, or nothing is being measured.
        """

    def close(self) -> None:
        """Ends what is being measured."""


class Duelling(Runner, Protocol):
    """A runner that can let points meet: timed in turns in one process, so that what drifts hits all of them alike."""

    def duel(self, indices: Sequence[int], *, seconds: float, seed: int) -> Sequence[Sequence[float] | None]:
        """Seconds of each point in each round, in the order given; None for one that failed or was wrong meanwhile.

        A point may be given twice: how far it strays from itself is the noise.
        """

    def notes(self) -> Sequence[str]:
        """What a reader should know of how it went."""
