"""What every search is to the tuner: it names the point to measure next, and is told how it went."""

from __future__ import annotations

from typing import Protocol


class Search(Protocol):
    """One way through a list of Points, given when it is made, with a seed. Points go by their index in that list.

    ``next`` may be asked again while points it named are still being measured: it names others.
    """

    name: str

    def next(self) -> int | None:
        """The point to measure now; None when nothing is left that is worth it.

        None is final only when nothing is being measured: what is told then may bring more.
        """

    def told(self, index: int, seconds: float | None) -> None:
        """How a point went, asked for or not (an earlier run's).

        ``seconds`` is None where it failed or was wrong. What was abandoned as slow is told as its lower bound.
        """
