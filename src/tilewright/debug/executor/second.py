"""What a second run of the same call shows.

Whether results depend on the order of programs, whether tf32 products alone made them wrong, where a NaN was born.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from tilewright.debug.executor.executor import Executor
from tilewright.records import Finding, fault_key
from tilewright.spec import golden
from tilewright.spec.golden import Expected
from tilewright.spec.poison import Poisoned

Again = Callable[[Executor], Mapping[str, Tensor]]
"""Runs the same call on the same inputs with another executor; its results by name."""

_RACES = ("write-write-race", "read-write-race")
_ULPS = {torch.float64: 1024, torch.float32: 1024, torch.float16: 16, torch.bfloat16: 16}
"""How far sums of the same terms in another order may lie apart, in ulps of the largest result."""


def order_dependent(executor: Executor, results: Mapping[str, Tensor], again: Again) -> list[Finding]:
    """Runs the programs in reverse order, where some launch's atomics let it know its own; findings for what changed,
    and for races on a way that no program went before.

    Sums of floats that were merely associated otherwise are the same result; so is one whose elements merely lie
    in other places (a note), as where an atomic counter deals out slots.
    """
    if not executor.order_matters:
        return []
    reversed_ = Executor(executor.target, Poisoned(), backwards=True)
    other = again(reversed_)
    seen = set(map(fault_key, executor.findings()))
    races = [f for f in reversed_.findings() if f.kind in _RACES and fault_key(f) not in seen]
    findings = [replace(f, message=f"{f.message}; seen with the last program first") for f in races]
    for name, result in results.items():
        first, second = result.detach(), other.get(name)
        if second is None or second.shape != first.shape:
            continue
        second = second.detach()
        different = changed(first, second)
        if different is not None:
            findings.append(_finding(executor, name, first, second, different))
    return findings


def reduced_precision(
    executor: Executor,
    findings: list[Finding],
    expected: Sequence[Expected] | None,
    again: Again,
    limit: float = 1.0,
) -> list[Finding]:
    """Mismatches that are gone where products of fp32 keep all their bits are warnings with that cause.

    What is left then may be ``limit`` times the tolerance.
    """
    if expected is None or not executor.uses_tf32 or not any(f.kind == "mismatch" for f in findings):
        return findings
    results = again(Executor(executor.target, Poisoned(), exact_products=True))
    right = {
        gold.name
        for gold in expected
        if gold.name in results and golden.compare(results[gold.name], gold).error_over_tolerance <= limit
    }
    return [excused(f) if f.kind == "mismatch" and f.argument in right else f for f in findings]


def excused(finding: Finding) -> Finding:
    """A mismatch that tf32 products account for."""
    remedy = 'tl.dot(..., input_precision="ieee") if float32 products are meant'
    return replace(finding, severity="warning", cause="reduced-precision-dot", remedy=remedy)


def born(executor: Executor, again: Again) -> list[Finding]:
    """Where values that are not finite arose on their way to a store; ``origin_line`` is the line of birth."""
    other = Executor(executor.target, Poisoned(), watches_floats=True)
    again(other)
    return [finding for finding in other.findings() if finding.kind == "non-finite"]


def changed(first: Tensor, second: Tensor) -> Tensor | None:
    """Elements that differ by more than the order of a sum explains, or None."""
    if not first.is_floating_point():
        different = first != second
    else:
        a, b = first.double(), second.double()
        different = ~((a - b).abs() <= _slack(first)) & (a != b) & ~(a.isnan() & b.isnan())
    return different if bool(different.any()) else None


def _slack(values: Tensor) -> float:
    finite = values.double().abs().nan_to_num(0.0, 0.0, 0.0)
    largest = float(finite.max()) if values.numel() else 0.0
    return _ULPS.get(values.dtype, 1) * torch.finfo(values.dtype).eps * largest


def _finding(executor: Executor, name: str, first: Tensor, second: Tensor, changed: Tensor) -> Finding:
    index = tuple(int(i) for i in changed.nonzero()[0])
    where = f"{name}[{', '.join(map(str, index))}]"
    moved = _same_elements(first, second)
    words = (
        f"{name} holds the same elements in other places when programs run in reverse order"
        if moved
        else f"{int(changed.sum())} of {changed.numel()} elements of {name} change with the order of programs: {where} "
        f"is {first[index].item()}, and {second[index].item()} in reverse"
    )
    written = executor.memory.writer(first, index)
    return Finding(
        kind="nondeterministic" if moved else "order-dependent",
        message=words,
        severity="note" if moved else "error",
        tensor=written[1].tensor if written else None,
        file=written[1].file if written else None,
        line=written[1].line if written else None,
        program=written[0] if written else None,
        element=index,
        cause=None if moved else "unknown",
    )


def _same_elements(first: Tensor, second: Tensor) -> bool:
    a, b = (t.double().flatten().sort().values for t in (first, second))
    slack = _slack(first) if first.is_floating_point() else 0.0
    return bool((((a - b).abs() <= slack) | (a == b) | (a.isnan() & b.isnan())).all())
