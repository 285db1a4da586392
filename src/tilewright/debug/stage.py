"""The debug stage: cases planned, run one by one in a child process, failures made small.

What imports torch, Triton and the user's file is the child alone: this process has nothing to wait for.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tilewright.debug import doubt, remarks, settling
from tilewright.debug.child import Session
from tilewright.debug.options import DebugOptions
from tilewright.debug.plan import Plan
from tilewright.errors import NoGpu, TilewrightError
from tilewright.hardware.probe import gpu_name
from tilewright.records import (
    Case,
    CaseDone,
    CaseResult,
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
from tilewright.spec.address import Address

if TYPE_CHECKING:
    from tilewright.spec.operator import Operator

_WORDS = {
    "checked": "the checked executor, all programs at once",
    "interpreter": "the stock interpreter (TRITON_INTERPRET=1)",
}


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
    notes = remarks.unnamed_sizes(planned, options)
    yield from map(Note, notes)
    results: list[CaseResult] = []
    held: list[CaseResult] = []  # refused: a finding only if no other case of their kind is taken
    steps: list[str] = []
    started = time.monotonic()
    for done, case in enumerate(planned):
        if options.budget_seconds is not None and time.monotonic() - started > options.budget_seconds:
            break
        yield Progress("debug", done, case.label)
        result = session.run(
            address, case, options, made_up=plan.made_up and case != plan.first, grids_only=case in plan.grids
        )
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
    complete = (not missing or options.pdb) and not unsupported and bool(results or not left_out)
    said = [*remarks.cut_short(len(planned), missing, options), *plan.notes, *remarks.left_out(left_out)]
    for note in [*said, *remarks.about(plan, results, options), *steps]:
        notes.append(note)
        yield Note(note)
    smallest: dict[str, Case] = {}
    first = [] if options.pdb else _first_of_each(results)
    if first:
        yield Progress("debug", len(results), f"making {', '.join(dict.fromkeys(f.kind for f in first))} small")
        try:
            smallest = dict(zip(map(finding_name, first), session.shrink(address, first, options), strict=True))
        except TilewrightError as failure:
            notes.append(remarks.search_ended("smaller cases", failure))
            yield Note(notes[-1])
    if not options.pdb and options.cause_seconds > 0 and any(result.findings for result in results):
        yield Progress("debug", len(results), "looking for the cause")
        try:
            results = _with_causes(session, address, results, smallest, plan, options)
        except TilewrightError as failure:
            notes.append(remarks.search_ended("causes", failure))
            yield Note(notes[-1])
    return DebugReport(operator, options.executor, tuple(results), complete, tuple(notes), smallest)


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
            if finding.severity != "note" or finding.kind == "offset-overflow":
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
