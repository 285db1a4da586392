"""What all lane-by-lane operations share: how shadows of operands become those of the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from tilewright.debug.executor import elements
from tilewright.debug.executor.faults import Origin
from tilewright.debug.executor.machine import Machine
from tilewright.debug.executor.tile import Bounds, Tile, any_set, joined_poison
from tilewright.launch.ttir import Op

NO_FLOAT8 = "fp8 is for memory and tl.dot: the compiler has no arithmetic on it; convert to a wider type first"


def result(op: Op, data: Tensor, operands: Sequence[Tile], bounds: Bounds | None = None) -> Tile:
    """The tile of an operation's first result: a lane is undefined where one of its operands is."""
    kind = op.result_types[0]
    return Tile(data, kind.shape, kind.element, bounds, joined_poison(operands))


def unary(function: Callable[[Tensor], Tensor]) -> Callable[[Machine, Op, list[Tile]], Tile]:
    def handler(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
        if operands[0].element in elements.FLOAT8:
            raise machine.unsupported(op, NO_FLOAT8)
        return result(op, function(operands[0].data), operands)

    return handler


def binary(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Machine, Op, list[Tile]], Tile]:
    def handler(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
        if operands[0].element in elements.FLOAT8:
            raise machine.unsupported(op, NO_FLOAT8)
        return result(op, function(operands[0].data, operands[1].data), operands)

    return handler


def undefined_where(machine: Machine, op: Op, tile: Tile, lanes: Tensor, kind: str, tensor: str | None = None) -> Tile:
    """Marks lanes as without a defined value (of a tensor's load): a fault only where they have an effect."""
    if any_set(lanes):
        number = machine.faults.origins.number(Origin(kind, tensor, machine.place(op)))
        own = lanes.to(torch.uint8) * number
        tile.poison = own if tile.poison is None else torch.maximum(tile.poison, own)
    return tile
