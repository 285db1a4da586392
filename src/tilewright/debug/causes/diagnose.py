"""From findings to their causes: edits are searched that mend every case of the run, and put into words."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilewright.debug.causes.arithmetic import WideOffsets
from tilewright.debug.causes.change import Edits
from tilewright.debug.causes.naming import Names
from tilewright.debug.causes.rewriting import in_64_bits
from tilewright.debug.causes.search import EXPLAINED, Search, Set, extent, plainness
from tilewright.debug.causes.shadow import first_departure
from tilewright.debug.causes.wording import Unsaid, Wording
from tilewright.debug.check import Repeated
from tilewright.errors import TilewrightError
from tilewright.hardware.target import Target
from tilewright.launch.launch import python_function
from tilewright.records import Case, Edit, Finding, Remedy, fault_key
from tilewright.spec.operator import Operator

MOST_CASES = 80
"""Of a run, on which a remedy is verified; all that fail are among them."""
_OF_VALUES = frozenset(("mismatch", "non-finite"))
_OF_ADDRESSES = frozenset(("offset-overflow", "out-of-bounds-read", "out-of-bounds-write"))
_BISECTED = 4
_NAMED_ON = 6
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
    findings = _of_huge_cases(operator, findings, target)
    wanted = [f for f in findings if _has_a_cause(f) and not f.remedies]
    if not wanted:
        return tuple(findings)
    deadline = time.process_time() + seconds
    failing = _repeated(operator, [f.case for f in wanted if f.case is not None], target)
    if not failing:
        return tuple(findings)
    known = {one.case for one in failing}
    others = _repeated(operator, [case for case in cases if case not in known][:MOST_CASES], target)
    search = Search(failing, others, deadline)
    # What only another order of programs shows is not wrong when it is run again: any edit would seem to mend it.
    failing = [one for one in failing if not search.mends(frozenset(), one)]
    search = replace(search, failing=failing)
    sets = search.sets() if failing else []
    if not sets:
        # The smallest case may be wrong in a way of its own (sizes that the inputs are not made for): those of the run.
        of_run = [one for one in others if not search.mends(frozenset(), one)]
        if not of_run and not failing:
            return tuple(findings)
        if of_run:
            failing, others = of_run[:1], [one for one in others if one is not of_run[0]]
            search = Search(failing, others, deadline + seconds / 2)
            sets = search.sets()
    every = [*failing, *others]
    why = _in_words(sets, wanted, every, len(set(cases) & {one.case for one in every}))
    if why is not None:
        return tuple(_with(f, why) if f in wanted else f for f in findings)
    return tuple(_alone(f, search, every) if f in wanted else f for f in findings)


def _alone(finding: Finding, search: Search, cases: Sequence[Repeated]) -> Finding:
    """A finding with what ends it, where nothing ends all that is wrong; else with where its values go astray."""
    showing = [one for one in cases if fault_key(finding) in map(fault_key, search.outcome(frozenset(), one).errors)]
    if showing:
        others = [one for one in cases if one is not showing[0]]
        own = replace(search, failing=showing[:1], others=others, target=finding)
        # A mask ends any wild access, that of a wrong address as well: but where that is the fault, values stay wrong.
        sets = [s for s in own.sets() if 2 * sum(not own.outcome(s, one).errors for one in showing) >= len(showing)]
        why = _in_words(sets, [finding], [*showing, *others], 0)
        if why is not None:
            return _with(finding, why)
    return _bisected(finding, cases) if finding.kind in _OF_VALUES else finding


def _has_a_cause(finding: Finding) -> bool:
    """Whether an edit of a kernel could end a finding: not one of a result's shape or dtype, which the host makes."""
    of_the_host = finding.kind == "mismatch" and finding.element is None
    return finding.kind in EXPLAINED and finding.severity == "error" and finding.case is not None and not of_the_host


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


def _of_huge_cases(operator: Operator, findings: Sequence[Finding], target: Target) -> tuple[Finding, ...]:
    """Findings of sizes at which offsets wrap, with what 64 bits would end of them."""
    told = []
    for finding in findings:
        why = None
        if finding.case is not None and finding.kind in _OF_ADDRESSES:
            case = Repeated(operator, finding.case, target)
            why = _in_64_bits(case) if case.is_huge else None
        told.append(finding if why is None else _with(finding, why))
    return tuple(told)


