"""What is timed how often: fresh processes, in them rounds, in these every side twice, in an order drawn anew.

Only fresh processes show what a process keeps for its whole life (where memory lies, which clock it was given), so
they are what an interval counts. Two sides of every plan are the same call: how far these two stray from each other is
the noise floor. A third is slower by a known share: a plan that does not see it sees nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

OURS, AGAIN, CONTROL = "ours", "ours again", "ours slowed"
OWN_SIDES = (OURS, AGAIN, CONTROL)
"""Sides that belong to the plan itself; all others are baselines."""


@dataclass(frozen=True)
class Plan:
    """How much is measured, and what may be claimed of it.

    Args:
        resolution: the smallest change that the plan is made to find. Half of it is the margin: less is the same.
        seconds: timing of one shape, over all processes.
        looks: after how many processes the precision is looked at; with the last the plan ends.
        shares: how much of the error allowed in a verdict each look may spend (they sum to 1), so that looking
            several times errs no more often than looking once.
        unseen: where one process is all there is, the standard deviation over processes that is taken for granted.
    """

    name: str
    resolution: float
    seconds: float
    looks: tuple[int, ...]
    shares: tuple[float, ...]
    unseen: float = 0.003

    @property
    def margin(self) -> float:
        return self.resolution / 2

    @property
    def precision(self) -> float:
        """Half of the interval's width at which no further process is needed."""
        return 0.4 * self.margin

    @property
    def processes(self) -> int:
        """At most."""
        return self.looks[-1]

    @property
    def seconds_a_process(self) -> float:
        return self.seconds / self.processes


QUICK = Plan("quick", resolution=0.02, seconds=2.0, looks=(1,), shares=(1.0,))
GATE = Plan("gate", resolution=0.01, seconds=30.0, looks=(6, 10, 16), shares=(0.2, 0.3, 0.5))
PLANS = {plan.name: plan for plan in (QUICK, GATE)}


def is_swapped(process: int) -> bool:
    """Whether a process allocates the sides' memory in reverse order: every second one does."""
    return process % 2 == 1


def palindrome(sides: Sequence[int], source: Random) -> list[int]:
    """Every side twice: in an order drawn anew, then backwards (ABBA), so that a steady drift cancels."""
    order = list(sides)
    source.shuffle(order)
    return order + order[::-1]
