"""The debug stage: cases planned, run one by one in a child process, failures made small."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tilewright.debug.configs import Plan
from tilewright.debug.patience import STILL_RUNNING
from tilewright.errors import ChildFailed, NoGpu, TilewrightError
from tilewright.hardware.probe import gpu_name
from tilewright.process import Limits, Worker
from tilewright.records import (
    Case,
    CaseDone,
    CaseResult,
    Config,
    DebugReport,
    Event,
    Finding,
    Note,
    Progress,
    StageStarted,
    fault_key,
    finding_name,
)
from tilewright.spec.load import Address
from tilewright.wording import part

INTERPRETER_ENVIRONMENT = {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
_SESSION = "tilewright.debug.session:"
LEAST_PATIENCE = 20.0
"""Seconds: on a busy machine the first launch of a process alone may take several."""


@dataclass(frozen=True)
class DebugOptions:
    """How much to look at, and how.

    ``cases`` are arguments of wanted cases (None: planned from the kernel); ``budget_seconds`` ends the
    planned ones early, which the report says; ``case_seconds`` and ``memory_bytes`` bound one case.
    ``device`` runs the cases on this machine's GPU instead of the interpreter. ``on_terminal`` is called when
    a debugger takes the terminal: what else draws on it must stop.
    """

    target: str = "h100"
    cases: Sequence[Mapping[str, Any]] | None = None
    exact: Sequence[Case] | None = None
    seed: int = 0
    pdb: bool = False
    budget_seconds: float | None = 60.0
    case_seconds: float = 120.0
    shrink_seconds: float = 10.0
    memory_bytes: int = 8 * 2**30
    stdout_to_stderr: bool = False
    device: bool = False
    on_terminal: Callable[[], None] = field(default=lambda: None)


def run(
    operator: str, address: Address, options: DebugOptions, session: Session | None = None
) -> Generator[Event, None, DebugReport]:
    """Debugs an operator under the stock interpreter, or on the GPU; yields events, returns the report.

    A ``session`` given keeps its child process for the next operator; otherwise one is made and ended here.

    Raises:
        NoGpu: ``device`` on a machine that has none.
        TilewrightError: the operator cannot be loaded, or its reference raises.
    """
    if options.device and gpu_name() is None:
        raise NoGpu("no GPU here", "without --device the cases run in the interpreter")
    own = session or Session(options)
    try:
        return (yield from _run(operator, address, own, options))
    finally:
        if session is None:
            own.close()


def _run(
    operator: str, address: Address, session: Session, options: DebugOptions
) -> Generator[Event, None, DebugReport]:
    plan = Plan(tuple(options.exact)) if options.exact is not None else session.plan(address, options)
    planned = plan.cases
    executor = (gpu_name() or "") if options.device else "the stock interpreter (TRITON_INTERPRET=1)"
    yield StageStarted("debug", operator, len(planned), executor)
    notes = _unnamed_sizes(planned, options)
    yield from map(Note, notes)
    results: list[CaseResult] = []
    started = time.monotonic()
    for done, case in enumerate(planned):
        if options.budget_seconds is not None and time.monotonic() - started > options.budget_seconds:
            break
        yield Progress("debug", done, case.label)
        results.append(session.run(address, case, options))
        yield CaseDone(results[-1])
        if options.pdb and results[-1].findings:
            break
    complete = len(results) == len(planned) or options.pdb
    for note in [*_cut_short(len(planned), results, options), *_about(plan, results, options)]:
        notes.append(note)
        yield Note(note)
    smallest: dict[str, Case] = {}
    if not options.pdb:
        for finding in _first_of_each(results):
            yield Progress("debug", len(results), f"making {finding.kind} small")
            smallest[finding_name(finding)] = session.shrink(address, finding, options)
    return DebugReport(
        operator, "device" if options.device else "interpreter", tuple(results), complete, tuple(notes), smallest
    )


def _unnamed_sizes(planned: Sequence[Case], options: DebugOptions) -> list[str]:
    """Of cases that a user asked for: what was chosen where nothing was said."""
    notes = []
    for wanted, case in zip(options.cases or (), planned, strict=False):
        chosen = {name: value for name, value in case.arguments.items() if name not in wanted}
        if chosen:
            said = ", ".join(f"{name}={value}" for name, value in chosen.items())
            notes.append(f"case {case.label}: {said} where --case says nothing")
    return notes


def _cut_short(planned: int, results: Sequence[CaseResult], options: DebugOptions) -> list[str]:
    missing = planned - len(results)
    if not missing or options.pdb:
        return []
    return [f"{part(missing, planned, 'case')} not run: the budget of {options.budget_seconds:.0f} s was spent"]


def _about(plan: Plan, results: Sequence[CaseResult], options: DebugOptions) -> list[str]:
    notes = []
    if plan.total > 1:
        ran = {result.case for result in results}
        checked = plan.default + sum(case in ran for case in plan.configured)
        notes.append(f"{part(checked, plan.total, 'configuration')} checked")
    failed = any(finding.kind == "launch-error" for result in results for finding in result.findings)
    if results and not options.device and not failed and not any(result.launches for result in results):
        notes.append("no case launched a kernel: there is nothing of Triton's to check")
    return notes


def smallest_by_finding(report: DebugReport) -> dict[Finding, Case]:
    """The smallest failing case of each finding of a report."""
    return {f: report.smallest[finding_name(f)] for f in report.findings if finding_name(f) in report.smallest}


def _first_of_each(results: Sequence[CaseResult]) -> list[Finding]:
    first: dict[Any, Finding] = {}
    for result in results:
        for finding in result.findings:
            first.setdefault(fault_key(finding), finding)
    return list(first.values())


def _patience(options: DebugOptions) -> float:
    """Seconds after which a case is stopped at its line: before the process is, whose end would tell nothing."""
    return min(0.8 * options.case_seconds, max(options.budget_seconds or options.case_seconds, LEAST_PATIENCE))


class Session:
    """The debug child, replaced when a case kills it. It serves operators one after another."""

    def __init__(self, options: DebugOptions) -> None:
        self._device, self._stdout_to_stderr = options.device, options.stdout_to_stderr
        self._worker: Worker | None = None

    def plan(self, address: Address, options: DebugOptions) -> Plan:
        wanted = None if options.cases is None else [dict(case) for case in options.cases]
        # On a GPU a configuration need not fit: that is for the tuner to say.
        given = {"wanted": wanted, "seed": options.seed, "with_configs": not options.device}
        plan: Plan = self._ask(_SESSION + "plan_cases", address, options, **given)
        return plan

    def run(self, address: Address, case: Case, options: DebugOptions) -> CaseResult:
        module = "tilewright.debug.device:" if self._device else _SESSION
        try:
            given = {"case": case, "pdb": options.pdb, "seconds": _patience(options)}
            result: CaseResult = self._ask(module + "run_case", address, options, **given)
        except ChildFailed as failure:
            words = f"{failure.what} while case {case.label} ran"
            return CaseResult(case, (Finding("launch-error", words, case=case),))
        return result

    def check_configs(
        self, address: Address, case: Case, configs: Sequence[Config], options: DebugOptions
    ) -> dict[str, tuple[Finding, ...]]:
        """Runs one case in each configuration; the findings of those that have any, by configuration."""
        wrong = {}
        for config in configs:
            result: CaseResult = self._ask(_SESSION + "check_config", address, options, case=case, config=config)
            if result.findings:
                wrong[str(config)] = result.findings
        return wrong

    def shrink(self, address: Address, finding: Finding, options: DebugOptions) -> Case:
        assert finding.case is not None
        is_endless = finding.message.startswith(STILL_RUNNING)
        if self._device or is_endless or (finding.kind == "launch-error" and finding.line is None):
            return finding.case  # each try may kill a process or take long, or is not to be repeated here
        plain = replace(finding, case=None)
        arguments = {"case": finding.case, "finding": plain, "seconds": options.shrink_seconds}
        try:
            smallest: Case = self._ask(_SESSION + "shrink_case", address, options, **arguments)
        except TilewrightError:
            return finding.case
        return smallest

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _ask(self, task: str, address: Address, options: DebugOptions, **arguments: Any) -> Any:
        if self._worker is None:
            env = {"TRITON_INTERPRET": None} if self._device else INTERPRETER_ENVIRONMENT
            self._worker = Worker(
                env=env, interactive=True, stdout_to_stderr=self._stdout_to_stderr, on_pause=options.on_terminal
            )
        limits = Limits(options.case_seconds, options.memory_bytes)
        try:
            self._worker.submit(task, {"address": address, "target": options.target, **arguments}, limits)
            return self._worker.result()
        except ChildFailed:
            self._worker.kill()
            self._worker = None
            raise
