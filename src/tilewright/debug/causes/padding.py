"""Lanes beyond a tensor's extent, followed through a kernel, and kept out of what reduces them.

What a load masks off is marked as poison is, and travels as poison does: a ``tl.where`` that discards it ends
its mark. A reduction that meets marked lanes beside others takes values into account that belong to no element.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tilewright.debug.causes.change import AtSite, Edits, Inner
from tilewright.debug.causes.masks import can_fill, filler
from tilewright.debug.causes.site import Site
from tilewright.debug.executor.faults import Origins
from tilewright.debug.executor.machine import Handler, Machine
from tilewright.debug.executor.ops.reduction import single_operation
from tilewright.debug.executor.tile import Tile, any_set
from tilewright.launch.ttir import Op, integer

REDUCTIONS = frozenset(("tt.reduce", "tt.scan", "tt.dot"))
_NEUTRAL = {
    "arith.addf": "0",
    "arith.addi": "0",
    "arith.ori": "0",
    "arith.xori": "0",
    "arith.mulf": "1",
    "arith.muli": "1",
    **dict.fromkeys(("arith.maxnumf", "arith.maximumf", "arith.maxsi"), "-inf"),
    **dict.fromkeys(("arith.minnumf", "arith.minimumf", "arith.minsi"), "inf"),
}


def marking(edits: Edits, handlers: Mapping[str, Handler]) -> dict[str, Handler]:
    """Handlers whose loads mark the lanes that they mask off.

    What reduces lanes gives a marked result where all that went into it was marked.
    """
    load = handlers["tt.load"]

    def marked(machine: Machine, op: Op, operands: list[Tile]) -> Any:
        tile = load(machine, op, operands)
        if len(operands) > 1 and isinstance(tile, Tile) and operands[1].element == "i1":
            mark(tile, ~operands[1].data)
        return tile

    reducing = {name: _reducing(handlers[name]) for name in REDUCTIONS}
    return {**handlers, "tt.load": marked, **reducing}


def mark(tile: Tile, lanes: Tensor) -> None:
    """Marks lanes of a tile as padding."""
    if not any_set(lanes):
        return
    own = lanes.to(torch.uint8) * Origins.PADDED
    tile.poison = own if tile.poison is None else torch.maximum(tile.poison, own)


def _reducing(handler: Handler) -> Handler:
    def reduced(machine: Machine, op: Op, operands: list[Tile]) -> Any:
        padded = [None if t.poison is None else (t.poison == Origins.PADDED) for t in operands]
        if not any(lanes is not None and any_set(lanes) for lanes in padded):
            return handler(machine, op, operands)
        result = handler(machine, op, [_unmarked(tile) for tile in operands])
        for tile in result if isinstance(result, list) else [result]:
            for position, (lanes, operand) in enumerate(zip(padded, operands, strict=True)):
                if lanes is not None:
                    mark(tile, _only_padding(op, position, lanes.expand(-1, *operand.shape)))
        return result

    return reduced


def _unmarked(tile: Tile) -> Tile:
    if tile.poison is None:
        return tile
    poison = tile.poison.masked_fill(tile.poison == Origins.PADDED, 0)
    return replace(tile, poison=poison if any_set(poison != 0) else None)


def _only_padding(op: Op, position: int, lanes: Tensor) -> Tensor:
    """Results that came of marked lanes alone; ``lanes`` are an operand's, at its full size."""
    if op.name == "tt.dot" and position < 2:
        axis = (-1, -2)[position]
        return lanes.all(axis, keepdim=True)
    if op.name == "tt.reduce":
        return lanes.all(integer(op.attributes, "axis") + 1)
    return lanes


def filled(tile: Tile, word: str) -> Tile:
    """The tile with another value in its marked lanes, which are marked no longer."""
    assert tile.poison is not None
    value = torch.tensor(filler(word, tile.element)).to(tile.data.dtype)
    return Tile(torch.where(tile.poison != 0, value, tile.data), tile.shape, tile.element)


@dataclass(frozen=True)
class Excluded(AtSite):
    """A reduction or product that leaves marked lanes out: they hold its neutral element for it alone."""

    site: Site
    value: str
    cause = "padded-lanes-in-reduction"
    layers = (marking,)

    @property
    def alternatives(self) -> Any:
        return ("excluded", self.site)

    def run(self, edits: Edits, machine: Machine, op: Op, operands: list[Tile], inner: Inner) -> Any:
        changed = []
        for position, tile in enumerate(operands):
            if tile.poison is not None and can_fill(tile.element):
                edits.took_effect(self)
                edits.elements[self.site] = tile.element
                _note_lanes(self, edits, machine, op, tile, reduced_axis(op, tile, position))
                tile = filled(tile, self.value)
            changed.append(tile)
        return inner(machine, op, changed)


@dataclass(frozen=True)
class Filled(AtSite):
    """A value whose marked lanes hold something else from here on: ``x = tl.where(inside, x, value)``."""

    site: Site
    value: str
    axis: int  # along which lanes are reduced
    cause = "padded-lanes-in-reduction"
    layers = (marking,)

    @property
    def alternatives(self) -> Any:
        return ("filled", self.site)

    def run(self, edits: Edits, machine: Machine, op: Op, operands: list[Tile], inner: Inner) -> Any:
        result = inner(machine, op, operands)
        if not isinstance(result, Tile) or result.poison is None or not can_fill(result.element):
            return result
        edits.took_effect(self)
        edits.elements[self.site] = result.element
        _note_lanes(self, edits, machine, op, result, self.axis)
        return filled(result, self.value)


def _note_lanes(change: AtSite, edits: Edits, machine: Machine, op: Op, tile: Tile, axis: int) -> None:
    """Which lanes are kept along an axis: those that are not marked wherever they are along the others."""
    assert tile.poison is not None
    marked = (tile.poison != 0).expand(-1, *tile.shape)
    others = [i + 1 for i in range(len(tile.shape)) if i != axis]
    edits.note_kept(change, machine, op, axis, len(tile.shape), ~(marked.all(others) if others else marked))


def neutral(machine: Machine, op: Op) -> tuple[str, ...]:
    """What may keep a lane out of a reduction: its neutral element, or where that is not known all there are."""
    if op.name == "tt.dot":
        return ("0",)
    only = single_operation(machine, op)
    known = None if only is None else _NEUTRAL.get(only.name)
    return (known,) if known else ("-inf", "inf", "0")


def mixes(op: Op, tile: Tile, position: int) -> bool:
    """Whether a reduction takes marked lanes of a tile together with others."""
    if tile.poison is None or not can_fill(tile.element):
        return False
    marked = tile.poison != 0
    if not any_set(marked):
        return False
    axis = reduced_axis(op, tile, position) + 1
    full = marked.expand(*marked.shape[:1], *tile.shape)
    some, every = full.any(axis), full.all(axis)
    return any_set(some & ~every)


def reduced_axis(op: Op, tile: Tile, position: int) -> int:
    """The axis of an operand that a reduction or product sums over."""
    if op.name != "tt.dot":
        return integer(op.attributes, "axis")
    return len(tile.shape) - (1 if position == 0 else 2)
