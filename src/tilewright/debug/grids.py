"""Cases of which only the grids matter: too many programs along y or z, whatever they would compute."""

from __future__ import annotations

import time
from dataclasses import replace

from tilewright.debug import configs, refusal
from tilewright.debug.check import reported
from tilewright.debug.executor.executor import Executor
from tilewright.hardware.target import Target
from tilewright.launch import host
from tilewright.launch.capture import capture
from tilewright.launch.host import inputs_of
from tilewright.records import Case, CaseResult, Severity
from tilewright.spec.operator import Operator

PLAUSIBLE = 1 << 17
"""A size up to it is a batch that someone may have: a program for each is a fault of the grid."""


def check_grids(operator: Operator, case: Case, target: Target) -> CaseResult:
    """Says of one case whether its grids can be launched; nothing is executed."""
    plain, named = configs.split(operator, case)
    executor = Executor(target, grids_only=True)
    started = time.perf_counter()
    inputs = inputs_of(operator, plain, drawn=False)
    error: Exception | None = None
    try:
        with capture(executor, target, choose=configs.for_tuner(named), executes=False):
            operator.launch(inputs, configs.for_launcher(operator, named))
    except Exception as raised:
        error = raised
    # Sizes that inputs are never made for, or that no one will ever have, are no more than worth knowing.
    is_plausible = operator.signature is not None and max(_sizes(case)) <= PLAUSIBLE
    severity: Severity = "error" if is_plausible else "warning" if max(_sizes(case)) <= PLAUSIBLE else "note"
    grids = [
        replace(f, severity=severity, remedy=_or_declared(operator, case, f.remedy))
        for f in executor.findings()
        if f.kind == "grid-limit"
    ]
    found = reported(operator, case, grids, named)
    seconds = time.perf_counter() - started
    refused = None if error is None else refusal.words(operator, error) or host.told(error, "the launcher")
    return CaseResult(case, found, launches=len(executor.launches), seconds=seconds, refused=refused)


def _sizes(case: Case) -> list[int]:
    return [value for value in case.arguments.values() if isinstance(value, int)] or [0]


def _or_declared(operator: Operator, case: Case, remedy: str | None) -> str:
    """The remedy, and how to say that a dim never gets so large."""
    dim, size = max(((n, v) for n, v in case.arguments.items() if isinstance(v, int)), key=lambda pair: pair[1])
    declared = f'; where {dim} never gets so large, declare where="{dim} < {size}"' if operator.signature else ""
    return f"{remedy}{declared}"
