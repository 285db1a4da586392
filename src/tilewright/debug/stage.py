"""The debug stage: cases planned, run one by one in a child process, failures made small.

What imports torch, Triton and the user's file is the child alone: this process has nothing to wait for.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tilewright.debug import doubt, settling
from tilewright.debug.agreement import ONLY_INTERPRETER, together
from tilewright.debug.patience import STILL_RUNNING
from tilewright.debug.plan import Plan
from tilewright.debug.repro.reproduction import SCRIPT_SECONDS, Reproduction, smallest_case
from tilewright.errors import ChildFailed, NoGpu, TilewrightError, UsageError
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
    worst,
)
from tilewright.spec.address import Address, KernelCall, Named
from tilewright.wording import part

if TYPE_CHECKING:
    from tilewright.spec.operator import Operator

INTERPRETER_ENVIRONMENT = {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
COMPILING_ENVIRONMENT = {"TRITON_INTERPRET": None, "OMP_NUM_THREADS": "1"}
_LOAD = "tilewright.spec.load:named"
_SESSION = "tilewright.debug.session:"
_DEVICE = "tilewright.debug.device:"
_EXECUTORS = ("checked", "interpreter", "both", "device")
_WORDS = {
    "checked": "the checked executor, all programs at once",
    "interpreter": "the stock interpreter (TRITON_INTERPRET=1)",
}
LEAST_PATIENCE = 20.0
"""Seconds: on a busy machine the first launch of a process alone may take several."""


@dataclass(frozen=True)
class DebugOptions:
    """How much to look at, and how.

    ``cases`` are arguments of wanted cases (None: planned from the kernel); ``budget_seconds`` ends the
    planned ones early, which the report says; ``case_seconds`` and ``memory_bytes`` bound one case,
    ``shrink_seconds`` what making each finding small takes, ``cause_seconds`` the search for causes.
    ``effort`` is how many cases are planned: ``quick`` ones take seconds, ``thorough`` ones minutes.
    ``executor`` is ``checked`` (all programs at once, every check), ``interpreter`` (Triton's own, which
    ``pdb`` needs), ``both`` (each case in both, which must agree) or ``device`` (this machine's GPU).
    ``on_terminal`` is called when a debugger takes the terminal: what else draws on it must stop.
    """

    target: str = "h100"
    cases: Sequence[Mapping[str, Any]] | None = None
    exact: Sequence[Case] | None = None
    seed: int = 0
    pdb: bool = False
    budget_seconds: float | None = 60.0
    case_seconds: float = 120.0
    shrink_seconds: float = 4.0
    cause_seconds: float = 20.0
    memory_bytes: int = 8 * 2**30
    stdout_to_stderr: bool = False
    executor: Literal["checked", "interpreter", "both", "device"] = "checked"
    effort: Literal["quick", "thorough"] = "quick"
    on_terminal: Callable[[], None] = field(default=lambda: None)

    def __post_init__(self) -> None:
        if self.executor not in _EXECUTORS:
            raise UsageError(f"no executor {self.executor!r}", f"one of {', '.join(_EXECUTORS)}")
        if self.effort not in ("quick", "thorough"):
            raise UsageError(f"no effort {self.effort!r}", "quick or thorough")

    @property
    def device(self) -> bool:
        return self.executor == "device"

    @property
    def first_executor(self) -> str:
        """The one that plans and runs cases; with ``both`` the other one repeats them."""
        if self.pdb:
            return "interpreter" if self.executor == "interpreter" else "checked"
        return "checked" if self.executor == "both" else self.executor


def run(
    operator: str, address: Address | Operator, options: DebugOptions, session: Session | None = None
) -> Generator[Event, None, DebugReport]:
    """Debugs an operator; yields events, returns the report.

    A ``session`` given keeps its child process for the next operator; otherwise one is made and ended here.

    Raises:
        NoGpu: ``device`` on a machine that has none.
        TilewrightError: the operator cannot be loaded, or its reference raises.
    """
    if options.device and gpu_name() is None:
        raise NoGpu("no GPU here", "without --device the cases run on the CPU")
    own = session or Session(options)
    try:
        return (yield from _run(operator, address, own, options))
    finally:
        if session is None:
            own.close()


def _run(
    operator: str, address: Address | Operator, session: Session, options: DebugOptions
) -> Generator[Event, None, DebugReport]:
    plan = Plan(tuple(options.exact)) if options.exact is not None else session.plan(address, options)
    planned = plan.cases
    executor = options.first_executor
    yield StageStarted("debug", operator, len(planned), _WORDS.get(executor) or gpu_name() or "")
    notes = _unnamed_sizes(planned, options)
    yield from map(Note, notes)
    results: list[CaseResult] = []
    held: list[CaseResult] = []  # refused: a finding only if no other case of their kind is taken
    steps: list[str] = []
    started = time.monotonic()
    for done, case in enumerate(planned):
        if options.budget_seconds is not None and time.monotonic() - started > options.budget_seconds:
            break
        yield Progress("debug", done, case.label)
        result = session.run(address, case, options, made_up=plan.made_up and done > 0, grids_only=case in plan.grids)
        if plan.is_narrow and result.addresses_only:
            result = settling.of_sizes(result)
        result = _in_its_configuration(plan, result, address, session, options)
        if done == 0:
            result = session.with_keys(address, result, planned, options)
        results.append(result)
        if plan.made_up and result.refused is not None:
            held.append(result)
        else:
            yield CaseDone(result)
        if options.pdb and worst(result.findings) is not None:
            steps = session.step_to(address, result, options)
            break
    missing = len(planned) - len(results)
    results, left_out = settling.sort_out(plan, results)
    yield from (CaseDone(result) for result in held if result in results)
    results, tried = doubt.settle(plan, results, lambda case: session.run(address, case, options, made_up=True))
    results += tried
    yield from map(CaseDone, tried)
    unsupported = any(finding.kind == "unsupported" for result in results for finding in result.findings)
    complete = (not missing or options.pdb) and not unsupported
    said = [*_cut_short(len(planned), missing, options), *plan.notes, *_left_out(left_out)]
    for note in [*said, *_about(plan, results, options), *steps]:
        notes.append(note)
        yield Note(note)
    smallest: dict[str, Case] = {}
    first = [] if options.pdb else _first_of_each(results)
    if first:
        yield Progress("debug", len(results), f"making {', '.join(dict.fromkeys(f.kind for f in first))} small")
        smallest = dict(zip(map(finding_name, first), session.shrink(address, first, options), strict=True))
    if not options.pdb and options.cause_seconds > 0 and any(result.findings for result in results):
        yield Progress("debug", len(results), "looking for the cause")
        results = _with_causes(session, address, results, smallest, plan, options)
    return DebugReport(operator, options.executor, tuple(results), complete, tuple(notes), smallest)


def _unnamed_sizes(planned: Sequence[Case], options: DebugOptions) -> list[str]:
    """Of cases that a user asked for: what was chosen where nothing was said."""
    notes = []
    for wanted, case in zip(options.cases or (), planned, strict=False):
        chosen = {name: value for name, value in case.arguments.items() if name not in wanted}
        if chosen:
            said = ", ".join(f"{name}={value}" for name, value in chosen.items())
            notes.append(f"case {case.label}: {said} where --case says nothing")
    return notes


def _in_its_configuration(
    plan: Plan, result: CaseResult, address: Address | Operator, session: Session, options: DebugOptions
) -> CaseResult:
    """The result of a case that names a configuration; where it is wrong, with what the default one makes of it."""
    if result.case not in plan.configured or not plan.default or not result.findings:
        return result
    names = {*plan.configured[0].arguments} - {*plan.cases[0].arguments}
    plain = replace(result.case, arguments={n: v for n, v in result.case.arguments.items() if n not in names})
    default = session.run(address, plain, options, made_up=True)
    finding = settling.dependent(result, default)
    return result if finding is None else replace(result, findings=(*result.findings, finding))


def _left_out(refused: Mapping[str, Sequence[Case]]) -> list[str]:
    """One word for each reason why planned cases were none, reasons that differ in numbers alone taken together."""
    kinds: dict[str, tuple[str, list[Case]]] = {}
    for words, every in refused.items():
        cases = [case for case in every if 0 not in case.arguments.values()]
        if cases:  # that nothing is nothing to a kernel surprises nobody
            words = words.replace(f" ({every[0].label})", "")
            kinds.setdefault(re.sub(r"\d+", "0", words), (words, []))[1].extend(cases)
    notes = []
    for words, cases in kinds.values():
        others = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
        notes.append(f"case {cases[0].label}{others} left out: {words}")
    return notes


def _cut_short(planned: int, missing: int, options: DebugOptions) -> list[str]:
    if not missing or options.pdb:
        return []
    return [f"{part(missing, planned, 'case')} not run: the budget of {options.budget_seconds:.0f} s was spent"]


def _about(plan: Plan, results: Sequence[CaseResult], options: DebugOptions) -> list[str]:
    notes = []
    huge = sum(result.addresses_only for result in results)
    if huge:
        said = "too large to compare values: addresses checked, in the programs at the edges of each grid"
        notes.append(f"{part(huge, len(results), 'case')} {said}")
    if plan.total > 1:
        ran = {result.case for result in results}
        names = {*plan.configured[0].arguments} - {*plan.cases[0].arguments} if plan.configured else set()
        chosen = {tuple((n, repr(case.arguments[n])) for n in sorted(names)) for case in plan.configured if case in ran}
        checked = plan.default + len(chosen)
        notes.append(f"{part(checked, plan.total, 'configuration')} checked")
    failed = any(finding.kind == "launch-error" for result in results for finding in result.findings)
    if results and not options.device and not failed and not any(result.launches for result in results):
        notes.append("no case launched a kernel: there is nothing of Triton's to check")
    return notes


def smallest_by_finding(report: DebugReport) -> dict[Finding, Case]:
    """The smallest failing case of each finding of a report."""
    return {f: report.smallest[finding_name(f)] for f in report.findings if finding_name(f) in report.smallest}


def _first_of_each(results: Sequence[CaseResult]) -> list[Finding]:
    """One of each fault, to be made small; notes are none."""
    first: dict[Any, Finding] = {}
    for result in results:
        for finding in result.findings:
            if finding.severity == "note" or result.addresses_only:
                continue  # what shows at such sizes alone has no smaller case worth the search
            first.setdefault(fault_key(finding), finding)
    return list(first.values())


def _with_causes(
    session: Session,
    address: Address | Operator,
    results: Sequence[CaseResult],
    smallest: Mapping[str, Case],
    plan: Plan,
    options: DebugOptions,
) -> list[CaseResult]:
    """Results whose findings say why, as far as edits to the kernel tell."""
    first: dict[Any, Finding] = {}
    for result in results:
        for finding in result.findings:
            if finding.severity != "note":
                first.setdefault(fault_key(finding), finding)
    findings = [replace(f, case=smallest.get(finding_name(f), f.case)) for f in first.values()]
    # Of what is looked at for its grid alone no program ran, and so many are no measure for an edit.
    cases = [r.case for r in results if not r.addresses_only and r.case not in plan.grids]
    why = {fault_key(f): f for f in session.explain(address, findings, cases, options)}

    def told(finding: Finding) -> Finding:
        known = why.get(fault_key(finding))
        if known is None:
            return finding
        if finding is first[fault_key(finding)]:  # its message may say more now
            return replace(known, case=finding.case)
        return replace(finding, cause=known.cause, remedy=known.remedy, remedies=known.remedies)

    return [replace(result, findings=tuple(map(told, result.findings))) for result in results]


def _patience(options: DebugOptions) -> float:
    """Seconds after which a case is stopped at its line: before the process is, whose end would tell nothing."""
    return min(0.8 * options.case_seconds, max(options.budget_seconds or options.case_seconds, LEAST_PATIENCE))


class Session:
    """The debug child, replaced when a case kills it. It serves operators one after another.

    With ``executor="both"`` there are two, one for each executor.
    """

    def __init__(self, options: DebugOptions) -> None:
        self._executor, self._stdout_to_stderr = options.first_executor, options.stdout_to_stderr
        self._on_terminal = options.on_terminal
        self._worker: Worker | None = None
        both = options.executor == "both" and not options.pdb
        self._second = Session(replace(options, executor="interpreter")) if both else None

    def load(self, target: str, call: KernelCall | None, options: DebugOptions) -> tuple[Named, ...]:
        """The operators that a name stands for, imported by the child.

        Raises:
            TilewrightError: as ``tilewright.spec.load.load`` does.
            ChildFailed: importing them ends the child.
        """
        try:
            found: tuple[Named, ...] = self._answer(_LOAD, {"target": target, "call": call}, Limits(), options)
        except ChildFailed as failure:
            raise ChildFailed(f"{failure.what} while {target} was imported", reason=failure.reason) from None
        return found

    def plan(self, address: Address | Operator, options: DebugOptions) -> Plan:
        wanted = None if options.cases is None else [dict(case) for case in options.cases]
        # On a GPU a configuration need not fit: that is for the tuner to say.
        given = {
            "wanted": wanted,
            "seed": options.seed,
            "effort": options.effort,
            "with_configs": not options.device,
            "extremes": options.executor == "checked" and not options.pdb,
        }
        plan: Plan = self._ask(_SESSION + "plan_cases", address, options, **given)
        return plan

    def run(
        self,
        address: Address | Operator,
        case: Case,
        options: DebugOptions,
        *,
        made_up: bool = False,
        grids_only: bool = False,
    ) -> CaseResult:
        pdb = options.pdb and not self._checked  # which finds; the interpreter then steps to what it found
        given: dict[str, Any] = {"case": case, "pdb": pdb, "seconds": _patience(options)}
        try:
            if self._executor == "device":
                return self._asked(_DEVICE + "run_case", address, options, **given)
            given |= {"made_up": made_up, "grids_only": grids_only}
            result = self._asked(_SESSION + "run_case", address, options, checked=self._checked, **given)
        except ChildFailed as failure:
            words = f"{failure.what} while case {case.label} ran"
            if made_up and failure.reason == "memory":
                return CaseResult(case, refused=words)
            return CaseResult(case, (Finding("launch-error", words, case=case),))
        if self._second is None or grids_only or result.refused:
            return result
        return together(result, self._second.run(address, case, options, made_up=made_up))

    def step_to(self, address: Address | Operator, result: CaseResult, options: DebugOptions) -> list[str]:
        """Gives the terminal to pdb at the worst finding of a case, in the interpreter; what is to be said of that."""
        finding = worst(result.findings)
        if finding is None or not self._checked:
            return []  # the interpreter has stopped there already
        if result.addresses_only:
            return ["its tensors are too large for the interpreter, which is what pdb steps through"]
        with Session(replace(options, executor="interpreter")) as other:
            if finding.line is None or finding.kind == "launch-error":  # it stops where it raises
                other.run(address, result.case, options)
                return []
            given = {"case": result.case, "finding": replace(finding, case=None)}
            reached = other._ask(_SESSION + "step_to", address, options, **given)
        words = f"the interpreter does not reach line {finding.line} in program {finding.program or (0, 0, 0)}"
        return [] if reached else [words]

    def with_keys(
        self, address: Address | Operator, first: CaseResult, planned: Sequence[Case], options: DebugOptions
    ) -> CaseResult:
        """The first case's result with what is wrong with the keys of tuned kernels, which no one case shows."""
        if not self._checked or not first.launches or any(f.kind == "launch-error" for f in first.findings):
            return first
        given = {"planned": list(planned), "seconds": _patience(options)}
        try:
            found = self._ask(_SESSION + "check_keys", address, options, **given)
        except ChildFailed as failure:
            found = (
                Finding("unsupported", f"{failure.what} while the keys of autotuners were checked", case=first.case),
            )
        return replace(first, findings=(*first.findings, *found))

    @property
    def _checked(self) -> bool:
        return self._executor == "checked"

    def check_configs(
        self, address: Address | Operator, case: Case, configs: Sequence[Config], options: DebugOptions
    ) -> dict[str, tuple[Finding, ...]]:
        """Runs one case in each configuration; the findings of those that have any, by configuration."""
        wrong = {}
        for config in configs:
            given = {"case": case, "config": config, "checked": self._checked}
            result = self._asked(_SESSION + "check_config", address, options, **given)
            if result.findings:
                wrong[str(config)] = result.findings
        return wrong

    def shrink(self, address: Address | Operator, findings: Sequence[Finding], options: DebugOptions) -> list[Case]:
        """For each finding the smallest case found that fails like it; its own where no search is to be made."""
        smallest = {i: f.case for i, f in enumerate(findings) if f.case is not None}
        wanted = [i for i, finding in enumerate(findings) if self._can_shrink(finding)]
        only_there = [i for i in wanted if self._second is not None and findings[i].message.endswith(ONLY_INTERPRETER)]
        here = [i for i in wanted if i not in only_there]
        for session, numbers in ((self, here), (self._second, only_there)):
            if session is not None and numbers:
                smallest.update(
                    zip(numbers, session._shrunk(address, [findings[i] for i in numbers], options), strict=True)
                )
        return [smallest[i] for i in range(len(findings))]

    def _can_shrink(self, finding: Finding) -> bool:
        """Whether tries neither kill a process nor take long, nor are to be repeated here."""
        is_endless = finding.message.startswith(STILL_RUNNING)
        return (
            self._executor != "device"
            and not is_endless
            and finding.kind != "autotune-key"  # several calls show it, of small sizes
            and (finding.kind != "launch-error" or finding.line is not None)
        )

    def _shrunk(self, address: Address | Operator, findings: Sequence[Finding], options: DebugOptions) -> list[Case]:
        # All tries are one task of the child, which has the time of one case.
        each = min(options.shrink_seconds, 0.8 * options.case_seconds / len(findings))
        given = {"findings": list(findings), "seconds": each, "checked": self._checked}
        try:
            smallest: list[Case] = self._ask(_SESSION + "shrink_cases", address, options, **given)
        except TilewrightError:
            return [finding.case for finding in findings if finding.case is not None]
        return smallest

    def explain(
        self, address: Address | Operator, findings: Sequence[Finding], cases: Sequence[Case], options: DebugOptions
    ) -> Sequence[Finding]:
        """Findings with their causes; only the checked executor can look for them."""
        if not self._checked:
            return findings
        arguments = {"findings": tuple(findings), "cases": tuple(cases), "seconds": options.cause_seconds}
        try:
            found: Sequence[Finding] = self._ask(_SESSION + "explain_findings", address, options, **arguments)
        except TilewrightError:
            return findings
        return found

    def write_repro(
        self, address: Address | Operator, report: DebugReport, path: Path, options: DebugOptions
    ) -> Reproduction | None:
        """Writes the worst finding of a report as a script; None where there is none.

        Raises:
            UsageError: its launcher cannot be cut out of its module, or its arguments cannot be written.
        """
        finding = worst(report.findings)
        if finding is None:
            return None
        if not self._checked:  # which alone runs a kernel and stays on its feet
            with Session(replace(options, executor="checked", pdb=False)) as other:
                return other.write_repro(address, report, path, options)
        given = {"finding": finding, "case": smallest_case(report, finding), "path": path, "target": options.target}
        limits = Limits(options.case_seconds + SCRIPT_SECONDS, options.memory_bytes)
        found: Reproduction = self._answer(_SESSION + "write_repro", {"address": address, **given}, limits, options)
        return found

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None
        if self._second is not None:
            self._second.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _asked(self, task: str, address: Address | Operator, options: DebugOptions, **arguments: Any) -> CaseResult:
        result: CaseResult = self._ask(task, address, options, **arguments)
        return result

    def _ask(self, task: str, address: Address | Operator, options: DebugOptions, **arguments: Any) -> Any:
        limits = Limits(options.case_seconds, options.memory_bytes)
        return self._answer(task, {"address": address, "target": options.target, **arguments}, limits, options)

    def _answer(self, task: str, arguments: Mapping[str, Any], limits: Limits, options: DebugOptions) -> Any:
        self._on_terminal = options.on_terminal  # of who asks now, for a child that others have used
        if self._worker is None:
            env = INTERPRETER_ENVIRONMENT if self._executor == "interpreter" else COMPILING_ENVIRONMENT
            self._worker = Worker(
                env=env,
                interactive=True,
                stdout_to_stderr=self._stdout_to_stderr,
                on_pause=lambda: self._on_terminal(),
            )
        try:
            self._worker.submit(task, arguments, limits)
            return self._worker.result()
        except ChildFailed:
            self._worker.kill()
            self._worker = None
            raise
