"""Atomics: one serial order, that of programs and lanes, which memory ends in and returned values agree with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tilewright.debug.executor import elements
from tilewright.debug.executor.faults import Origin
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
from tilewright.debug.executor.storage import Storage
from tilewright.debug.executor.tile import Tile, any_set
from tilewright.launch.ttir import Op

_TOP = -(1 << 63)
Update = Callable[[Tensor, Tensor], Tensor]

UPDATES: dict[str, Update] = {
    "and": torch.bitwise_and,
    "or": torch.bitwise_or,
    "xor": torch.bitwise_xor,
    "add": torch.add,
    "fadd": torch.add,
    "max": torch.maximum,
    "min": torch.minimum,
    "umax": lambda a, b: torch.maximum(a ^ _TOP, b ^ _TOP) ^ _TOP,
    "umin": lambda a, b: torch.minimum(a ^ _TOP, b ^ _TOP) ^ _TOP,
    "exch": lambda a, b: b,
}


@dataclass(frozen=True)
class Rule:
    """What an atomic does to memory, and what it orders.

    ``wrote``: of what lanes found and brought, which of them stored anything; None for all.
    """

    kind: str
    ordering: str
    function: Update
    wrote: Callable[[Tensor, Tensor], Tensor] | None = None


def _read_modify_write(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    if op.cache is None:
        kind, ordering = (part.strip() for part in op.body.split(",")[:2])
        op.cache = Rule(kind, ordering, UPDATES[kind])
    pointer, value = operands[:2]
    mask = operands[2] if len(operands) > 2 else None
    live = live_lanes(machine, op, pointer, mask, "write")
    return update(machine, op, pointer, value, live, op.cache)


def update(machine: Machine, op: Op, pointer: Tile, value: Tile, live: Tensor | None, rule: Rule) -> Tile:
    """Applies a rule to memory lane by lane; the tile of what memory held before each."""
    element = pointer.element[4:-1]
    size = elements.size(element)
    machine.stamp += 1
    shape = torch.Size((machine.scope.size, *pointer.shape))
    old = torch.zeros(shape, dtype=elements.kept_as(element))
    access = Access(machine, op, pointer, size, "write", live)
    for region, lanes in access.per_region():
        inside = access.checked(region, lanes)
        if region is None or region.low == region.high:
            continue
        reached = access.undefined(value, inside)
        if reached is not None and value.poison is not None:
            machine.report_poison(op, reached, value.poison, f"goes into an atomic on {region.name}")
        _updated(access, region, inside, value.data.expand(shape), rule, old)
    return Tile(old, pointer.shape, element)


def _updated(access: Access, region: Region, inside: Tensor | None, values: Tensor, rule: Rule, old: Tensor) -> None:
    machine, storage, size = access.machine, region.storage, access.size
    element = access.pointer.element[4:-1]
    index = element_index(access.pointer.data, storage, size).expand(values.shape)
    units, programs, flat = shadow_units(machine, storage, index, inside, size)
    if len(units) == 0:
        return
    parts = storage.units_of(size)
    where = flat if parts == 1 else flat[::parts]
    owners = programs if parts == 1 else programs[::parts]
    mine = values.reshape(-1) if inside is None else values[inside.expand(values.shape)]
    if rule.kind != "exch":
        _check_initialised(access, region, units, programs, flat)
    before = _serially(storage.typed(size), where, mine, rule, element)
    if machine.counts_changes:
        machine.changes += not torch.equal(storage.typed(size)[where], elements.to_memory(before, element))
    wrote: Tensor | bool = True if rule.wrote is None else rule.wrote(before, mine)
    _synchronise(access, storage, where, owners, rule.ordering, wrote)
    conflicts = machine.races.write(storage, units, programs, machine.stamp, atomic=True)
    shared = conflicts.shared if rule.kind == "fadd" else None
    for name, lanes in (
        ("write-write-race", conflicts.write_write),
        ("read-write-race", conflicts.read_write),
        ("nondeterministic", shared),
    ):
        if lanes is not None and any_set(lanes):
            report_race(access, region, name, units, programs, lanes, flat)
    if inside is None:
        old.copy_(before.reshape(old.shape))
    else:
        old[inside.expand(old.shape)] = before
    if wrote is True or (isinstance(wrote, Tensor) and any_set(wrote)):
        note_written(machine, access.op, region, units)
    if machine.trace is not None:
        machine.trace.access(machine, access.op, region, "atomic", index * size + storage.address, inside)


def _serially(memory: Tensor, where: Tensor, values: Tensor, rule: Rule, element: str) -> Tensor:
    """Updates in the order of lanes; what each found."""
    order = torch.argsort(where, stable=True)
    address, mine = where[order], values[order]
    starts = torch.ones(len(address), dtype=torch.bool)
    starts[1:] = address[1:] != address[:-1]
    first = starts.nonzero().flatten()
    counts = torch.diff(first, append=torch.tensor([len(address)]))
    found = torch.empty(len(mine), dtype=elements.kept_as(element))
    if int(counts.max()) > len(first) and rule.kind in ("fadd", "add") and element != "bf16":
        for begin, count in zip(first.tolist(), counts.tolist(), strict=True):
            _accumulate(memory, int(address[begin]), mine[begin : begin + count], found[begin : begin + count], element)
    else:
        rank = torch.arange(len(address)) - first.repeat_interleave(counts)
        for turn in range(int(counts.max())):  # the lanes that come as the turn-th to their address
            lanes = (rank == turn).nonzero().flatten() if len(first) < len(address) else torch.arange(len(address))
            spot = address[lanes]
            current = elements.from_memory(memory.index_select(0, spot), element)
            found[lanes] = current
            memory.index_copy_(0, spot, elements.to_memory(_cut(rule.function(current, mine[lanes]), element), element))
    result = torch.empty_like(found)
    result[order] = found
    return result


def _accumulate(memory: Tensor, spot: int, values: Tensor, found: Tensor, element: str) -> None:
    """Many additions to one address: NumPy adds up one after the other, rounding each time."""
    start = elements.from_memory(memory[spot : spot + 1], element)
    sums = np.add.accumulate(torch.cat((start, values)).numpy())
    total = torch.from_numpy(sums)
    found.copy_(total[:-1])
    memory[spot] = elements.to_memory(_cut(total[-1:], element), element)[0]


def _cut(values: Tensor, element: str) -> Tensor:
    return elements.wrapped(values, elements.bits(element)) if values.dtype == torch.int64 else values


def _check_initialised(access: Access, region: Region, units: Tensor, programs: Tensor, flat: Tensor) -> None:
    """An atomic that adds to memory nobody has written."""
    machine, storage = access.machine, region.storage
    if storage.undefined_units() is None:
        return
    assert storage.undefined is not None
    missing = storage.undefined.index_select(0, units)
    if any_set(missing):
        first = int(flat[missing][0]) * access.size + storage.address
        element = region.coordinates(first)
        words = f"an atomic reads {region.name}[{', '.join(map(str, element))}], which nobody has written"
        place = machine.place(access.op)
        machine.faults.add(
            "uninitialized-read",
            place,
            words,
            grid=machine.grid,
            programs=programs[missing].unique().tolist(),
            lanes=int(missing.sum()),
            tensor=region.name,
            element=element,
            origin=Origin("uninitialized-read", region.name, place),
        )


def _synchronise(
    access: Access, storage: Storage, where: Tensor, programs: Tensor, ordering: str, wrote: Tensor | bool
) -> None:
    """Hands on what the programs know. A swap that failed wrote nothing, so it publishes nothing."""
    machine = access.machine
    order = machine.races.order
    if order is None:
        return
    order.synchronise(
        id(storage),
        where,
        programs,
        machine.stamp,
        acquires=ordering in ("acquire", "acq_rel"),
        looks=machine.observed is None or access.op.index in machine.observed,
        releases=wrote if ordering in ("release", "acq_rel") else False,
    )


def _compare_and_swap(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    pointer, expected, value = operands
    element = pointer.element[4:-1]
    if op.cache is None:
        op.cache = op.body.split(",")[0].strip()
    live = live_lanes(machine, op, pointer, None, "write")
    shape = (machine.scope.size, *pointer.shape)
    # Lanes carry what they expect beside what they bring; floats are compared by their bits.
    wanted = elements.to_memory(expected.data.expand(shape).reshape(-1), element)
    brought = value.data.expand(shape).reshape(-1)
    lane = torch.arange(len(wanted)).reshape(shape)

    def meets(current: Tensor, lanes: Tensor) -> Tensor:
        return elements.to_memory(current, element) == wanted[lanes]

    def swapped(current: Tensor, lanes: Tensor) -> Tensor:
        return torch.where(meets(current, lanes), brought[lanes], current)

    carrier = Tile(lane, pointer.shape, "i64", None, _either_poison(expected, value))
    return update(machine, op, pointer, carrier, live, Rule("cas", op.cache, swapped, meets))


def _either_poison(a: Tile, b: Tile) -> Tensor | None:
    if a.poison is None:
        return b.poison
    return a.poison if b.poison is None else torch.maximum(a.poison, b.poison)


OPS: dict[str, Handler] = {"tt.atomic_rmw": _read_modify_write, "tt.atomic_cas": _compare_and_swap}
