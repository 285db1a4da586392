"""Children side by side, each at one job; a job that kills its child costs itself, and the child is replaced."""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any, Protocol

from tilewright.errors import ChildFailed, TilewrightError
from tilewright.process import Limits, Worker

_POLL_SECONDS = 0.05
_STARTS = 8
"""How often in a row a new child may die at its first task before the crew gives up."""
_KILLED = 4
"""How often a job whose child was killed is begun once more."""


@dataclass(frozen=True)
class Job:
    """A task and its arguments; ``name`` is how the caller knows it again.

    ``kernels`` are those in Triton's cache here that it launches, for a crew whose children are elsewhere.
    """

    name: Any
    task: str
    arguments: Mapping[str, Any]
    limits: Limits
    kernels: Sequence[Any] = ()


class Jobs(Protocol):
    """Works on jobs side by side: a :class:`Crew` here, or one of a cluster."""

    @property
    def refused(self) -> Sequence[TilewrightError]:
        """Why some of it could not be used."""

    @property
    def capacity(self) -> int:
        """Jobs at a time."""

    @property
    def free(self) -> int:
        """How many more may be given now."""

    def submit(self, job: Job) -> None:
        """Begins a job; there must be room for it."""

    def ended(self, timeout: float | None = None) -> list[tuple[Job, Any]]:
        """Jobs that have ended, with their answers or errors; waits for the first, ``timeout`` seconds at most.

        Raises:
            TilewrightError: nothing can be done here, which no job is to blame for.
        """

    def close(self) -> None:
        """Ends all, whatever they are at."""


@dataclass
class _Seat:
    env: Mapping[str, str | None]
    worker: Worker | None = None
    job: Job | None = None
    is_starting: bool = False
    starts: int = 0
    killed: int = 0  # how often the job's child was


class Crew:
    """Runs jobs in as many children as there are ``seats``, each given by the variables of its environment.

    A job whose child was killed from outside (SIGKILL: the system short of memory, a person) is begun anew, four times at most.

    Args:
        first: what each new child does before its first job. A seat where that fails is given up, its job goes to
            another one; with the last seat the error is raised by :meth:`ended`.

    Attributes:
        refused: why seats were given up.
    """

    def __init__(
        self, seats: Sequence[Mapping[str, str | None]], *, first: Job | None = None, **worker_options: Any
    ) -> None:
        self._seats = [_Seat(env) for env in seats]
        self._first = first
        self._waiting: deque[Job] = deque()  # of seats that were given up
        self.refused: list[TilewrightError] = []
        self._options = worker_options

    @property
    def capacity(self) -> int:
        return len(self._seats)

    @property
    def free(self) -> int:
        """Seats without a job."""
        return max(sum(seat.job is None for seat in self._seats) - len(self._waiting), 0)

    def warm_up(self) -> None:
        """Starts all children, so that they are ready when jobs come."""
        for seat in self._seats:
            if seat.worker is None:
                self._start(seat)

    def submit(self, job: Job) -> None:
        """Gives a job to a free child, one that is at hand if possible."""
        free = [seat for seat in self._seats if seat.job is None]
        seat = min(free, key=lambda seat: (seat.worker is None, seat.is_starting))
        seat.job, seat.killed = job, 0
        if seat.worker is None:
            self._start(seat)
        elif not seat.is_starting:
            self._begin(seat, job)

    def ended(self, timeout: float | None = None) -> list[tuple[Job, Any]]:
        """Jobs that have ended, with their answers or errors; waits for the first, ``timeout`` seconds at most.

        Raises:
            TilewrightError: the first task of a child failed.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            found = [ended for seat in [*self._seats] if (ended := self._look(seat)) is not None]
            while self._waiting and any(seat.job is None for seat in self._seats):
                self.submit(self._waiting.popleft())
            left = None if deadline is None else deadline - time.monotonic()
            if found or (left is not None and left <= 0) or self._is_idle():
                return found
            busy = [seat.worker.connection for seat in self._seats if seat.worker is not None]
            wait(busy, _POLL_SECONDS if left is None else min(left, _POLL_SECONDS))

    def close(self) -> None:
        """Ends all children, whatever they are at."""
        for seat in self._seats:
            if seat.worker is not None:
                seat.worker.kill()
                seat.worker = seat.job = None

    def _is_idle(self) -> bool:
        return not self._waiting and all(seat.job is None for seat in self._seats)

    def _start(self, seat: _Seat) -> None:
        seat.worker = Worker(env=seat.env, **self._options)
        if self._first is not None:
            seat.is_starting = True
            self._begin(seat, self._first)
        elif seat.job is not None:
            self._begin(seat, seat.job)

    def _begin(self, seat: _Seat, job: Job) -> None:
        assert seat.worker is not None
        try:
            seat.worker.submit(job.task, job.arguments, job.limits)
        except ChildFailed:  # it had died while it was idle
            seat.worker.kill()
            self._start(seat)

    def _look(self, seat: _Seat) -> tuple[Job, Any] | None:
        """What a seat's job came to; None where it is at work still, or was begun again."""
        if seat.worker is None or (seat.job is None and not seat.is_starting):
            return None
        try:
            done, answer = seat.worker.poll(lambda event: None)
            if not done:
                return None
        except TilewrightError as error:
            answer = error
        if seat.is_starting:
            self._started(seat, answer)
            return None
        job = seat.job
        assert job is not None
        if isinstance(answer, ChildFailed):
            seat.worker.kill()  # dead already, or in a state nobody vouches for
            seat.worker = None
            if answer.signal == signal.SIGKILL and seat.killed < _KILLED:
                seat.killed += 1
                self._start(seat)
                return None
        seat.job = None
        return job, answer

    def _started(self, seat: _Seat, answer: Any) -> None:
        assert seat.worker is not None
        seat.is_starting = False
        if not isinstance(answer, TilewrightError):
            seat.starts = 0
            if seat.job is not None:
                self._begin(seat, seat.job)
            return
        seat.worker.kill()
        seat.worker = None
        seat.starts += 1
        if isinstance(answer, ChildFailed) and answer.reason == "crashed" and seat.starts < _STARTS:
            self._start(seat)
            return
        self._seats.remove(seat)
        self.refused.append(answer)
        if not self._seats:
            raise answer
        if seat.job is not None:
            self._waiting.append(seat.job)
