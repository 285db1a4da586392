"""What nobody promises of results: differences under some value classes that are warnings, or tell nothing at all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from tilewright.records import Case, Disagreement, Finding
from tilewright.spec import contents, golden
from tilewright.spec.golden import Expected
from tilewright.spec.inputs import Inputs
from tilewright.spec.operator import Operator

A_FEW_DIGITS = 64.0
"""Times the tolerance, where right algorithms lose digits."""
HALF_OF_ALL_DIGITS = 1e4
"""Times the tolerance, where an exponential makes much of what its argument loses."""
_LARGE = ("large", "very-negative", contents.WIDE_RANGE)
A_LITTLE = 4.0
"""Times the tolerance, where values are of another kind than drawn ones, for which it is made."""
LARGEST_TOLD = 1e12
"""Golden values beyond it, of inputs that are moderate, were amplified: so was each rounding on the way."""


def tells_of_aliases(operator: Operator, inputs: Inputs) -> bool:
    """Whether the reference changes its arguments in place, as the launcher does: it then says what aliases give.

    Where they give something else than separate tensors would, its own error opens the tolerance that far.
    """
    if operator.reference is None:
        return False
    own = inputs.map(lambda tensor: tensor.detach()).copy()
    named = [own.tensors[name] for name in operator.mutates if name in own.tensors]
    before = [tensor._version for tensor in named]
    with torch.no_grad():
        golden.call_reference(operator.reference, own, (), "aliased")
    return all(tensor._version != version for tensor, version in zip(named, before, strict=True))


def limit(case: Case) -> float:
    """Errors over the tolerance up to which a mismatch under a value class is none."""
    if case.values in contents.ROUGH:
        return HALF_OF_ALL_DIGITS if case.values in _LARGE else A_FEW_DIGITS
    return A_LITTLE if case.values in contents.FLOATS else 1.0


def unfit(case: Case, expected: tuple[Expected, ...]) -> str | None:
    """Why a value class tells nothing of an operator: its reference makes nothing of such values that can be compared."""
    floats = [gold.values for gold in expected if gold.dtype.is_floating_point and gold.values.numel()]
    if case.values == "unnamed-poison" and any(bool(values.isnan().any()) for values in floats):
        return "the reference looks at rows that no index names"
    finite = [values[values.isfinite()] for values in floats]
    if any(bool((values.abs() > LARGEST_TOLD).any()) for values in finite):
        return f"with {case.values} values the reference leaves the range where rounding can be told from a fault"
    return None


def tempered(
    case: Case,
    findings: list[Finding],
    disagreements: list[Disagreement],
    expected: tuple[Expected, ...] | None,
    results: Mapping[str, Tensor],
) -> list[Finding]:
    """Findings, without those where right algorithms lose digits and no more was lost; those of values as warnings
    where nobody promises any: where inputs are not finite, where masks leave nothing and the reference has no value.

    A grid that cannot be launched explains all else that is wrong.
    """
    grids = [f for f in findings if f.kind == "grid-limit"]
    if grids:
        return grids

    def undefined(finding: Finding) -> bool:
        if case.values in contents.NOT_FINITE:
            return True
        gold = next((e for e in expected or () if e.name == finding.argument), None)
        if case.values in contents.TIED and gold is not None and not gold.dtype.is_floating_point:
            return True
        if case.values not in contents.MASKS or gold is None or not gold.dtype.is_floating_point:
            return False
        actual = results[gold.name]
        if actual.shape != gold.values.shape:
            return False
        elsewhere = torch.where(gold.values.isnan(), torch.nan, actual.detach().double())
        return bool((golden.error_over_tolerance(elsewhere, gold) <= 1).all())

    values = ("mismatch", "non-finite")
    told = [f for f in findings if f.kind not in values or not _only_lost_digits(case, f, disagreements)]
    return [replace(f, severity="warning") if f.kind in values and undefined(f) else f for f in told]


def _only_lost_digits(case: Case, finding: Finding, disagreements: list[Disagreement]) -> bool:
    """Whether no result that a finding speaks of is further off than a right algorithm may be."""
    own = [d for d in disagreements if d.output == finding.argument]
    return bool(own) and all(is_lost_digits(case, found) for found in own)


def is_lost_digits(case: Case, found: Disagreement) -> bool:
    """Whether a right algorithm may be as far off as this under the case's value class: nothing to be told."""
    if case.values == contents.WIDE_RANGE and found.kind == "value":  # only that a value is no number any more is told
        return not math.isfinite(found.worst_expected) or math.isfinite(found.worst_value)
    return found.kind == "value" and limit(case) > 1.0 and found.worst_over_tolerance < limit(case)
