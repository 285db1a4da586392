"""When a run has seen enough, and what is said of the Choice then."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tilewright.records import Trial, TrialStatus
from tilewright.tune.points import points_of
from tilewright.tune.regret import CONFIDENCE, regret
from tilewright.tune.search.distinct import representatives

SMALL = 150
"""Spaces of at most so many points that fit are exhausted."""
LEAST = 30
"""Evaluations before anything may be called enough."""
ENOUGH = 0.01
"""A stated regret that ends a run."""
PATIENCE, WORTH = 60, 0.005
"""Evaluations in a row without a gain worth naming, after which a run ends whatever the surrogate hopes for."""
JUDGED_EVERY = 5
"""Evaluations between two looks at the regret: each fits a surrogate."""

_SETTLED: tuple[TrialStatus, ...] = ("timed", "wrong", "failed")


class StopRule:
    """Asked between measurements with all Trials of a run: why to stop now, or None."""

    def __init__(self) -> None:
        self._judged = 0
        self._best = float("inf")
        self._improved = 0

    def __call__(self, trials: Sequence[Trial]) -> str | None:
        alive = [trial for trial in trials if trial.status in ("compiled", *_SETTLED)]
        settled = [trial for trial in alive if trial.status in _SETTLED]
        times = [trial.median_seconds for trial in settled if trial.median_seconds is not None]
        if times and min(times) < self._best * (1 - WORTH):
            self._best, self._improved = min(times), len(settled)
        if len(alive) <= SMALL or len(settled) < max(LEAST, self._judged + JUDGED_EVERY):
            return None
        self._judged = len(settled)
        if len(settled) >= self._improved + PATIENCE:
            return f"none of the last {len(settled) - self._improved} was faster by {100 * WORTH:g} %"
        stated = estimated_regret(alive)
        if stated <= ENOUGH:
            return f"the best is within {100 * ENOUGH:g} % at {100 * CONFIDENCE:g} % confidence"
        return None


def estimated_regret(trials: Sequence[Trial]) -> float:
    """By how large a share something not measured may be faster, at 90 % confidence; of Trials that fit."""
    alive = [trial for trial in trials if trial.status in ("compiled", *_SETTLED)]
    told = {i: _seconds(trial) for i, trial in enumerate(alive) if trial.status in _SETTLED}
    return regret(points_of(alive), told)


def certificate(trials: Sequence[Trial], why: str) -> dict[str, Any]:
    """What was looked at, what became of it, and how much may be left to gain.

    ``regret`` is the share by which the best of the space may be faster than the best measured, at ``confidence``.
    """
    statuses: Counter[str] = Counter(trial.status for trial in trials)
    alive = [trial for trial in trials if trial.status in ("compiled", *_SETTLED)]
    reasons = Counter(_kind(trial) for trial in trials if trial.status in ("infeasible", "failed", "wrong"))
    return {
        "space": len(trials),
        "infeasible": statuses["infeasible"],
        "compiled": len(alive),
        "distinct": len(set(representatives(points_of(alive)))),
        "measured": sum(statuses[status] for status in _SETTLED),
        "timed": statuses["timed"],
        "wrong": statuses["wrong"],
        "failed": statuses["failed"],
        "why_not": dict(reasons.most_common()),
        "regret": estimated_regret(trials),
        "confidence": CONFIDENCE,
        "stopped": why,
    }


def _kind(trial: Trial) -> str:
    """Why a configuration is none, without the numbers that differ from one to the next."""
    words = re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "N", trial.reason.splitlines()[0] if trial.reason else "")
    return f"{trial.status}: {words}".rstrip(": ")


def _seconds(trial: Trial) -> float | None:
    return trial.median_seconds if trial.status == "timed" else None
