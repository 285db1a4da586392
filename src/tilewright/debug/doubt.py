"""Findings of planned cases that break what an author's defaults have in common, looked at once more.

``inputs(N=7, C=13)`` may say that N is below C, or nothing at all. A fault that shows only where such an order is
turned round is tried again with the order kept; where it is gone then, it is a warning that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilewright.debug.plan import Plan
from tilewright.records import Case, CaseResult, Finding, fault_key

_TRIES = 2


def settle(
    plan: Plan, results: Sequence[CaseResult], run: Callable[[Case], CaseResult]
) -> tuple[list[CaseResult], list[CaseResult]]:
    """Results with findings that the defaults' order of sizes rules out made warnings, and those of the tries.

    ``run`` checks one more case.
    """
    if not plan.guessed or plan.first is None:
        return list(results), []
    defaults = {dim: size for dim in plan.dims if isinstance(size := plan.first.arguments.get(dim), int)}
    doubtful: dict[Any, list[Case]] = {}
    sure = set()
    for result in results:
        in_order = not _turned(result.case.arguments, defaults)
        for finding in result.findings:
            if finding.severity == "error":
                (sure.add(_key(finding)) if in_order else doubtful.setdefault(_key(finding), []).append(result.case))
    tries: list[CaseResult] = []
    warned: dict[Any, str] = {}
    for key, cases in doubtful.items():
        if key in sure:
            continue
        for case in cases[:_TRIES]:
            tries.append(run(replace(case, arguments=_in_order(case.arguments, defaults))))
            sure |= {_key(f) for f in tries[-1].findings if tries[-1].refused is None}
        if key not in sure:
            a, b = _turned(cases[0].arguments, defaults)[0]
            warned[key] = f"; only where {a} is not below {b}, as it is by default in inputs()"
    kept = [replace(result, findings=tuple(_warned(f, warned) for f in result.findings)) for result in results]
    return kept, [t for t in tries if t.refused is None and any(_key(f) in doubtful for f in t.findings)]


def _warned(finding: Finding, warned: Mapping[Any, str]) -> Finding:
    words = warned.get(_key(finding)) if finding.severity == "error" else None
    return finding if words is None else replace(finding, severity="warning", message=finding.message + words)


def _key(finding: Finding) -> Any:
    return fault_key(replace(finding, severity="error"))


def _turned(arguments: Mapping[str, Any], defaults: Mapping[str, int]) -> list[tuple[str, str]]:
    """Pairs of sizes of which the first is below the second by default, and not here."""
    given = {dim: arguments[dim] for dim in defaults if isinstance(arguments.get(dim), int)}
    return [(a, b) for a in given for b in given if defaults[a] < defaults[b] and given[a] >= given[b]]


def _in_order(arguments: Mapping[str, Any], defaults: Mapping[str, int]) -> dict[str, Any]:
    """The sizes with those made larger that are below others they exceed by default."""
    found = dict(arguments)
    for b in sorted(defaults, key=lambda dim: defaults[dim]):
        for a in defaults:
            if (a, b) in _turned(found, defaults):
                found[b] = max(found[b], found[a] + defaults[b] - defaults[a])
    return found
