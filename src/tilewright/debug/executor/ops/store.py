"""Stores through pointers, and who else stores or reads there."""

from __future__ import annotations

import torch
from torch import Tensor

from tilewright.debug.executor import elements
from tilewright.debug.executor.machine import Handler, Machine
from tilewright.debug.executor.memory import Region
from tilewright.debug.executor.ops.access import (
    Access,
    element_index,
    live_lanes,
    note_written,
    report_race,
    shadow_units,
)
from tilewright.debug.executor.tile import Tile, all_set, any_set
from tilewright.launch.ttir import Op


def store(machine: Machine, op: Op, operands: list[Tile]) -> None:
    pointer, value = operands[:2]
    mask = operands[2] if len(operands) > 2 else None
    live = live_lanes(machine, op, pointer, mask, "write")
    write(machine, op, pointer, value, live)


def write(machine: Machine, op: Op, pointer: Tile, value: Tile, live: Tensor | None) -> None:
    """Stores live lanes, with all checks."""
    element = pointer.element[4:-1]
    size = elements.size(element)
    machine.stamp += 1
    access = Access(machine, op, pointer, size, "write", live)
    for region, lanes in access.per_region():
        inside = access.checked(region, lanes)
        if region is None or region.low == region.high:
            continue
        reached = access.undefined(value, inside)
        if reached is not None and value.poison is not None:
            machine.report_poison(op, reached, value.poison, f"is stored to {access.element(region, reached)}")
        _scattered(access, region, inside, elements.to_memory(value.data, element))


def _scattered(access: Access, region: Region, inside: Tensor | None, raw: Tensor) -> None:
    machine, storage, size = access.machine, region.storage, access.size
    typed = storage.typed(size)
    index = element_index(access.pointer.data, storage, size)
    shape = torch.Size((machine.scope.size, *access.pointer.shape))
    index = index.expand(shape)
    units, programs, flat = shadow_units(machine, storage, index, inside, size)
    if len(units) == 0:
        return
    parts = storage.units_of(size)
    values = raw.expand(shape).reshape(-1) if inside is None else raw.expand(shape)[inside.expand(shape)]
    where = flat if parts == 1 else flat[::parts]
    # Where addresses only grow no two lanes meet, and what is stored is what will be there.
    meets = not all_set(where[1:] > where[:-1])

    def same() -> Tensor:
        return typed.index_select(0, where) == values

    machine.changes += not machine.counts_changes or not all_set(same())
    is_first = storage.writer is None and storage.adder is None
    conflicts = machine.races.write(
        storage,
        units,
        programs,
        machine.stamp,
        atomic=False,
        same=None if is_first else lambda: _spread(same(), parts),
        meets=meets,
    )
    typed.scatter_(0, where, values)
    overwritten = typed.index_select(0, where) != values if meets else torch.zeros(len(where), dtype=torch.bool)
    owners = programs if parts == 1 else programs[::parts]
    if meets and any_set(overwritten):
        _disagreement(access, region, where, owners, overwritten)
    if conflicts.write_write is not None:
        _split_by_value(access, region, conflicts.write_write, units, programs, flat, overwritten, parts)
    if conflicts.redundant is not None and any_set(conflicts.redundant):
        report_race(access, region, "redundant-write", units, programs, conflicts.redundant, flat)
    if conflicts.read_write is not None:
        report_race(access, region, "read-write-race", units, programs, conflicts.read_write, flat)
    note_written(machine, access.op, region, units)
    if machine.trace is not None:
        machine.trace.access(machine, access.op, region, "write", index * size + storage.address, inside)


def _split_by_value(
    access: Access,
    region: Region,
    clashing: Tensor,
    units: Tensor,
    programs: Tensor,
    flat: Tensor,
    overwritten: Tensor,
    parts: int,
) -> None:
    """Programs of one access that meet in an element: a race if their values differ, else redundant."""
    last = region.storage.writer
    assert last is not None
    lost = last.index_select(0, units) != programs
    changed = _spread(overwritten, parts)
    # An element is contested where any of the programs that meet in it had another value than what landed.
    contested = torch.zeros(1, dtype=torch.bool)
    if any_set(changed):
        marks = units[changed].unique()
        contested = torch.isin(units, marks)
    earlier = clashing & ~lost  # an earlier access's program wrote here, and something else
    real = earlier | (lost & contested)
    if any_set(real):
        report_race(access, region, "write-write-race", units, programs, real, flat)
    equal = lost & ~contested
    if any_set(equal):
        report_race(access, region, "redundant-write", units, programs, equal, flat)


def _spread(plane: Tensor, parts: int) -> Tensor:
    return plane if parts == 1 else plane.repeat_interleave(parts)


def _disagreement(access: Access, region: Region, where: Tensor, owners: Tensor, overwritten: Tensor) -> None:
    """Lanes of one program that store different values to one address."""
    machine = access.machine
    last = torch.zeros(int(where.max()) + 1, dtype=torch.int32)
    last.scatter_(0, where, owners)
    own = overwritten & (last.index_select(0, where) == owners)
    if not any_set(own):
        return
    who = owners[own].unique().tolist()
    first = int(where[own][0]) * access.size + region.storage.address
    words = f"lanes of one program store different values to {region.name}[{', '.join(map(str, region.coordinates(first)))}]"
    machine.faults.add(
        "write-conflict",
        machine.place(access.op),
        words,
        grid=machine.grid,
        programs=who,
        lanes=int(own.sum()),
        tensor=region.name,
        element=region.coordinates(first),
    )


OPS: dict[str, Handler] = {"tt.store": store}
