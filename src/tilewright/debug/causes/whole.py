"""Edits to a whole call: memory, order, and the turns of a loop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tilewright.debug.causes.change import Edits, OfRegion, WholeRun
from tilewright.debug.causes.site import Site
from tilewright.debug.executor.machine import Machine
from tilewright.debug.executor.tile import Tile
from tilewright.launch.ttir import Op


@dataclass(frozen=True)
class InSequence(WholeRun):
    """Programs one after the other."""

    cause = "race"

    def switch(self, edits: Edits) -> None:
        edits.in_sequence = True
        edits.took_effect(self)


@dataclass(frozen=True)
class ZeroedMemory(WholeRun):
    """Memory that ``torch.empty`` hands out holds zeros, and counts as written."""

    cause = "uninitialized-memory"

    def switch(self, edits: Edits) -> None:
        edits.zeroed = True
        edits.took_effect(self)


@dataclass(frozen=True)
class OneMoreTurn(OfRegion):
    """A loop that goes round once more."""

    site: Site
    cause = "loop-bound"

    def entered(self, edits: Edits, machine: Machine, op: Op, scope: Any) -> tuple[Op, Any]:
        if op.cache is None:
            names = op.operands
            op.cache = (*names[:4], list(names[4::2]), list(names[5::2]))
        variable, low, high, step, arguments, initial = op.cache
        end, stride = scope[high], scope[step]
        fresh = f"{high} and one more"
        inner = scope.inner()
        inner.values[fresh] = Tile(end.data + stride.data.clamp(min=1), (), end.element)
        edits.took_effect(self)
        return replace(op, cache=(variable, low, fresh, step, arguments, initial)), inner