def _in_64_bits(case: Repeated) -> _Diagnosis | None:
    changes: Set = frozenset({WideOffsets()})
    edits = Edits(changes)
    found, _ = case.run(edits)
    if not edits.effective or any(f.kind in _OF_ADDRESSES and f.severity == "error" for f in found):
        return None
    remedy = Remedy("offset-overflow", tuple(map(in_64_bits, sorted(edits.wrapped, key=repr))), 0)
    return _Diagnosis(remedy.cause, (remedy,), "; ".join(map(_said, remedy.edits)))


@dataclass(frozen=True)
class _Diagnosis:
    """Why, and what to write; ``words`` say it in a line, in general where no edit can be written out."""

    cause: str
    remedies: tuple[Remedy, ...]
    words: str


def _in_words(
    sets: Sequence[Set], findings: Sequence[Finding], cases: Sequence[Repeated], of_the_run: int
) -> _Diagnosis | None:
    remedies: list[Remedy] = []
    in_general: _Diagnosis | None = None
    for changes in sets:
        try:
            edits = _wording(changes, findings, cases).edits(changes)
        except Unsaid as unsaid:
            in_general = in_general or _Diagnosis(_cause(changes), (), str(unsaid))
            continue
        if all(remedy.edits != edits for remedy in remedies):  # two edits may be written alike
            remedies.append(Remedy(_cause(changes), edits, of_the_run))
    if not remedies:
        return in_general
    return _Diagnosis(remedies[0].cause, tuple(remedies), "; ".join(map(_said, remedies[0].edits)))


def _wording(changes: Set, findings: Sequence[Finding], cases: Sequence[Repeated]) -> Wording:
    """Runs a set once more on some cases, to learn what it deals with and how that is called."""
    names, types, ranks, files, launched_at, fresh = Names(), {}, {}, set(), {}, []
    # Sizes that differ from each other tell bounds apart; large ones go round loops, which tells indices apart.
    plain = sorted(cases, key=lambda one: (plainness(one), extent(one)), reverse=True)[:_NAMED_ON]
    large = sorted(cases, key=extent, reverse=True)[:_NAMED_ON]
    for case in dict.fromkeys([cases[0], *plain, *large]):
        edits = Edits(changes, names=names)
        case.run(edits, zeroed=edits.zeroed)
        types.update(edits.elements)
        ranks.update(edits.ranks)
        fresh += case.fresh
        launched_at.update(edits.launched_at)
        if edits.launch is not None:
            files.add(python_function(edits.launch.kernel).__code__.co_filename)
    return Wording(names, findings, types, ranks, files, launched_at, fresh)


def _bisected(finding: Finding, cases: Sequence[Repeated]) -> Finding:
    """A finding of unknown cause, with the first line whose values leave their float64 shadow, or that none does."""
    own_first = sorted(cases, key=lambda one: one.case != finding.case)
    # In the smallest case of all a cancellation may be exact: others tell too.
    departures = (first_departure(one) for one in own_first[:_BISECTED])
    departure = next((found for found in departures if found is not None), None)
    if departure is None:
        words = "no edit that was tried mends it, and all values keep to what float64 gives: the formula differs"
        return replace(finding, message=f"{finding.message}; {words}")
    named = f"{departure.name}, " if departure.name else ""
    words = (
        f"values first leave what float64 gives at line {departure.site.line} ({named}off by "
        f"{departure.relative_error:.2g} of the largest, {departure.roundings:.0f} roundings)"
    )
    line = departure.site.line if departure.site.line != finding.line else finding.origin_line
    return replace(finding, message=f"{finding.message}; {words}", origin_line=line)


def _cause(changes: Set) -> str:
    causes = {change.cause for change in changes}
    return next((cause for cause in _CAUSES if cause in causes), min(causes))


def _with(finding: Finding, why: _Diagnosis) -> Finding:
    return replace(finding, cause=why.cause, remedy=why.words, remedies=why.remedies)


def _said(edit: Edit) -> str:
    return edit.text if edit.line is None else f"line {edit.line}: {edit.text}"
