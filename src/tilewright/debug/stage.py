"""The debug stage: cases planned, run one by one in a child process, failures made small."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

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


@dataclass(frozen=True)
class DebugOptions:
    """How much to look at, and how.

    ``cases`` are arguments of wanted cases (None: planned from the kernel); ``budget_seconds`` ends the
    planned ones early, which the report says; ``case_seconds`` and ``memory_bytes`` bound one case.
    ``device`` runs the cases on this machine's GPU instead of the interpreter.
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
    planned = list(options.exact) if options.exact is not None else session.plan(address, options)
    executor = (gpu_name() or "") if options.device else "the stock interpreter (TRITON_INTERPRET=1)"
    yield StageStarted("debug", operator, len(planned), executor)
    results: list[CaseResult] = []
    notes: list[str] = []
    started = time.monotonic()
    for done, case in enumerate(planned):
        if options.budget_seconds is not None and time.monotonic() - started > options.budget_seconds:
            notes.append(
                f"{part(len(planned) - done, len(planned), 'case')} not run: the budget of {options.budget_seconds:.0f} s was spent"
            )
            yield Note(notes[-1])
            break
        yield Progress("debug", done, case.label)
        results.append(session.run(address, case, options))
        yield CaseDone(results[-1])
        if options.pdb and results[-1].findings:
            break
    smallest: dict[str, Case] = {}
    if not options.pdb:
        for finding in _first_of_each(results):
            yield Progress("debug", len(results), f"making {finding.kind} small")
            smallest[finding_name(finding)] = session.shrink(address, finding, options)
    return DebugReport(
        operator, "device" if options.device else "interpreter", tuple(results), not notes, tuple(notes), smallest
    )


def smallest_by_finding(report: DebugReport) -> dict[Finding, Case]:
    """The smallest failing case of each finding of a report."""
    return {f: report.smallest[finding_name(f)] for f in report.findings if finding_name(f) in report.smallest}


def _first_of_each(results: Sequence[CaseResult]) -> list[Finding]:
    first: dict[Any, Finding] = {}
    for result in results:
        for finding in result.findings:
            first.setdefault(fault_key(finding), finding)
    return list(first.values())


class Session:
    """The debug child, replaced when a case kills it. It serves operators one after another."""

    def __init__(self, options: DebugOptions) -> None:
        self._device, self._stdout_to_stderr = options.device, options.stdout_to_stderr
        self._worker: Worker | None = None

    def plan(self, address: Address, options: DebugOptions) -> list[Case]:
        wanted = None if options.cases is None else [dict(case) for case in options.cases]
        return list(self._ask(_SESSION + "plan_cases", address, options, wanted=wanted, seed=options.seed))

    def run(self, address: Address, case: Case, options: DebugOptions) -> CaseResult:
        module = "tilewright.debug.device:" if self._device else _SESSION
        try:
            result: CaseResult = self._ask(module + "run_case", address, options, case=case, pdb=options.pdb)
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
        if self._device or (finding.kind == "launch-error" and finding.line is None):
            return finding.case  # each try may kill a process, or is not to be repeated on the interpreter
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
            self._worker = Worker(env=env, interactive=True, stdout_to_stderr=self._stdout_to_stderr)
        limits = Limits(options.case_seconds, options.memory_bytes)
        try:
            self._worker.submit(task, {"address": address, "target": options.target, **arguments}, limits)
            return self._worker.result()
        except ChildFailed:
            self._worker.kill()
            self._worker = None
            raise
