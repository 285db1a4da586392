"""Edits to what loads and stores take part in: the value of lanes that are masked off, and the mask itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tilewright.debug.causes.change import AtSite, Edits, Inner
from tilewright.debug.causes.extent import Axes, within_each
from tilewright.debug.causes.naming import named_values
from tilewright.debug.causes.site import Site
from tilewright.debug.executor import elements
from tilewright.debug.executor.machine import Machine
from tilewright.debug.executor.memory import Region
from tilewright.debug.executor.tile import Block, Tile, all_set, any_set
from tilewright.launch.ttir import Op

MASK_AT = {"tt.load": 1, "tt.store": 2, "tt.atomic_rmw": 2}
"""Position of the mask among the operands of an access."""
FILLERS = ("0", "-inf", "inf", "1")


def filler(word: str, element: str) -> float | int:
    """One of :data:`FILLERS` as a value of an element type: infinities are the ends of an integer's range."""
    if elements.is_float(element):
        return float(word)
    if word in ("0", "1"):
        return int(word)
    low, high = elements.integer_range(elements.bits(element))
    return low if word == "-inf" else high


def can_fill(element: str) -> bool:
    return elements.is_float(element) or (elements.is_integer(element) and element != "i1")


@dataclass(frozen=True)
class Other(AtSite):
    """What a load gives its lanes that are masked off."""

    site: Site
    value: str
    cause = "wrong-neutral-element"

    @property
    def alternatives(self) -> Any:
        return ("other", self.site)

    def run(self, edits: Edits, machine: Machine, op: Op, operands: list[Tile], inner: Inner) -> Any:
        pointer = operands[0]
        element = pointer.element[4:-1]
        if len(operands) < 2 or not can_fill(element):
            return inner(machine, op, operands)
        edits.elements[self.site] = element
        if not all_set(operands[1].data):
            edits.took_effect(self)
        return inner(machine, op, [pointer, operands[1], constant(pointer, filler(self.value, element))])


@dataclass(frozen=True)
class Masked(AtSite):
    """An access that takes part only where a mask of the kernel's own says so, as well as its own.

    ``variable`` is a mask of one axis, or of all where ``axis`` is None.
    """

    site: Site
    variable: str
    axis: int | None
    cause = "missing-mask"

    @property
    def alternatives(self) -> Any:
        return ("mask", self.site)

    def run(self, edits: Edits, machine: Machine, op: Op, operands: list[Tile], inner: Inner) -> Any:
        added = masks_in_scope(machine, operands[0]).get((self.variable, self.axis))
        if added is None:
            return inner(machine, op, operands)
        return inner(machine, op, _masked_by(edits, self, op, operands, added))


@dataclass(frozen=True)
class NotBelow(AtSite):
    """An access that takes part only where an index of the kernel's own is not negative, as well as its own mask says.

    Behind the start of a row lies the end of the one before: no view tells. ``axis`` as in :class:`Masked`.
    """

    site: Site
    variable: str
    axis: int | None
    cause = "missing-mask"

    def run(self, edits: Edits, machine: Machine, op: Op, operands: list[Tile], inner: Inner) -> Any:
        index = indices_in_scope(machine, operands[0]).get((self.variable, self.axis))
        if index is None:
            return inner(machine, op, operands)
        return inner(machine, op, _masked_by(edits, self, op, operands, index >= 0))


def _masked_by(edits: Edits, change: AtSite, op: Op, operands: list[Tile], added: Tensor) -> list[Tile]:
    """The operands of an access that takes part only where ``added`` holds as well."""
    pointer, at = operands[0], MASK_AT[op.name]
    edits.elements[change.site] = pointer.element[4:-1]
    edits.ranks[change.site] = len(pointer.shape)
    mask = operands[at].data if len(operands) > at else None
    if any_set(~added if mask is None else mask & ~added):
        edits.took_effect(change)
    both = added if mask is None else mask & added
    changed = [*operands[:at], Tile(both, pointer.shape, "i1"), *operands[at + 1 :]]
    if op.name == "tt.load" and len(changed) == 2 and can_fill(pointer.element[4:-1]):
        changed.append(constant(pointer, 0))
    return changed


def masks_in_scope(machine: Machine, pointer: Tile) -> dict[tuple[str, int | None], Tensor]:
    """The kernel's variables that could be a mask of a tile of pointers, with the axis that they run along."""
    return _in_scope(machine, pointer, lambda element: element == "i1")


def indices_in_scope(machine: Machine, pointer: Tile) -> dict[tuple[str, int | None], Tensor]:
    """The kernel's variables that could be an index of a tile of pointers, with the axis that they run along."""
    return _in_scope(machine, pointer, lambda element: elements.is_integer(element) and element != "i1")


