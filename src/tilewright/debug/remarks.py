"""What a debug report says beside its findings: what was not run, and what was chosen where nothing was said."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tilewright.debug.options import DebugOptions
from tilewright.debug.plan import Plan
from tilewright.errors import TilewrightError
from tilewright.records import Case, CaseResult
from tilewright.wording import part


def unnamed_sizes(planned: Sequence[Case], options: DebugOptions) -> list[str]:
    """Of cases that a user asked for: what was chosen where nothing was said."""
    notes = []
    for wanted, case in zip(options.cases or (), planned, strict=False):
        chosen = {name: value for name, value in case.arguments.items() if name not in wanted}
        if chosen:
            said = ", ".join(f"{name}={value}" for name, value in chosen.items())
            notes.append(f"case {case.label}: {said} where --case says nothing")
    return notes


def cut_short(planned: int, missing: int, options: DebugOptions) -> list[str]:
    if not missing or options.pdb:
        return []
    return [f"{part(missing, planned, 'case')} not run: the budget of {options.budget_seconds:.0f} s was spent"]


def left_out(refused: Mapping[str, Sequence[Case]]) -> list[str]:
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


def search_ended(sought: str, failure: TilewrightError) -> str:
    """Of a search beside the verdict that did not come to its end: findings stand as they were found."""
    return f"the search for {sought} ended: {failure.what}"


def about(plan: Plan, results: Sequence[CaseResult], options: DebugOptions) -> list[str]:
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
