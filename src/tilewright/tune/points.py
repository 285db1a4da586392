"""What a search sees of a configuration: its values, and what is known of it without a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.records import Config, Resources, Trial


@dataclass(frozen=True)
class Point:
    """One configuration that may be measured.

    ``features`` are numbers that need no GPU, by name; any may be missing, and a search takes whatever there is.
    ``predicted_seconds`` is the plain model's, None where there is none. Points of equal ``binary`` launch the same
    and are one measurement; where it is "" the point is its own.
    """

    config: Config
    resources: tuple[Resources, ...] = ()
    features: Mapping[str, float] = field(default_factory=dict)
    predicted_seconds: float | None = None
    binary: str = ""


def points_of(trials: Sequence[Trial]) -> list[Point]:
    """A Point for each Trial, in the same order; for Trials that were compiled."""
    return [
        Point(trial.config, trial.resources, {**_known(trial), **trial.features}, trial.predicted_seconds, trial.binary)
        for trial in trials
    ]


def _known(trial: Trial) -> dict[str, float]:
    """The numbers that the compiler and the chip's limits give; of several kernels the most any needs."""
    columns: dict[str, list[float | None]] = {
        "shared": [trial.shared, *(needs.shared for needs in trial.resources)],
        "registers": [needs.registers for needs in trial.resources],
        "stack": [needs.stack for needs in trial.resources],
        "spills": [_sum(needs.spill_stores, needs.spill_loads) for needs in trial.resources],
        "warps": [needs.warps for needs in trial.resources],
        "occupancy": [trial.occupancy],
        "waves": [trial.waves],
    }
    most = {name: max((v for v in values if v is not None), default=None) for name, values in columns.items()}
    return {name: float(value) for name, value in most.items() if value is not None}


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None and second is None else (first or 0) + (second or 0)
