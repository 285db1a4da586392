"""Edits for rows of which nothing is left: their maximum is minus infinity, their sum is zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tilewright.debug.causes.change import AtSite, Edits, Inner
from tilewright.debug.causes.site import Site
from tilewright.debug.executor import elements
from tilewright.debug.executor.machine import Machine
from tilewright.debug.executor.tile import Tile, any_set
from tilewright.launch.ttir import Op


@dataclass(frozen=True)
class GuardedMaximum(AtSite):
    """A maximum that is 0 where it would be minus infinity: what is subtracted from then stays a number."""

    site: Site
    cause = "empty-row"

    def run(self, edits: Edits, machine: Machine, op: Op, operands: list[Tile], inner: Inner) -> Any:
        result = inner(machine, op, operands)
        if isinstance(result, Tile) and is_empty_maximum(result):
            edits.took_effect(self)
            data = result.data.masked_fill(result.data == -torch.inf, 0.0)
            return Tile(data, result.shape, result.element, None, result.poison)
        return result


@dataclass(frozen=True)
class GuardedDivisor(AtSite):
    """A divisor that is 1 where it would be zero."""

    site: Site
    cause = "empty-row"

    def run(self, edits: Edits, machine: Machine, op: Op, operands: list[Tile], inner: Inner) -> Any:
        divisor = operands[1]
        if is_zero_somewhere(divisor):
            edits.took_effect(self)
            data = divisor.data.masked_fill(divisor.data == 0, 1)
            divisor = Tile(data, divisor.shape, divisor.element, None, divisor.poison)
        return inner(machine, op, [operands[0], divisor])


def is_empty_maximum(tile: Tile) -> bool:
    return elements.is_float(tile.element) and any_set(tile.data == -torch.inf)


def is_zero_somewhere(tile: Tile) -> bool:
    return elements.is_float(tile.element) and any_set(tile.data == 0)
