"""A GPU's results beside those of the checked executor: where they part, the compiler or the chip made the difference.

The executor runs what the author wrote. Where its result is right and the GPU's is not, the cause is behind
the frontend: a miscompilation, a race inside a program, a hint that is not true.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from tilewright.debug.check import Ran
from tilewright.records import Finding
from tilewright.spec import golden
from tilewright.spec.golden import Expected

ULPS = 64
"""Without a reference, results may differ by so many units in the last place of the largest element of a result:
sums are taken in another order, and functions such as exp are rounded otherwise."""
_WORDS = "the GPU's {name} is not what the checked executor makes of the same kernel"


def against_executor(
    found: list[Finding], ran: Ran, modelled: Ran, expected: tuple[Expected, ...] | None
) -> list[Finding]:
    """Findings of a run on the GPU, with those that the executor does not show named ``compiled-differs``.

    Nothing is said where the executor could not run the call, or finds it wrong itself.
    """
    if modelled.failure is not None or not modelled.complete or any(f.severity == "error" for f in modelled.found):
        return found
    if expected is None:
        return [*found, *_far_apart(ran, modelled)]
    right = {
        gold.name
        for gold, result in zip(expected, modelled.results.values(), strict=False)
        if golden.compare(result, gold).error_over_tolerance <= 1
    }
    return [_renamed(finding) if finding.argument in right else finding for finding in found]


def _renamed(finding: Finding) -> Finding:
    if finding.kind not in ("mismatch", "non-finite") or finding.severity != "error":
        return finding
    words = f"{_WORDS.format(name=finding.argument)}, which is right: {finding.message}"
    return replace(
        finding,
        kind="compiled-differs",
        message=words,
        cause=None,
        remedy="try another Triton, or look for hints (tl.multiple_of, tl.assume) that do not hold",
    )


def _far_apart(ran: Ran, modelled: Ran) -> list[Finding]:
    found = []
    for name, result in ran.results.items():
        other = modelled.results.get(name)
        if other is None or other.shape != result.shape or other.numel() == 0:
            continue
        apart = _apart(result.detach().cpu(), other.detach())
        if bool(apart.any()):
            first = tuple(int(i) for i in apart.nonzero()[0])
            words = (
                f"{_WORDS.format(name=name)}: {int(apart.sum())} of {apart.numel()} elements, first {name}{list(first)}"
            )
            found.append(Finding("compiled-differs", words, argument=name, element=first, lanes=int(apart.sum())))
    return found


def _apart(result: Tensor, other: Tensor) -> Tensor:
    if not other.is_floating_point():
        return result != other
    unit = torch.finfo(other.dtype).eps
    x, y = result.double(), other.double()
    finite = y[y.isfinite()]
    scale = float(finite.abs().max()) if finite.numel() else 0.0
    same = (x == y) | (x.isnan() & y.isnan())
    return ~same & ~((x - y).abs() <= ULPS * unit * scale)
