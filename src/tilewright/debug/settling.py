"""Results of planned cases, settled: which are none of the operator's, and what others make of their findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tilewright.debug.plan import Plan
from tilewright.records import Case, CaseResult, Config, Finding


def sort_out(plan: Plan, results: Sequence[CaseResult]) -> tuple[list[CaseResult], dict[str, list[Case]]]:
    """Results without those that only made-up sizes explain, and the cases left out by the words of the refusal.

    A refusal stays a finding where no other case of the same declared dtype, options and configuration ran.
    """
    if not plan.made_up:
        return list(results), {}
    reasons = {result.case.id: _reason(plan, result) for result in results}
    ran = {_declared(plan, result.case) for result in results if reasons[result.case.id] is None}
    kept, left_out = [], dict[str, list[Case]]()
    for result in results:
        words = reasons[result.case.id]
        if words is None or (result.findings and _declared(plan, result.case) not in ran):
            kept.append(result)
        else:
            left_out.setdefault(words, []).append(result.case)
    return kept, left_out


_OF_VALUES = frozenset(("mismatch", "non-finite", "unwritten-output"))


def _reason(plan: Plan, result: CaseResult) -> str | None:
    if result.refused is not None or not plan.guessed or result.case == plan.first or not result.findings:
        return result.refused
    if not result.launches:
        return "no kernel was launched"
    if any(result.case.arguments.get(dim) == 0 for dim in plan.dims) and _are_of_values(result):
        return "a size of 0"
    for finding in result.findings:
        if finding.kind == "misaligned" and "descriptor" in finding.message:
            return finding.message
    return None


def _are_of_values(result: CaseResult) -> bool:
    return all(finding.kind in _OF_VALUES for finding in result.findings if finding.severity == "error")


def _declared(plan: Plan, case: Case) -> Any:
    if plan.guessed:
        return ()
    other = {name: repr(value) for name, value in case.arguments.items() if name not in plan.dims}
    return case.dtype, tuple(sorted(other.items()))


def dependent(result: CaseResult, default: CaseResult) -> Finding | None:
    """The finding that a configuration is wrong where the default one is right on the same inputs, if it is."""
    wrong = next((f for f in result.findings if f.severity == "error" and f.kind != "unsupported"), None)
    if wrong is None or wrong.kind.startswith("autotune") or any(f.severity == "error" for f in default.findings):
        return None
    if default.refused is not None or not default.launches:
        return None
    named = {n: v for n, v in result.case.arguments.items() if n not in default.case.arguments}
    words = (
        f"wrong in configuration {Config(named)} ({wrong.kind}), right in the default one on the same inputs: "
        "what the launcher computes from one block must be computed from the block it launches with"
    )
    return replace(wrong, kind="config-dependent", message=words, cause=None, remedy=None, lanes=None, programs=None)


def of_sizes(result: CaseResult) -> CaseResult:
    """A result at sizes beyond 32-bit offsets: that they wrap is a note, and what comes of it is nothing new."""
    wraps = any(f.kind == "offset-overflow" for f in result.findings)
    told = [f for f in result.findings if f.kind == "offset-overflow" or not wraps]
    return replace(result, findings=tuple(replace(f, severity="note") for f in told))
