"""Recorded trials instead of a GPU: any search is judged on many seeds in seconds, and the whole tuner runs on a laptop.

A configuration that is known not to fit before anything runs is no point, so it costs nothing; every other one that is
measured costs an evaluation, also where it failed. Times are seen through evaluations alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.records import Trial
from tilewright.tune.points import Point, points_of
from tilewright.tune.recorded import Recorded
from tilewright.tune.runner import Outcome
from tilewright.tune.search.interface import Search
from tilewright.tune.search.named import search_named


class Replay:
    """The Runner that looks up what was measured."""

    def __init__(self, trials: Sequence[Trial], capacity: int = 1) -> None:
        self.capacity = capacity
        self._trials = trials
        self._ended: list[Outcome] = []

    def submit(self, index: int, best: float | None = None) -> None:
        self._ended.append(_outcome(index, self._trials[index]))

    def results(self, timeout: float | None = None) -> Sequence[Outcome]:
        ended, self._ended = self._ended, []
        return ended

    def close(self) -> None:
        self._ended = []


def _outcome(index: int, trial: Trial) -> Outcome:
    if trial.status == "timed":
        return Outcome(index, "timed", trial.median_seconds, trial.low_seconds, trial.high_seconds)
    return Outcome(index, "wrong" if trial.status == "wrong" else "failed", error=trial.reason)


@dataclass(frozen=True)
class Truth:
    """Recorded trials made ready: the points that would have been measured, what became of each, the fastest's time."""

    name: str
    points: tuple[Point, ...]
    trials: tuple[Trial, ...]
    infeasible: int

    @property
    def best(self) -> float:
        """Seconds of the fastest configuration of all."""
        return min(trial.median_seconds or math.inf for trial in self.trials if trial.status == "timed")


def truth_of(recorded: Recorded) -> Truth:
    """The points of recorded trials: what was only compiled is left out, what does not fit is counted."""
    measured = tuple(trial for trial in recorded.trials if trial.status in ("timed", "wrong", "failed"))
    infeasible = sum(trial.status == "infeasible" for trial in recorded.trials)
    return Truth(recorded.name, tuple(points_of(measured)), measured, infeasible)


def evaluations(search: Search, trials: Sequence[Trial], budget: int) -> list[Outcome]:
    """What a search measures of recorded trials, in its order, until it has had ``budget`` evaluations or has enough."""
    runner = Replay(trials)
    ended: list[Outcome] = []
    while len(ended) < budget:
        index = search.next()
        if index is None:
            break
        runner.submit(index)
        for outcome in runner.results():
            search.told(outcome.index, outcome.told)
            ended.append(outcome)
    return ended


def fractions(ended: Sequence[Outcome], best: float, budget: int) -> list[float]:
    """After each evaluation the exhaustive best over the best found so far, 0 where nothing ran right yet."""
    found, curve = math.inf, []
    for outcome in ended:
        found = min(found, outcome.told or math.inf)
        curve.append(best / found)
    return curve + curve[-1:] * (budget - len(curve))


@dataclass(frozen=True)
class Replayed:
    """A search on one truth over many seeds: for each seed its fraction of the best after each evaluation."""

    truth: str
    search: str
    configurations: int
    infeasible: int
    curves: tuple[tuple[float, ...], ...]

    @property
    def fraction_of_best(self) -> tuple[float, ...]:
        """One number a seed, at the end of the budget."""
        return tuple(curve[-1] for curve in self.curves)

    def evaluations_to(self, fraction: float) -> float:
        """Evaluations that the mean over seeds needs to reach a fraction; infinite where it does not."""
        means = [sum(column) / len(column) for column in zip(*self.curves, strict=True)]
        return next((done for done, mean in enumerate(means, 1) if mean >= fraction), math.inf)


def replay(truth: Truth, search: str, *, seeds: int, budget: int, first_seed: int = 0) -> Replayed:
    """A search by its name on a truth, from one seed to the next.

    Raises:
        UsageError: there is no such search.
    """
    curves = []
    for seed in range(first_seed, first_seed + seeds):
        ended = evaluations(search_named(search, truth.points, seed), truth.trials, budget)
        curves.append(tuple(fractions(ended, truth.best, budget)))
    return Replayed(truth.name, search, len(truth.trials) + truth.infeasible, truth.infeasible, tuple(curves))
