"""What a debug child does: it imports the operator and answers for its cases."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from tilewright.debug import check, configs, refusal
from tilewright.debug.causes.diagnose import explained
from tilewright.debug.check import check_case
from tilewright.debug.debugger import Debugger
from tilewright.debug.grids import check_grids
from tilewright.debug.plan import Plan
from tilewright.debug.planning import naming
from tilewright.debug.planning import plan as planning
from tilewright.debug.planning.plan import Effort
from tilewright.debug.planning.probing import probe
from tilewright.debug.repro import reproduce
from tilewright.debug.repro.reproduction import Reproduction
from tilewright.debug.shrink import Shrinker
from tilewright.debug.tuner import keys
from tilewright.errors import LauncherFailed, TilewrightError
from tilewright.hardware.targets import find
from tilewright.launch.host import inputs_of
from tilewright.process import Emitter
from tilewright.records import Case, CaseResult, Config, Finding
from tilewright.spec.address import Address
from tilewright.spec.load import resolve
from tilewright.spec.operator import Operator


def _operator(address: Address | Operator) -> Operator:
    """The operator; its module is imported once. In the process that made it, it is its own address."""
    return address if isinstance(address, Operator) else resolve(address)


def plan_cases(
    emit: Emitter,
    *,
    address: Address | Operator,
    target: str,
    wanted: list[Mapping[str, Any]] | None,
    seed: int,
    effort: Effort = "quick",
    with_configs: bool = True,
    extremes: bool = True,
) -> Plan:
    """The cases of an operator: those a user wants, or those its kernels and its configurations suggest."""
    _prepare(emit)
    operator, chip = _operator(address), find(target)
    if wanted is not None:
        explicit = tuple(naming.explicit(operator, arguments, seed) for arguments in wanted)
        for case in explicit:
            configs.check_names(operator, case, chip)
        return Plan(explicit)
    first = naming.first_case(operator, seed)
    inputs_of(operator, first, drawn=False)  # what the declaration gets wrong is said before anything runs
    try:
        probed = probe(operator, naming.modest_case(operator, first), chip)
    except TilewrightError as error:
        if not isinstance(error, LauncherFailed):
            raise
        return Plan((first,))  # a finding of it, with its line
    except Exception:
        return Plan((first,))
    planned = planning.plan(probed, effort, seed, extremes=extremes)
    found = Plan(())
    if with_configs and probed.launches:
        extreme = functools.partial(planning.extremes, probed, planned.traits) if extremes else lambda dim, case: ()
        found = configs.plan(operator, first, chip, seed, planned.traits, extreme)
    return replace(
        found,
        cases=(*planned.cases, *found.configured, *planned.grids),
        grids=tuple(planned.grids),
        notes=tuple(planned.notes),
        made_up=True,
        first=first if operator.inputs is not None else planned.cases[0],
        dims=operator.dims,
        guessed=operator.inputs is not None,
        is_narrow=operator.signature is not None and not probed.is_wide,
    )


def run_case(
    emit: Emitter,
    *,
    address: Address | Operator,
    case: Case,
    target: str,
    checked: bool,
    pdb: bool,
    seconds: float | None,
    made_up: bool = False,
    grids_only: bool = False,
) -> CaseResult:
    """Checks one case, which may take ``seconds``; with ``pdb`` the terminal goes to the debugger where it fails.

    A case that is ``made_up`` may be refused by what makes the inputs, and by the reference.
    """
    debugger = _prepare(emit)
    operator, chip = _operator(address), find(target)

    def checked_once() -> CaseResult:
        if grids_only:
            return check_grids(operator, case, chip)
        breaks = debugger if pdb else None
        return check_case(operator, case, chip, checked=checked, debugger=breaks, seconds=None if pdb else seconds)

    return refusal.checked(case, checked_once) if made_up else checked_once()


def step_to(emit: Emitter, *, address: Address | Operator, case: Case, finding: Finding, target: str) -> bool:
    """Gives the terminal to the debugger at a finding of a case; whether its line was reached."""
    debugger = _prepare(emit)
    return check.step_to(_operator(address), case, finding, find(target), debugger)


def check_config(
    emit: Emitter, *, address: Address | Operator, case: Case, config: Config, target: str, checked: bool
) -> CaseResult:
    """Checks one case in one configuration, alone on a poisoned output."""
    _prepare(emit)
    return check_case(_operator(address), case, find(target), config=config, checked=checked)


def check_keys(
    emit: Emitter, *, address: Address | Operator, planned: Sequence[Case], target: str, seconds: float
) -> tuple[Finding, ...]:
    """Findings of the keys by which the operator's tuned kernels keep their choices."""
    _prepare(emit)
    operator = _operator(address)
    found = keys.findings(operator, planned, find(target), seconds)
    return tuple(f for f in found if not any(suppression.covers(f) for suppression in operator.suppress))


def shrink_cases(
    emit: Emitter,
    *,
    address: Address | Operator,
    findings: Sequence[Finding],
    target: str,
    checked: bool,
    seconds: float,
) -> list[Case]:
    """For each finding the smallest case that fails like it; each may take ``seconds``."""
    _prepare(emit)
    operator, chip = _operator(address), find(target)
    executed = Shrinker(operator, lambda case: check_case(operator, case, chip, checked=checked, seconds=seconds))
    launched = Shrinker(operator, lambda case: check_grids(operator, case, chip))
    by_kind = {"grid-limit": launched}
    return [by_kind.get(finding.kind, executed).shrink(finding, seconds) for finding in findings]


def explain_findings(
    emit: Emitter,
    *,
    address: Address | Operator,
    findings: Sequence[Finding],
    cases: Sequence[Case],
    target: str,
    seconds: float,
) -> tuple[Finding, ...]:
    """Findings, each with its smallest case, with the causes that were found within so many seconds."""
    _prepare(emit)
    return explained(_operator(address), findings, cases, find(target), seconds)


def write_repro(
    emit: Emitter, *, address: Address | Operator, finding: Finding, case: Case, path: Path, target: str
) -> Reproduction:
    """Writes a finding as a script, in its smallest case."""
    _prepare(emit)
    return reproduce.write(_operator(address), finding, case, path, find(target))


def _prepare(emit: Emitter) -> Debugger:
    torch.set_num_threads(1)  # tiles are small; threads would only wait for each other
    debugger = Debugger(emit.pause, emit.resume)
    sys.breakpointhook = debugger.breakpoint
    return debugger
