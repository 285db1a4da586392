"""Loads through pointers."""

from __future__ import annotations

import torch
from torch import Tensor

from tilewright.debug.executor import elements
from tilewright.debug.executor.faults import Origin
from tilewright.debug.executor.machine import Handler, Machine
from tilewright.debug.executor.memory import Region
from tilewright.debug.executor.ops.access import Access, element_index, live_lanes, report_race, shadow_units
from tilewright.debug.executor.ops.lanewise import undefined_where
from tilewright.debug.executor.storage import Storage
from tilewright.debug.executor.tile import Tile, any_set, broadcast_shape, joined_poison
from tilewright.launch.ttir import Op


def load(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    pointer = operands[0]
    mask = operands[1] if len(operands) > 1 else None
    other = operands[2] if len(operands) > 2 else None
    live = live_lanes(machine, op, pointer, mask, "read")
    tile = read(machine, op, pointer, live)
    if mask is None or live is None:
        return tile
    masked = mask.data if mask.data.dim() == tile.data.dim() else mask.data.reshape(tile.data.shape)
    if other is None:
        return undefined_where(machine, op, tile, ~masked, "undefined-lanes", region_name(machine, pointer))
    tile.data = torch.where(masked, tile.data, other.data)
    if other.poison is not None:
        tile.poison = joined_poison([tile, Tile(other.data, (), "", None, other.poison * ~masked)])
    return tile


def region_name(machine: Machine, pointer: Tile) -> str | None:
    """The parameter that all lanes of a tile of pointers point into."""
    base = pointer.base
    return machine.memory.regions[base].name if isinstance(base, int) and base >= 0 else None


def read(machine: Machine, op: Op, pointer: Tile, live: Tensor | None) -> Tile:
    """Values at addresses; lanes that are not live, or outside, hold 0."""
    element = pointer.element[4:-1]
    size = elements.size(element)
    access = Access(machine, op, pointer, size, "read", live)
    machine.stamp += 1
    shape = pointer.data.shape if live is None else broadcast_shape(pointer.data.shape, live.shape)
    raw: Tensor | None = None
    poison: Tensor | None = None
    parts = access.per_region()
    for region, lanes in parts:
        inside = access.checked(region, lanes)
        if region is None or region.low == region.high:
            continue
        values, unset = _gathered(access, region, inside, shape)
        if len(parts) > 1 and inside is not None:
            values = values * inside.expand(shape)
        raw = values if raw is None else raw + values
        if unset is not None:
            poison = unset if poison is None else torch.maximum(poison, unset)
    if raw is None:
        raw = torch.zeros(shape, dtype=elements.MEMORY[size])
    tile = Tile(elements.from_memory(raw, element), pointer.shape, element, None, poison)
    if element.startswith("ptr<"):
        tile.extra = 1
    return tile


def _gathered(
    access: Access, region: Region, inside: Tensor | None, shape: tuple[int, ...]
) -> tuple[Tensor, Tensor | None]:
    """Raw values, zero where not inside, and the poison of those nobody wrote."""
    machine, storage, size = access.machine, region.storage, access.size
    typed = storage.typed(size)
    index = element_index(access.pointer.data, storage, size)
    if inside is not None:
        safe = (region.low - storage.address) // size
        index = torch.where(inside, index, torch.tensor(safe))
    flat = index.reshape(-1)
    values = typed.index_select(0, flat).reshape(index.shape)
    if inside is not None:
        values = values * inside
    poison = None
    undefined = storage.undefined_units()
    if undefined is not None:
        missing = _missing(storage, flat, storage.units_of(size)).reshape(index.shape)
        if inside is not None:
            missing = missing & inside
        if any_set(missing):
            number = machine.faults.origins.number(Origin("uninitialized-read", region.name, machine.place(access.op)))
            poison = missing.to(torch.uint8) * number
    if machine.tracks_reads(storage):
        _note_read(access, region, index, inside)
    if machine.trace is not None:
        machine.trace.access(machine, access.op, region, "read", index * size + storage.address, inside)
    return values, poison


def _missing(storage: Storage, elements: Tensor, units: int) -> Tensor:
    """Elements of which nobody has written some unit."""
    found: Tensor | None = None
    for unit in range(units):
        where = storage.shadow(elements * units + unit)  # may make the plane larger
        assert storage.undefined is not None
        missing = storage.undefined.index_select(0, where)
        found = missing if found is None else found | missing
    assert found is not None
    return found


def is_volatile(op: Op) -> bool:
    """A load that sees what other programs store meanwhile: a look at a flag."""
    attributes = op.attributes
    return (
        op.name.startswith("tt.atomic")
        or attributes.get("isVolatile") == "true"
        or attributes.get("cacheModifier") == "cv"
        or "cache_modifier = cv" in attributes.get("cachePolicy", "")
    )


def _note_read(access: Access, region: Region, index: Tensor, inside: Tensor | None) -> None:
    machine, storage = access.machine, region.storage
    units, programs, lanes = shadow_units(machine, storage, index, inside, access.size)
    if len(units) == 0:
        return
    volatile = is_volatile(access.op)
    relaxed = access.op.body.startswith("relaxed")  # an atomic load that orders nothing
    if volatile and not relaxed and machine.races.order is not None:
        # A flag polled with plain volatile loads: whoever sees it set sees what was released with it.
        machine.races.order.synchronise(
            id(storage), lanes, programs, machine.stamp, acquires=True, looks=True, releases=False
        )
    racing = machine.races.read(storage, units, programs, machine.stamp, volatile=volatile)
    if racing is not None:
        report_race(access, region, "read-write-race", units, programs, racing, lanes)


OPS: dict[str, Handler] = {"tt.load": load}
