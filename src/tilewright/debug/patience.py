"""An end to what has none: a kernel or launcher that runs on is stopped at the line where it is."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

STILL_RUNNING = "still running after"
"""How the message of such a finding starts."""


class StillRunning(Exception):
    """Raised in what runs once its time is over."""


@contextlib.contextmanager
def at_most(seconds: float | None) -> Iterator[None]:
    """Within it, Python code of the main thread has so much wall time; None gives it all it wants.

    Raises:
        StillRunning: it ran longer.
    """
    if seconds is None:
        yield
        return

    def ring(number: int, frame: Any) -> None:
        raise StillRunning(f"{STILL_RUNNING} {seconds:.3g} s: a loop that does not end?")

    former = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
