"""From findings to their causes: edits are searched that mend every case of the run, and put into words."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from tilewright.debug.causes.change import Edits
from tilewright.debug.causes.naming import Names
from tilewright.debug.causes.search import EXPLAINED, Search, Set
from tilewright.debug.causes.wording import Wording
from tilewright.debug.check import Repeated
from tilewright.debug.executor import elements
from tilewright.errors import TilewrightError
from tilewright.hardware.target import Target
from tilewright.records import Case, Edit, Finding, Remedy
from tilewright.spec.operator import Operator

MOST_CASES = 80
"""Of a run, on which a remedy is verified; all that fail are among them."""
_NAMED_ON = 5
_CAUSES = (
    "missing-mask",
    "wrong-bound",
    "wrong-neutral-element",
    "integer-division-semantics",
    "wrong-stride",
    "empty-row",
    "loop-bound",
    "padded-lanes-in-reduction",
    "low-precision-accumulation",
)
"""Where a set of edits has several causes, the first of these names it: others follow from it."""


def explained(
    operator: Operator, findings: Sequence[Finding], cases: Sequence[Case], target: Target, seconds: float
) -> tuple[Finding, ...]:
    """Findings with their causes, as far as edits were found that mend ``cases``, all of the run.

    Each finding comes with its smallest case. Faults of other kinds than :data:`EXPLAINED` stay as they are.
    """
    wanted = [f for f in findings if f.kind in EXPLAINED and f.severity == "error" and f.case is not None]
    if not wanted:
        return tuple(findings)
    deadline = time.perf_counter() + seconds
    failing = _repeated(operator, [f.case for f in wanted if f.case is not None], target)
    if not failing:
        return tuple(findings)
    known = {one.case for one in failing}
    others = _repeated(operator, [case for case in cases if case not in known][:MOST_CASES], target)
    search = Search(failing, others, deadline)
    of_the_run = len(set(cases) & {one.case for one in (*failing, *others)})
    remedies = _in_words(search.sets(), wanted, [*failing, *others], of_the_run)
    if not remedies:
        return tuple(findings)
    return tuple(_with(f, remedies) if f in wanted else f for f in findings)


def _repeated(operator: Operator, cases: Sequence[Case], target: Target) -> list[Repeated]:
    """Cases to be run again; those too large to compare values are left out."""
    found = []
    for case in dict.fromkeys(cases):
        try:
            repeated = Repeated(operator, case, target)
        except TilewrightError:
            continue
        if not repeated.is_huge:
            found.append(repeated)
    return found


def _in_words(
    sets: Sequence[Set], findings: Sequence[Finding], cases: Sequence[Repeated], of_the_run: int
) -> tuple[Remedy, ...]:
    remedies = []
    for changes in sets:
        names, types, launches = Names(), {}, []
        for case in cases[:_NAMED_ON]:
            edits = Edits(changes, names=names)
            case.run(edits, zeroed=edits.zeroed)
            types.update(edits.elements)
            launches += [] if edits.launch is None else [edits.launch]
        floats = {site for site, element in types.items() if elements.is_float(element)}
        wording = Wording(names, findings, floats.__contains__, launches)
        remedies.append(Remedy(_cause(changes), wording.edits(changes), of_the_run))
    return tuple(remedies)


def _cause(changes: Set) -> str:
    causes = {change.cause for change in changes}
    return next((cause for cause in _CAUSES if cause in causes), min(causes))


def _with(finding: Finding, remedies: tuple[Remedy, ...]) -> Finding:
    first = remedies[0]
    text = "; ".join(map(_said, first.edits))
    return replace(finding, cause=first.cause, remedy=text, remedies=remedies)


def _said(edit: Edit) -> str:
    return edit.text if edit.line is None else f"line {edit.line}: {edit.text}"
