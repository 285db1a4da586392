"""The run itself: what a search asks for is compiled and measured, both at once, and each Trial told as soon as it is known.

It knows nothing of GPUs, of compilers, or of how the search chooses; those are given to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilewright.records import Event, Progress, Trial, Tried
from tilewright.tune.ahead import Ahead
from tilewright.tune.points import Point, points_of
from tilewright.tune.runner import Outcome, Runner
from tilewright.tune.search.interface import Search

_POLL_SECONDS = 0.02
_ALIVE = ("compiled", "timed", "wrong", "failed")
SearchOf = Callable[[list[Point]], Search]
Stop = Callable[[Sequence[Trial]], str | None]
"""Asked between measurements: why to stop now, or None."""


@dataclass
class Ended:
    """All Trials in the order of the space, why the run stopped, and how many it measured itself."""

    trials: list[Trial]
    why: str
    measured: int = 0


@dataclass
class _State:
    """Where each point that the search asked for is. Points go by their place in the search's list."""

    places: list[int]  # the index of a point's configuration
    points: dict[int, int]  # and back
    asked: set[int] = field(default_factory=set)
    ready: set[int] = field(default_factory=set)  # compiled, asked for or not
    queue: deque[int] = field(default_factory=deque)
    measuring: set[int] = field(default_factory=set)
    by_binary: dict[str, Trial] = field(default_factory=dict)
    best: float | None = None
    measured: int = 0


