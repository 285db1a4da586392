"""What earlier runs found out and still holds: Trials of the same source, case, board and versions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.records import Config, Trial
from tilewright.tune.runner import ABANDONED

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


def usable(known: Mapping[str, Trial], configs: Sequence[Config]) -> dict[str, Trial]:
    """Of those Trials the ones that a run over ``configs`` need not make again.

    What was abandoned beside a configuration that is not among them may be the best of these, and is measured now.
    """
    here = {config.key: known[config.key] for config in configs if config.key in known}
    times = [t.median_seconds for t in here.values() if t.median_seconds is not None and not t.abandoned]
    best = min(times, default=math.inf)
    return {key: t for key, t in here.items() if not t.abandoned or (t.median_seconds or 0.0) > ABANDONED * best}


def _holds_for(trial: Trial) -> tuple[Any, ...]:
    return (trial.target, trial.source, trial.device, trial.triton, trial.ptxas, trial.regime)
