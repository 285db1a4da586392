"""Trials measured earlier, read from files: exhaustive trials, ``--json`` results, stores.

A file of exhaustive trials is ``{"kernel", "shape", "dtype", "device", "trials": [...]}`` with, for each configuration,
``{"config": {...}, "median_ms", "p20_ms", "p80_ms", "registers", "spills", "shared"}`` or ``{"config", "failed": why}``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeGuard

from tilewright.errors import UsageError
from tilewright.hardware.targets import all_targets
from tilewright.records import Case, Config, Trial, TrialStatus, from_dict
from tilewright.store.db import Store

# What a compiler and a chip's limits say before anything runs: such a configuration needs no GPU to be ruled out.
_KNOWN_BEFOREHAND = re.compile(r"out ?of ?resource|infeasible|shared memory|compil|ptxas", re.IGNORECASE)
_RESOURCES = {
    "shared": "shared",
    "registers": "registers",
    "n_regs": "registers",
    "spills": "spills",
    "n_spills": "spills",
    "stack": "stack",
    "occupancy": "occupancy",
    "waves": "waves",
}
_SECONDS = (("median_seconds", 1.0), ("median_ms", 1e-3), ("median_us", 1e-6), ("time_ms", 1e-3))


@dataclass(frozen=True)
class Recorded:
    """The Trials of one operator, case and chip: one for each configuration."""

    name: str
    trials: tuple[Trial, ...]


def read(path: Path) -> list[Recorded]:
    """What a file has of recorded trials, by operator, case and chip.

    Raises:
        UsageError: it cannot be read, or has no Trial with a time.
    """
    try:
        trials = _from_store(path) if _is_store(path) else _from_json(json.loads(path.read_text()), path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} holds no recorded trials: {error!r}", "give a file of trials, or a store") from None
    found = [Recorded(name, tuple(group.values())) for name, group in _grouped(trials, path).items()]
    timed = [recorded for recorded in found if any(trial.status == "timed" for trial in recorded.trials)]
    if not timed:
        raise UsageError(f"{path} has no trial with a time", "tilewright tune OP --json FILE on a GPU writes some")
    return timed


def _is_store(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(16).startswith(b"SQLite format 3")


def _from_store(path: Path) -> list[Trial]:
    with Store(path) as store:
        return list(store.records("Trial"))


def _from_json(data: Any, path: Path) -> list[Trial]:
    if isinstance(data, Mapping) and "trials" in data:
        return [trial_of(entry, data, path.stem) for entry in data["trials"]]
    records = data["records"] if isinstance(data, Mapping) else data
    return [from_dict(record) for record in records if record.get("type") == "Trial"]


def _grouped(trials: Sequence[Trial], path: Path) -> dict[str, dict[str, Trial]]:
    """One Trial a configuration; of several the last one with a time, else the last."""
    groups: dict[str, dict[str, Trial]] = {}
    for trial in trials:
        sizes = " ".join(f"{name}={value}" for name, value in trial.case.arguments.items())
        name = " ".join(word for word in (trial.operator or path.stem, sizes, trial.case.dtype, trial.target) if word)
        group = groups.setdefault(name, {})
        earlier = group.get(trial.config.key)
        if earlier is None or trial.status == "timed" or earlier.status != "timed":
            group[trial.config.key] = trial
    return groups


# --------------------------------------------------------------------------------- files of exhaustive trials


def trial_of(entry: Mapping[str, Any], heading: Mapping[str, Any], name: str) -> Trial:
    """One entry of such a file as a Trial."""
    shape = heading.get("shape")
    if isinstance(shape, Mapping):
        sizes = dict(shape)
    else:
        sizes = {} if shape is None else {"shape": "x".join(map(str, shape)) if isinstance(shape, list) else shape}
    operator, dtype = str(heading.get("kernel") or name), heading.get("dtype")
    features = {
        _RESOURCES[word]: float(value) for word, value in entry.items() if word in _RESOURCES and _number(value)
    }
    features |= {word: float(value) for word, value in (entry.get("features") or {}).items() if _number(value)}
    config = Config(dict(entry["config"]))
    if _number(config.values.get("num_warps")):
        features.setdefault("warps", float(config.values["num_warps"]))
    trial = Trial(
        operator,
        Case(operator, sizes, dtype),
        config,
        str(heading.get("device") or ""),
        "failed",
        shared=int(features["shared"]) if "shared" in features else None,
        predicted_seconds=_seconds(entry, (("predicted_seconds", 1.0), ("predicted_ms", 1e-3))),
        features=features,
        binary=str(entry.get("binary") or ""),
    )
    status, reason = _became(entry, trial)
    if status != "timed":
        return replace(trial, status=status, reason=reason)
    seconds = _seconds(entry, _SECONDS)
    low, high = _seconds(entry, (("p20_ms", 1e-3),)), _seconds(entry, (("p80_ms", 1e-3),))
    return replace(trial, status="timed", median_seconds=seconds, low_seconds=low, high_seconds=high)


def _became(entry: Mapping[str, Any], trial: Trial) -> tuple[TrialStatus, str]:
    """What became of an entry, and why: without a time it failed, or was known not to fit."""
    said = next((entry[word] for word in ("infeasible", "failed", "error", "wrong", "reason") if entry.get(word)), "")
    reason, status = str(said), entry.get("status")
    if entry.get("infeasible") or status == "infeasible":
        return "infeasible", reason
    if entry.get("wrong") or status == "wrong":
        return "wrong", reason
    if _seconds(entry, _SECONDS) is not None and not reason and status in (None, "timed", "ok"):
        return "timed", ""
    limit = next((chip.shared_per_block for chip in all_targets() if chip.name in trial.target.lower()), None)
    too_much = limit is not None and trial.shared is not None and trial.shared > limit
    return ("infeasible" if too_much or _KNOWN_BEFOREHAND.search(reason) else "failed"), reason


def _seconds(entry: Mapping[str, Any], words: Sequence[tuple[str, float]]) -> float | None:
    for word, unit in words:
        value = entry.get(word)
        if _number(value) and value > 0:
            return value * unit
    return None


def _number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and math.isfinite(value)