class Loop:
    """One run over one case's configurations.

    Args:
        blank: what every Trial that is measured says of where and how.
        lookahead: points that are asked for beyond those being measured, so that compilers and runner never wait.
        first: the index of a configuration that is measured whatever the search thinks of it.
    """

    def __init__(
        self,
        ahead: Ahead,
        runner: Runner,
        search_of: SearchOf,
        *,
        blank: Mapping[str, str],
        stop: Stop,
        lookahead: int,
        first: int | None = None,
    ) -> None:
        self._ahead, self._runner, self._search_of = ahead, runner, search_of
        self._blank, self._stop, self._lookahead, self._first = dict(blank), stop, lookahead, first

    def run(self) -> Generator[Event, None, Ended]:
        """Yields a Tried for each configuration as it is settled; at the end for those that nobody asked for."""
        trials = self._ahead.trials
        yield from self._ahead.survey()
        for index, trial in enumerate(trials):
            if index in self._ahead.known:
                yield Tried(trial, known=True)
            elif trial.status != "compiled":
                yield Tried(trial)
        places = [index for index, trial in enumerate(trials) if _is_alive(trial, index in self._ahead.known)]
        state = _State(places, {index: point for point, index in enumerate(places)})
        self._points = points_of([trials[index] for index in state.places])
        self._search = self._search_of(self._points)
        for point, index in enumerate(state.places):
            if trials[index].status != "compiled":
                self._settle(state, point, trials[index])
        if self._first in state.points and trials[self._first or 0].status == "compiled":
            self._want(state, state.points[self._first or 0])
        why = yield from self._measure(state)
        for index, trial in enumerate(trials):
            if trial.status == "compiled":
                same = state.by_binary.get(trial.binary)
                trials[index] = trial if same is None else _as_the_same(trial, same)
                yield Tried(trials[index])
        return Ended(trials, why, state.measured)

    def _measure(self, state: _State) -> Generator[Event, None, str]:
        why: str | None = None
        while True:
            if why is None:
                # What is ready goes to the runner before anything that may think for a while is asked: whether to stop,
                # and where to go on.
                yield from self._submit(state)
                why = self._stop(self._ahead.trials)
            if why is None:
                self._ask(state)
                if not (state.asked or state.measuring):
                    return "nothing is left that is worth measuring"
            elif not state.measuring:
                return why
            yield from self._compiled(state)
            if why is None:
                yield from self._submit(state)
            for outcome in self._runner.results(_POLL_SECONDS if state.measuring else 0):
                yield from self._told(state, outcome)

    def _ask(self, state: _State) -> None:
        """Asks for points as long as there is room; where enough are ready, no more, so that what is told counts."""
        capacity = self._runner.capacity
        while len(state.asked) < capacity + self._lookahead and len(state.queue) + len(state.measuring) <= capacity:
            point = self._search.next()
            if point is None or point in state.asked or self._ahead.trials[state.places[point]].status != "compiled":
                return  # none, or one that it has named before
            self._want(state, point)

    def _want(self, state: _State, point: int) -> None:
        state.asked.add(point)
        if point in state.ready:
            state.queue.append(point)
        else:
            self._ahead.want(state.places[point])

    def _compiled(self, state: _State) -> Generator[Event, None, None]:
        """Takes note of what was compiled meanwhile; waits for it where there is nothing else to do."""
        is_idle = not state.measuring and not state.queue
        for index in self._ahead.ended(_POLL_SECONDS if is_idle else 0):
            if index not in state.points:
                continue  # it failed while the space was looked at, and has been told
            point, trial = state.points[index], self._ahead.trials[index]
            self._points[point] = points_of([trial])[0]
            state.ready.add(point)
            if trial.status != "compiled":
                yield Tried(trial)
                self._settle(state, point, trial)
            elif point in state.asked:
                state.queue.append(point)

    def _submit(self, state: _State) -> Generator[Event, None, None]:
        while state.queue and len(state.measuring) < self._runner.capacity:
            point = state.queue.popleft()
            index = state.places[point]
            same = state.by_binary.get(self._ahead.trials[index].binary)
            if same is not None:
                trial = _as_the_same(self._ahead.trials[index], same)
                yield from self._keep(state, point, trial)
                continue
            state.measuring.add(point)
            yield Progress("tune", state.measured, f"timing {self._ahead.trials[index].config}")
            self._runner.submit(index, state.best)

    def _told(self, state: _State, outcome: Outcome) -> Generator[Event, None, None]:
        point = state.points[outcome.index]
        state.measuring.discard(point)
        state.measured += 1
        yield from self._keep(state, point, trial_of(self._ahead.trials[outcome.index], outcome, self._blank))

    def _keep(self, state: _State, point: int, trial: Trial) -> Generator[Event, None, None]:
        self._ahead.trials[state.places[point]] = trial
        yield Tried(trial)
        self._settle(state, point, trial)

    def _settle(self, state: _State, point: int, trial: Trial) -> None:
        state.asked.discard(point)
        seconds = trial.median_seconds if trial.status == "timed" else None
        if seconds is not None and not trial.abandoned:
            state.best = seconds if state.best is None else min(state.best, seconds)
        if trial.binary:
            state.by_binary[trial.binary] = trial
        self._search.told(point, seconds)


def _is_alive(trial: Trial, is_known: bool) -> bool:
    """Whether the search hears of it: what could be measured, and what an earlier run measured or tried to."""
    return trial.status == "compiled" or (is_known and trial.status in _ALIVE)


def trial_of(compiled: Trial, outcome: Outcome, blank: Mapping[str, str]) -> Trial:
    """The Trial that a measurement makes of a compiled one."""
    found = replace(compiled, status=outcome.status, reason=outcome.error, **blank)  # type: ignore[arg-type]
    found = replace(found, error_over_tolerance=outcome.error_over_tolerance, abandoned=outcome.abandoned)
    return replace(found, median_seconds=outcome.seconds, low_seconds=outcome.low, high_seconds=outcome.high)


def _as_the_same(trial: Trial, same: Trial) -> Trial:
    """What is known of a configuration from one that compiles to the same binaries and is launched alike."""
    reason = f"the same binary as {same.config}" + (f": {same.reason}" if same.reason else "")
    own = {"config": trial.config, "reason": reason, "code": trial.code, "predicted_seconds": trial.predicted_seconds}
    return replace(same, **own)  # type: ignore[arg-type]
