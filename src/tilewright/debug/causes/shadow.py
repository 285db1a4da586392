"""Where a kernel's values first leave those that float64 would have had.

For a mismatch that no edit mends: the case runs as it is and once more with everything computed in float64, and
the results of each line are held side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tilewright.debug.causes.change import Edits
from tilewright.debug.causes.precision import AllWidened, computes
from tilewright.debug.causes.site import Site, site_of
from tilewright.debug.check import Repeated
from tilewright.debug.executor import elements
from tilewright.debug.executor.machine import Handler, Machine
from tilewright.debug.executor.tile import Tile
from tilewright.errors import TilewrightError
from tilewright.launch.launch import Launch
from tilewright.launch.ttir import Op

ROUNDINGS = 64
"""Roundings of its own type by which the values of a line may be off before it is named."""
_MOST_VALUES = 1 << 24


@dataclass(frozen=True)
class Departure:
    """The first line whose values are off by more than a few roundings, and by how many."""

    site: Site
    name: str | None
    relative_error: float
    roundings: float


@dataclass(frozen=True)
class _Value:
    site: Site
    name: str | None
    element: str
    data: Tensor


@dataclass(eq=False)
class _Logged(Edits):
    """Edits that keep what each operation on floats gives."""

    values: list[_Value] = field(default_factory=list)
    kept: int = 0

    def prepare(self, machine: Machine, launch: Launch) -> None:
        super().prepare(machine, launch)
        machine.handlers = _logging(self, machine.handlers)


def _logging(log: _Logged, handlers: Mapping[str, Handler]) -> dict[str, Handler]:
    def around(handler: Handler) -> Handler:
        def logged(machine: Machine, op: Op, operands: list[Tile]) -> Any:
            result = handler(machine, op, operands)
            if isinstance(result, Tile) and result.element in elements.FLOATS and log.kept < _MOST_VALUES:
                log.kept += result.data.numel()
                name, element = op.location.name, op.result_types[0].element
                log.values.append(_Value(site_of(machine, op), name, element, result.data))
            return result

        return logged

    return {name: around(handler) if computes(name) else handler for name, handler in handlers.items()}


def first_departure(case: Repeated) -> Departure | None:
    """The first intermediate of a case that rounding alone does not explain; None where there is none.

    None too where float64 takes another way through the kernel, or the kernel cannot be computed in it.
    """
    plain, wide = _Logged(frozenset()), _Logged(frozenset({AllWidened("f64")}))
    try:
        case.run(plain)
        case.run(wide)
    except TilewrightError:
        return None
    for ours, exact in zip(plain.values, wide.values, strict=False):
        if ours.site != exact.site or ours.data.shape != exact.data.shape:
            return None
        found = _departs(ours, exact.data)
        if found is not None:
            return found
    return None


def _departs(ours: _Value, exact: Tensor) -> Departure | None:
    a, b = ours.data.double(), exact.double()
    both = a.isfinite() & b.isfinite()
    if not bool(both.any()):
        return None
    largest = float(torch.where(both, b, 0.0).abs().max())
    error = float(torch.where(both, a - b, 0.0).abs().max())
    unit = torch.finfo(elements.FLOATS[ours.element]).eps / 2
    if largest == 0.0 or error <= ROUNDINGS * unit * largest:
        return None
    return Departure(ours.site, ours.name, error / largest, error / largest / unit)
