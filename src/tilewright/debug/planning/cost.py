"""What a case takes, estimated and not timed: the same operator has the same plan on any machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tilewright.debug.planning.extents import Extents
from tilewright.debug.planning.probing import Probe, flat
from tilewright.launch.host import inputs_of
from tilewright.launch.launch import Launch
from tilewright.records import Case
from tilewright.spec.mode import Mode
from tilewright.spec.virtual import is_huge

PER_OPERATION = 25e-6
"""Seconds of the executor for an operation of a launch, on one core."""
PER_LANE = 3e-9
PER_CALL = 10e-6
"""Seconds of PyTorch for an operation of the reference."""
PER_ELEMENT = 2e-9
MOST_ELEMENTS = 1 << 26
"""Of all results of the reference's operations together."""
CALLS = 9
"""How often a case calls its reference: for its values, for the tolerance of each, for gradients."""


def of_launches(launches: Sequence[Launch], read: Sequence[Extents | None]) -> float:
    """Seconds to execute launches, from their lanes, programs and trips round loops."""
    total = 0.0
    for launch, known in zip(launches, read, strict=False):
        if known is not None and launch.programs:
            operations, lanes = known.cost(flat(launch), launch.programs)
            total += operations * PER_OPERATION + lanes * PER_LANE
    return total


@dataclass(frozen=True)
class ReferenceCost:
    """Seconds of the reference in the first case, and by which power of each size they grow."""

    sizes: Mapping[str, int]
    calls: float
    elements: float
    powers: Mapping[str, tuple[float, float]]

    def of(self, case: Case) -> float:
        """Seconds of all calls of the reference that a case makes; infinite where they take much memory."""
        calls, elements = self.calls, self.elements
        for dim, (call_power, element_power) in self.powers.items():
            size = case.arguments.get(dim)
            if isinstance(size, int):
                ratio = max(size, 1) / max(self.sizes[dim], 1)
                calls, elements = calls * ratio**call_power, elements * ratio**element_power
        if elements > MOST_ELEMENTS:
            return math.inf
        return CALLS * (calls * PER_CALL + elements * PER_ELEMENT)


def of_reference(probe: Probe) -> ReferenceCost:
    """Counts what the reference does in the first case, and with each size doubled."""
    reference, first = probe.operator.reference, probe.first
    sizes = {dim: size for dim in probe.operator.dims if isinstance(size := first.arguments.get(dim), int)}
    base = None if reference is None else _counted(probe, reference, first)
    if reference is None or base is None:
        return ReferenceCost(sizes, 0.0, 0.0, {})
    powers = {}
    for dim, size in sizes.items():
        other = 2 * max(size, 1)
        changed = _counted(probe, reference, replace(first, arguments={**first.arguments, dim: other}))
        if changed is None:
            powers[dim] = (0.0, 1.0)
            continue
        ratio = math.log2(other / max(size, 1)) or 1.0
        calls, elements = (max(math.log2(b / a) / ratio, 0.0) for a, b in zip(base, changed, strict=True))
        powers[dim] = (calls, elements)
    return ReferenceCost(sizes, *base, powers)


def _counted(probe: Probe, reference: Callable[..., Any], case: Case) -> tuple[float, float] | None:
    """Operations and elements of a call of the reference; None where it or its inputs refuse the case."""
    counting = _Counting()
    try:
        if not probe.operator.allows(case.arguments):
            return None
        if not probe.is_modest(case):
            return None
        inputs = inputs_of(probe.operator, case)
        if is_huge(inputs):
            return None
        plain = inputs.map(lambda tensor: tensor.detach()).copy()
        with torch.no_grad(), counting:
            reference(*plain.args, **dict(plain.kwargs))
    except Exception:
        return None
    return counting.calls + 1.0, counting.elements + 1.0


class _Counting(Mode):
    """Counts operations, and the elements of their results."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = self.elements = 0

    def dispatch(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        result = func(*args, **kwargs)
        self.calls += 1
        if isinstance(result, Tensor):
            self.elements += result.numel()
        return result
