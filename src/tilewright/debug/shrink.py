"""From a case that fails to the smallest that fails alike: sizes, layout, dtype, values, and fewest programs.

The search is greedy and goes on until no single step helps, so what it ends with is a local minimum unless the
tries are spent. It is deterministic: the same finding shrinks to the same case, as long as no wall limit cuts it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tilewright.debug import configs, simpler
from tilewright.errors import TilewrightError
from tilewright.records import Case, CaseResult, Finding
from tilewright.spec.operator import Operator

MOST_TRIES = 240
"""Cases that are run for one finding. Those that were run for another cost nothing."""


@dataclass
class Shrinker:
    """Makes the findings of one operator small; what a case showed is known to all of them."""

    operator: Operator
    check: Callable[[Case], CaseResult]
    known: dict[str, CaseResult | None] = field(default_factory=dict)

    def shrink(self, finding: Finding, seconds: float, tries: int = MOST_TRIES) -> Case:
        """The smallest case found that shows the same fault: its kind, on its line, of its tensor.

        ``seconds`` are a safety: what is spent, as a rule, are the ``tries``.
        """
        assert finding.case is not None
        search = _Search(self, finding, time.perf_counter() + seconds, tries)
        first = search.minimum(finding.case, largest_first=True)
        if sum(size > 1 for size in simpler.sizes(self.operator, first).values()) < 2:
            return first
        second = search.minimum(finding.case, largest_first=False)  # another order of steps may end elsewhere
        return min((first, second), key=search.cost)

    def result(self, case: Case) -> CaseResult | None:
        """What a case shows; None where its inputs cannot be made, or its reference refuses them."""
        if case.id not in self.known:
            try:
                self.known[case.id] = self.check(case)
            except TilewrightError:
                self.known[case.id] = None
        return self.known[case.id]


@dataclass
class _Search:
    """The search for one finding's smallest case, with what is left of its budget."""

    shrinker: Shrinker
    finding: Finding
    deadline: float
    tries: int

    def minimum(self, case: Case, *, largest_first: bool) -> Case:
        """A case from which no single step leads to a simpler one that fails alike."""
        while True:
            candidates = simpler.cases(self.shrinker.operator, case, largest_first=largest_first)
            better = next((c for c in self._affordable(candidates) if self._fails(c)), None)
            if better is None:
                return case
            case = better

    def cost(self, case: Case) -> tuple[Any, ...]:
        """What makes one minimum better than another; programs break ties."""
        result = self.shrinker.known.get(case.id)
        return (*simpler.cost(self.shrinker.operator, case), result.programs if result else 0)

    def _affordable(self, candidates: Iterator[Case]) -> Iterator[Case]:
        for candidate in candidates:
            if candidate.id not in self.shrinker.known:
                if self.tries <= 0 or time.perf_counter() > self.deadline:
                    return
                self.tries -= 1
            yield candidate

    def _fails(self, case: Case) -> bool:
        result = self.shrinker.result(case)
        if result is None or self.finding.kind != "config-dependent":
            return result is not None and any(is_same_fault(found, self.finding) for found in result.findings)
        plain, named = configs.split(self.shrinker.operator, case)
        default = self.shrinker.result(plain)
        is_right = default is not None and not any(found.severity == "error" for found in default.findings)
        wanted = replace(self.finding, kind="")
        there = any(is_same_fault(replace(f, kind=""), wanted) for f in result.findings if f.severity == "error")
        return named is not None and is_right and there


def is_same_fault(one: Finding, other: Finding) -> bool:
    """Whether two findings are of one kind, on one line and of one tensor."""
    return (one.kind, one.file, one.line, one.tensor) == (other.kind, other.file, other.line, other.tensor)
