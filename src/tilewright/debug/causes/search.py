"""Minimal sets of edits that mend every case of a run."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tilewright.debug.causes.arithmetic import PythonDivision, WideOffsets
from tilewright.debug.causes.change import Change, Edits
from tilewright.debug.causes.launches import Contiguous, LargerGrid, StrideOf, Swapped
from tilewright.debug.causes.masks import Bounded, Masked, NotBelow, Other, Shifted, WhereOther
from tilewright.debug.causes.padding import Excluded, Filled
from tilewright.debug.causes.survey import Survey
from tilewright.debug.causes.whole import InSequence, OneMoreTurn, ZeroedMemory
from tilewright.debug.check import Repeated
from tilewright.errors import TilewrightError
from tilewright.records import Finding, fault_key

Set = frozenset[Change]

EXPLAINED = frozenset(
    ("mismatch", "non-finite", "unwritten-output", "out-of-bounds-read", "out-of-bounds-write", "undefined-lanes")
    + ("uninitialized-read", "offset-overflow", "write-write-race", "read-write-race", "write-conflict")
)
"""Kinds of findings that an edit of the kernel can end."""
_ORDER = frozenset(("write-write-race", "read-write-race"))
MOST_SETS = 3
"""Minimal sets that are looked for: with more a reader would have to choose."""
_LARGEST_SET = 5
_SURVEYED = 4
_RUNS_OF_A_UNION = 60


@dataclass
class Outcome:
    """What is left wrong of a case."""

    errors: list[Finding]
    wrong: int
    effective: Set

    @property
    def score(self) -> tuple[int, int]:
        return (self.wrong, len(self.errors))


@dataclass
class Search:
    """Looks for sets that end the faults of ``failing`` cases and of all ``others``.

    Attributes:
        failing: cases with a fault, the smallest first.
        others: the further cases of the run.
        deadline: by ``time.process_time()``; what was found by then counts.
        target: a single fault to be ended, while what else is wrong may stay; None for all of them.
    """

    failing: Sequence[Repeated]
    others: Sequence[Repeated]
    deadline: float
    target: Finding | None = None
    runs: int = 0
    _known: dict[tuple[str, Set], Outcome] = field(default_factory=dict)

    def sets(self) -> list[Set]:
        """Minimal sets, the smallest first, each verified on all cases."""
        found: list[Set] = []
        for candidate in self._candidates(frozenset(), self.failing[0]):
            if any(_covers(known, candidate) for known in found):
                continue
            mended = self._mends_all(candidate)
            if mended is not None and not any(_covers(known, mended) for known in found):
                found.append(mended)
            if len(found) == MOST_SETS or self.is_late:
                break
        return sorted(found, key=len)

    @property
    def is_late(self) -> bool:
        return time.process_time() > self.deadline

    # ------------------------------------------------------------------------------------------- one case

    def outcome(self, changes: Set, case: Repeated) -> Outcome:
        key = (case.case.id, changes)
        if key not in self._known:
            self._known[key] = self._ran(changes, case)
        return self._known[key]

    def _ran(self, changes: Set, case: Repeated) -> Outcome:
        self.runs += 1
        edits = Edits(changes)
        try:
            findings, wrong = case.run(edits, zeroed=edits.zeroed)
        except TilewrightError:
            return Outcome([Finding("launch-error", "it does not run with this edit")], 1 << 62, frozenset())
        ignored = _ORDER if edits.in_sequence else frozenset()
        kinds = (EXPLAINED | {"launch-error", "unsupported"}) - ignored
        errors = [f for f in findings if f.severity == "error" and f.kind in kinds]
        return Outcome(errors, wrong, frozenset(edits.effective))

    def mends(self, changes: Set, case: Repeated) -> bool:
        """Whether changes leave nothing wrong of a case; with a target, neither it nor anything new."""
        errors = self.outcome(changes, case).errors
        if self.target is None or not errors:
            return not errors
        left = {fault_key(found) for found in errors}
        before = {fault_key(found) for found in self.outcome(frozenset(), case).errors}
        return fault_key(self.target) not in left and left <= before

    def _candidates(self, base: Set, case: Repeated) -> Iterator[Set]:
        """Sets that mend one case where ``base`` alone does not: single edits first, then several together."""
        survey = self._survey(base, case)
        every = survey.masks() + survey.fills() + survey.rest()
        singles = sorted((change for change in every if _fits(change, base)), key=_unlikelihood)
        found = False
        for whole, lines in survey.widened():
            smallest = self._widened(whole, lines, base, case)
            if smallest is not None:
                yield smallest
                return
        for change in singles:
            if self.is_late:
                return
            if self.mends(base | {change}, case):
                found = True
                yield base | {change}
        if not found:
            yield from self._together(base, singles, survey.guards(), case)

    def _widened(self, whole: Change, lines: Sequence[Change], base: Set, case: Repeated) -> Set | None:
        """The lines that a wider type mends, where it does: one run tells, however long the loops are."""
        if self.is_late or not self.mends(base | {whole}, case):
            return None
        return self._reduced(lines, base, case)

    def _survey(self, base: Set, case: Repeated) -> Survey:
        """What could be changed: in the case itself, and what else is seen where sizes are not degenerate."""
        survey = Survey(base)
        plainer = [o for o in [*self.failing, *self.others] if plainness(o) > plainness(case)]
        for one in [case, *sorted(plainer, key=plainness, reverse=True)[:_SURVEYED]]:
            try:
                one.run(survey, zeroed=survey.zeroed)
            except TilewrightError:
                continue
        return survey

    def _together(
        self, base: Set, singles: Sequence[Change], guards: Sequence[Change], case: Repeated
    ) -> Iterator[Set]:
        """Several edits: all tensors contiguous, all guards, all bounds with what padding then reaches, or whatever
        leaves less wrong."""
        copies = [change for change in singles if isinstance(change, Contiguous)]
        smallest = self._reduced(copies, base, case) if copies else None
        if smallest is not None:
            yield smallest
            return
        if guards:  # a sum of zero shows once it is no NaN any more
            guards = list(dict.fromkeys([*guards, *self._survey(base | frozenset(guards), case).guards()]))
            smallest = self._reduced(guards, base, case)
            if smallest is not None:
                yield smallest
                return
        bounds = frozenset(_first_of_each(c for c in singles if isinstance(c, Bounded) and not c.exactly))
        if bounds:
            fills = _first_of_each(self._survey(base | bounds, case).fills())
            # What is tried without first goes first: of all that keeps padding out, the earliest shall stay.
            for union in ([*bounds], [*reversed(fills), *bounds]):
                smallest = self._reduced(union, base, case)
                if smallest is not None:
                    yield smallest
                    return
        climbed = self._climbed(base, list(singles), case)
        if climbed is not None:
            smallest = self._reduced(sorted(climbed - base, key=repr), base, case)
            if smallest is not None:
                yield smallest

    def _climbed(self, base: Set, singles: list[Change], case: Repeated) -> Set | None:
        """The edit that leaves least wrong, then the next, as long as each helps."""
        changes, best = base, self.outcome(base, case).score
        while len(changes) - len(base) < _LARGEST_SET and not self.is_late:
            scored = [(self.outcome(changes | {c}, case).score, i) for i, c in enumerate(singles) if _fits(c, changes)]
            if not scored or min(scored)[0] >= best:
                return None
            best, at = min(scored)
            changes = changes | {singles[at]}
            if self.mends(changes, case):
                return changes
            singles = self._survey(changes, case).masks() + self._survey(changes, case).fills() + singles
        return None

    def _reduced(self, changes: Sequence[Change], base: Set, case: Repeated) -> Set | None:
        """The fewest of some changes that mend together (delta debugging); None where they do not."""
        left = list(changes)
        if not self.mends(base | frozenset(left), case):
            return None
        size = max(len(left) // 2, 1)
        while size:
            position = 0
            while position < len(left) and not self.is_late:
                without = left[:position] + left[position + size :]
                if without and self.mends(base | frozenset(without), case):
                    left = without
                else:
                    position += size
            size //= 2
        return base | frozenset(left)

    # ------------------------------------------------------------------------------------------ all cases

    def _mends_all(self, changes: Set, depth: int = 2) -> Set | None:
        """The set, if need be with more edits, that leaves no case of the run wrong; None where none was found."""
        for case in [*self.failing, *self.others]:
            if self.is_late:
                return None
            if self.mends(changes, case):
                continue
            if depth == 0 or len(changes) >= _LARGEST_SET:
                return None
            return self._extended(changes, case, depth)
        return changes

    def _extended(self, changes: Set, case: Repeated, depth: int) -> Set | None:
        for candidate in self._candidates(changes, case):
            whole = self._mends_all(candidate, depth - 1)
            if whole is not None:
                return self._without_needless(whole)
        return None

    def _without_needless(self, changes: Set) -> Set:
        for change in sorted(changes, key=repr):
            fewer = changes - {change}
            if fewer and all(self.mends(fewer, case) for case in [*self.failing, *self.others]):
                changes = fewer
        return changes


def _covers(known: Set, other: Set) -> bool:
    """Whether a set is no news beside one that is known: the same lines and more, or padding left out another way."""
    lines = {_line(change) for change in known}
    if known <= other or (None not in lines and lines <= {_line(change) for change in other}):
        return True
    pads = {type(change) for change in other} <= {Filled, Excluded}
    return pads and any(isinstance(change, Other | WhereOther) for change in known)


def _line(change: Change) -> tuple[str, int] | None:
    return None if change.where is None else (change.where.file, change.where.line)


def _fits(change: Change, base: Set) -> bool:
    """Whether a change can be made together with others."""
    return all(change.alternatives != other.alternatives for other in base)


def _first_of_each(changes: Iterable[Change]) -> list[Change]:
    found: dict[object, Change] = {}
    for change in changes:
        found.setdefault(change.alternatives, change)
    return list(found.values())


def plainness(case: Repeated) -> int:
    """How many different sizes above 1 a case has: strides then tell dims apart."""
    return len(set(_sizes(case)))


def extent(case: Repeated) -> int:
    """The product of a case's sizes."""
    return math.prod(_sizes(case))


def _sizes(case: Repeated) -> list[int]:
    return [v for v in case.case.arguments.values() if isinstance(v, int) and not isinstance(v, bool) and v > 2]


def _unlikelihood(change: Change) -> int:
    """What is tried, and shown, first: what is written already made right, before something is added."""
    if isinstance(change, Bounded) and not change.axes:
        return len(_BY_LIKELIHOOD)
    return _BY_LIKELIHOOD.index(type(change))


_BY_LIKELIHOOD = (
    Shifted,
    Bounded,
    Other,
    WhereOther,
    NotBelow,
    Masked,
    PythonDivision,
    Swapped,
    StrideOf,
    Contiguous,
) + (
    OneMoreTurn,
    Filled,
    Excluded,
    WideOffsets,
    LargerGrid,
    InSequence,
    ZeroedMemory,
)
