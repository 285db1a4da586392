"""Edits to integer arithmetic: division as Python has it, offsets in 64 bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tilewright.debug.causes.change import AtSite, Change, Edits, Inner
from tilewright.debug.causes.site import Site, site_of
from tilewright.debug.executor.machine import Handler, Machine
from tilewright.debug.executor.tile import Tile, any_set
from tilewright.launch.ttir import Op


@dataclass(frozen=True)
class PythonDivision(AtSite):
    """``//`` and ``%`` that round towards minus infinity, as Python's do, and not towards zero."""

    site: Site
    cause = "integer-division-semantics"

    def run(self, edits: Edits, machine: Machine, op: Op, operands: list[Tile], inner: Inner) -> Any:
        a, b = operands
        tile = inner(machine, op, operands)
        crosses = rounds_differently(a.data, b.data)
        if not any_set(crosses):
            return tile
        edits.took_effect(self)
        step = torch.where(crosses, b.data if op.name == "arith.remsi" else torch.tensor(-1), 0)
        return Tile(tile.data + step, tile.shape, tile.element, None, tile.poison)


def rounds_differently(a: Tensor, b: Tensor) -> Tensor:
    """Where a quotient of integers is negative and not whole."""
    return ((a < 0) != (b < 0)) & (b != 0) & (torch.fmod(a, torch.where(b == 0, 1, b)) != 0)


_WRAPPING = ("arith.addi", "arith.subi", "arith.muli", "arith.shli")


def widening_offsets(edits: Edits, handlers: Mapping[str, Handler]) -> dict[str, Handler]:
    """Handlers whose addresses have the offsets that nothing wrapped."""
    add = handlers["tt.addptr"]

    def added(machine: Machine, op: Op, operands: list[Tile]) -> Any:
        tile = add(machine, op, operands)
        if tile.wide is not None:
            edits.took_effect(WideOffsets())
            tile.data, tile.wide, tile.bounds = tile.wide, None, None
        return tile

    wrapping = {name: _noting(edits, handlers[name]) for name in _WRAPPING}
    return {**handlers, "tt.addptr": added, **wrapping}


def _noting(edits: Edits, handler: Handler) -> Handler:
    """A handler that notes where a value wraps whose operands had not."""

    def noted(machine: Machine, op: Op, operands: list[Tile]) -> Any:
        tile = handler(machine, op, operands)
        if tile.wide is not None and all(operand.wide is None for operand in operands):
            edits.wrapped.add(site_of(machine, op))
        return tile

    return noted


@dataclass(frozen=True)
class WideOffsets(Change):
    """Offsets computed in 64 bits."""

    cause = "offset-overflow"
    layers = (widening_offsets,)

    @property
    def where(self) -> Site | None:
        return None
