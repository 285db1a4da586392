"""A stream held busy while the host queues work on it, so that launch latency stays out of what is timed then.

A kernel that spins for a given number of cycles, not one that waits for the host: a call that itself waits for the GPU
would never return from under the latter.
"""

from __future__ import annotations

import time

import torch

_clock = time.perf_counter
_Event = torch.cuda.Event
_sleep = torch.cuda._sleep
_LEAST, _MOST = 60e-6, 20e-3  # seconds
_ROOM = 1.5
_HOPELESS = 12  # times in a row that the stream was free before all was queued, however long it was held


class Hold:
    """Learns how long one call takes to queue."""

    def __init__(self) -> None:
        self._seconds = 300e-6
        self._began = 0.0
        self._over: torch.cuda.Event | None = None
        self._in_a_row = 0

    def begin(self, cycles_a_second: float) -> None:
        """Holds the current stream; ``cycles_a_second`` of the spinning kernel, at most."""
        _sleep(int((_LEAST if self._in_a_row >= _HOPELESS else self._seconds) * cycles_a_second))
        self._over = _Event()
        self._over.record()
        self._began = _clock()

    def end(self) -> bool:
        """All is queued. True where the stream was already free: launch latency has leaked into the call's time."""
        queued = _clock() - self._began
        leaked = self._over is not None and self._over.query()
        self._in_a_row = self._in_a_row + 1 if leaked else 0
        wanted = min(max(_ROOM * queued, _LEAST), _MOST)
        # At once longer, slowly shorter again: one that is too short spoils a sample, one too long costs time.
        self._seconds = wanted if wanted > self._seconds else 0.95 * self._seconds + 0.05 * wanted
        return leaked