def _in_scope(machine: Machine, pointer: Tile, wanted: Callable[[str], bool]) -> dict[tuple[str, int | None], Tensor]:
    found: dict[tuple[str, int | None], Tensor] = {}
    rank = len(pointer.shape)
    for name, tile, _ in named_values(machine, machine.scope):
        if not tile.shape or not wanted(tile.element):
            continue
        if tile.shape == pointer.shape:
            found[name, None if rank > 1 else 0] = tile.data
        elif len(tile.shape) == 1:
            for axis in (axis for axis, size in enumerate(pointer.shape) if size == tile.shape[0]):
                shape = [tile.data.shape[0]] + [1] * rank
                shape[axis + 1] = tile.data.shape[1]
                found[name, axis] = tile.data.reshape(shape)
    return found


@dataclass(frozen=True)
class Shifted(AtSite):
    """A comparison of indices whose right side is one more, or one less."""

    site: Site
    by: int
    cause = "wrong-bound"

    @property
    def alternatives(self) -> Any:
        return ("shifted", self.site)

    def run(self, edits: Edits, machine: Machine, op: Op, operands: list[Tile], inner: Inner) -> Any:
        a, b = operands
        shifted = Tile(b.data + self.by, b.shape, b.element, None, b.poison)
        edits.took_effect(self)
        return inner(machine, op, [a, shifted])


@dataclass(frozen=True)
class WhereOther(AtSite):
    """The constant that ``tl.where`` gives where its condition does not hold."""

    site: Site
    value: str
    cause = "wrong-neutral-element"

    @property
    def alternatives(self) -> Any:
        return ("where", self.site)

    def run(self, edits: Edits, machine: Machine, op: Op, operands: list[Tile], inner: Inner) -> Any:
        condition, yes, no = operands
        if no.data.numel() != 1 or not can_fill(no.element):
            return inner(machine, op, operands)
        if not all_set(condition.data):
            edits.took_effect(self)
        edits.elements[self.site] = no.element
        data = torch.full_like(no.data, filler(self.value, no.element))
        return inner(machine, op, [condition, yes, Tile(data, no.shape, no.element)])


def constant(pointer: Tile, value: float) -> Tile:
    """A tile of one value, of the type and shape that a tile of pointers points to."""
    element = pointer.element[4:-1]
    data = torch.full((1,) * (len(pointer.shape) + 1), value, dtype=elements.kept_as(element))
    return Tile(data, pointer.shape, element)


@dataclass(frozen=True)
class Bounded(AtSite):
    """An access that takes part only inside its tensor's view, along some of its dims.

    ``exactly``: everywhere inside, whatever the kernel's mask leaves out there.
    """

    site: Site
    tensor: str
    axes: Axes
    exactly: bool = False

    @property
    def cause(self) -> str:  # type: ignore[override]
        return "wrong-bound" if self.exactly else "missing-mask"

    @property
    def alternatives(self) -> Any:
        return ("mask", self.site)

    def run(self, edits: Edits, machine: Machine, op: Op, operands: list[Tile], inner: Inner) -> Any:
        pointer, at = operands[0], MASK_AT[op.name]
        region = region_of(machine, pointer)
        if region is None or region.name != self.tensor:
            return inner(machine, op, operands)
        mask = (
            operands[at].data if len(operands) > at else torch.ones((1,) * (len(pointer.shape) + 1), dtype=torch.bool)
        )
        edits.elements[self.site] = pointer.element[4:-1]
        inside = region.inside(pointer.data, elements.size(pointer.element[4:-1]))
        for axis, (_, kept) in within_each(pointer, region, self.axes).items():
            if self.exactly or any_set(mask & ~kept):  # what the mask sees to already needs no word
                edits.note_kept(self, machine, op, axis, len(pointer.shape), kept.reshape(kept.shape[0], -1))
            inside = inside & kept
        bounded = inside if self.exactly else mask & inside
        if not torch.equal(*torch.broadcast_tensors(bounded, mask)):
            edits.took_effect(self)
        changed = [*operands[:at], Tile(bounded, pointer.shape, "i1"), *operands[at + 1 :]]
        if op.name == "tt.load" and len(changed) == 2 and can_fill(pointer.element[4:-1]):
            changed.append(constant(pointer, 0))
        return inner(machine, op, changed)


def region_of(machine: Machine, pointer: Tile) -> Region | None:
    """The tensor that all lanes of a plain tile of pointers point into."""
    plain = pointer.element.startswith("ptr<") and not isinstance(pointer.extra, Block)
    if not plain or not isinstance(pointer.base, int) or pointer.base < 0:
        return None
    region = machine.memory.regions[pointer.base]
    return None if region.low == region.high else region


def is_partial(mask: Tensor) -> bool:
    return any_set(mask) and not all_set(mask)


def same_value(tile: Tile, value: float) -> bool:
    """Whether a tile holds one value everywhere."""
    own = tile.data
    return bool((own.isnan() if math.isnan(value) else own == value).all())
