"""Going on with a plan that was interrupted: what it measured counts where all that it was measured by is as it was."""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace
from typing import Any

from tilewright.bench.worker import Job
from tilewright.records import Environment, Measurement
from tilewright.runtime.source import source_hash
from tilewright.spec.operator import Operator
from tilewright.spec.source import source_of
from tilewright.store.rows import RunSummary

_INTERRUPTED = 130
_WHERE = ("address",)
"""What of a job says nothing of what is measured."""


def source(operator: Operator) -> str:
    """A hash of all code that is timed: the operator's own, whatever files it is in, and that of its baselines."""
    return source_of(operator) + source_hash(*operator.baselines.values())


def fingerprint(job: Job, source: str) -> str:
    """Of all that a measurement follows from but the machine: the job, and the code as :func:`source` has it."""
    words = [f"{field.name}={getattr(job, field.name)!r}" for field in fields(job) if field.name not in _WHERE]
    return hashlib.sha256("\n".join([*words, source]).encode()).hexdigest()[:16]


def interrupted(store: Any, operator: str, environment: Environment) -> dict[str, Measurement]:
    """What the latest run that measured this operator and did not end had measured, by fingerprint; nothing where a run
    that did end came after it, or on another machine or other versions."""
    for run in store.runs():
        if operator not in run.operators or not run.command.startswith("bench "):
            continue
        (then,) = store.records("Environment", run=run.id)
        if not _was_interrupted(run) or _lasting(then) != _lasting(environment):
            return {}
        found = {m.fingerprint: m for m in store.records("Measurement", operator, run.id) if m.fingerprint}
        if found:
            return found
    return {}


def _was_interrupted(run: RunSummary) -> bool:
    """Stopped by hand, or killed."""
    return run.exit_code in (None, _INTERRUPTED)


def _lasting(environment: Environment) -> Environment:
    """Without what changes from minute to minute."""
    return replace(environment, clock_mhz=None, when="")
