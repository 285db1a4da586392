"""What earlier runs found out and still holds: Trials of the same source, case, board and versions."""

from __future__ import annotations

from typing import Any

from tilewright.records import Trial

_SETTLED = ("timed", "wrong", "failed", "infeasible")


def known_trials(store: Any, blank: Trial) -> dict[str, Trial]:
    """Trials in a store that need not be made again, by the key of their configuration; of several the last.

    Args:
        blank: a Trial with all that one must share to hold: operator, case, target, source, board, versions, regime.
    """
    found = {}
    for trial in store.records("Trial", blank.operator, case_id=blank.case.id):
        if trial.status in _SETTLED and _holds_for(trial) == _holds_for(blank):
            found[trial.config.key] = trial
    return found


def _holds_for(trial: Trial) -> tuple[Any, ...]:
    return (trial.target, trial.source, trial.device, trial.triton, trial.ptxas, trial.regime)
