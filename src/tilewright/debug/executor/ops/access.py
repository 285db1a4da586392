"""Loads and stores through pointers, with every check on the way."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tilewright.debug.executor import elements
from tilewright.debug.executor.faults import Origin
from tilewright.debug.executor.machine import Handler, Machine
from tilewright.debug.executor.memory import Region, Storage
from tilewright.debug.executor.ops.integer import with_wide
from tilewright.debug.executor.tile import Tile, all_set, any_set, joined_poison, known_bounds
from tilewright.debug.executor.ttir import Op


def _add_pointer(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    pointer, offset = operands
    size = elements.size(pointer.element[4:-1])
    scaled = Tile(offset.data * size, offset.shape, "i64", None, offset.poison)
    if offset.bounds is not None:
        scaled.bounds = (offset.bounds[0] * size, offset.bounds[1] * size)
    if offset.wide is not None:
        scaled.wide = offset.wide * size
    bounds = None
    if pointer.bounds is not None and scaled.bounds is not None:
        bounds = (pointer.bounds[0] + scaled.bounds[0], pointer.bounds[1] + scaled.bounds[1])
    tile = Tile(
        pointer.data + scaled.data,
        pointer.shape,
        pointer.element,
        bounds,
        joined_poison(operands),
        None,
        pointer.base,
        math.gcd(pointer.extra or 1, size),
    )
    return with_wide(tile, torch.add, pointer, scaled)


def _int_to_ptr(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    (a,) = operands
    kind = op.result_types[0]
    return Tile(a.data, a.shape, kind.element, None, a.poison, None, -1, 1)


def _ptr_to_int(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    (a,) = operands
    return Tile(a.data, a.shape, "i64", a.bounds, a.poison, a.wide)


@dataclass
class Access:
    """One access, resolved as far as all loads and stores share it.

    ``address`` and ``live`` are (programs, *shape) or compressed; ``live`` None means all lanes.
    """

    machine: Machine
    op: Op
    pointer: Tile
    size: int
    verb: str
    live: Tensor | None

    def per_region(self) -> list[tuple[Region | None, Tensor | None]]:
        """The regions that live lanes point into, with those lanes."""
        base = self.pointer.base
        if isinstance(base, int) and base >= 0:
            return [(self.machine.memory.regions[base], self.live)]
        return self._by_address() if isinstance(base, int) else self._by_lane(base)

    def _lanes(self) -> Tensor:
        if self.live is None:
            return torch.ones((1,) * self.pointer.data.dim(), dtype=torch.bool)
        return self.live

    def _by_lane(self, base: Tensor) -> list[tuple[Region | None, Tensor | None]]:
        found: list[tuple[Region | None, Tensor | None]] = []
        for number in base.unique().tolist():
            lanes = self._lanes() & (base == number)
            if number >= 0:
                found.append((self.machine.memory.regions[number], lanes))
            elif any_set(lanes):
                inner = Access(self.machine, self.op, self.pointer, self.size, self.verb, lanes)
                found += inner._by_address()
        return found

    def _by_address(self) -> list[tuple[Region | None, Tensor | None]]:
        """Addresses that came from memory: looked up one region after another."""
        left = self._lanes().expand(torch.broadcast_shapes(self._lanes().shape, self.pointer.data.shape))
        addresses = self.pointer.data.expand(left.shape)
        found: list[tuple[Region | None, Tensor | None]] = []
        while any_set(left):
            first = int(addresses[left][0])
            region = self.machine.memory.find(first)
            if region is None:
                lanes = left & (addresses == first)
                found.append((None, lanes))
            else:
                lanes = left & (addresses >= region.low) & (addresses < region.high)
                found.append((region, lanes))
            left = left & ~lanes
        return found

    def checked(self, region: Region | None, live: Tensor | None) -> Tensor | None:
        """The live lanes that are inside, with findings for the others."""
        pointer, machine = self.pointer, self.machine
        if region is None:
            assert live is not None
            bad = int(pointer.data.expand(live.shape)[live][0])
            words = f"{self.verb}s address {bad:#x}, which belongs to no tensor"
            machine.report(self.op, f"out-of-bounds-{self.verb}", live, words)
            return torch.zeros_like(live)
        if pointer.wide is not None:
            live = self._unwrapped(region, live)
        align = pointer.extra or 1
        if align < self.size:
            live = self._aligned(region, live)
        if region.dense or region.low == region.high:
            limit = region.high - self.size
            if pointer.bounds is not None and region.low <= pointer.bounds[0] and pointer.bounds[1] <= limit:
                return live
            low, high = known_bounds(pointer)
            if region.low <= low and high <= limit:
                return live
        outside = ~region.inside(pointer.data, self.size)
        if live is not None:
            outside = outside & live
        if not any_set(outside):
            return live
        self._report_outside(region, outside)
        return ~outside if live is None else live & ~outside

    def _report_outside(self, region: Region, outside: Tensor) -> None:
        address = self._first(outside)
        words = f"{self.verb}s {region.describe(address)}"
        self.machine.report(
            self.op,
            f"out-of-bounds-{self.verb}",
            outside,
            words,
            tensor=region.name,
            element=region.coordinates(address),
        )

    def _first(self, lanes: Tensor) -> int:
        """Address of the first set lane of the first program."""
        size = self.machine.scope.size
        shape = torch.broadcast_shapes(lanes.shape, self.pointer.data.shape)
        lanes = lanes.expand(shape)
        row = 0 if shape[0] != size else self.machine.faulty(lanes)[2]
        return int(self.pointer.data.expand(shape)[row][lanes[row]][0])

    def _unwrapped(self, region: Region, live: Tensor | None) -> Tensor | None:
        """Addresses whose 32-bit offset wrapped on the way."""
        pointer = self.pointer
        assert pointer.wide is not None
        wrong = pointer.wide != pointer.data
        if live is not None:
            wrong = wrong & live
        if any_set(wrong):
            shape = torch.broadcast_shapes(wrong.shape, pointer.wide.shape, pointer.data.shape)
            lanes = wrong.expand(shape)
            row = self.machine.faulty(lanes)[2] if shape[0] == self.machine.scope.size else 0
            true = int(pointer.wide.expand(shape)[row][lanes[row]][0])
            own = region.tensor.element_size()
            words = (
                f"an offset into {region.name} wraps in 32 bits: element {(true - region.low) // own} "
                f"becomes {(self._first(wrong) - region.low) // own}"
            )
            self.machine.report(
                self.op,
                "offset-overflow",
                wrong,
                words,
                tensor=region.name,
                remedy="compute the offset in 64 bits: .to(tl.int64) before the product",
            )
        return live

    def _aligned(self, region: Region, live: Tensor | None) -> Tensor | None:
        crooked = (self.pointer.data & (self.size - 1)) != 0
        if live is not None:
            crooked = crooked & live
        if not any_set(crooked):
            return live
        words = f"{self.verb}s {self.size} bytes of {region.name} at an address that is no multiple of {self.size}"
        self.machine.report(self.op, "misaligned", crooked, words, tensor=region.name)
        return ~crooked if live is None else live & ~crooked


def live_lanes(machine: Machine, op: Op, pointer: Tile, mask: Tile | None, verb: str) -> Tensor | None:
    """Lanes that take part, None for all; reports undefined masks and addresses of live lanes."""
    live = None
    if mask is not None:
        if mask.poison is not None and any_set(mask.poison != 0):
            machine.report_poison(op, mask.poison != 0, mask.poison, f"decides what is {_PAST[verb]}")
        live = mask.data
        if all_set(live):
            live = None
    if pointer.poison is not None:
        wild = pointer.poison != 0 if live is None else (pointer.poison != 0) & live
        if any_set(wild):
            machine.report_poison(op, wild, pointer.poison, f"is part of an address that is {_PAST[verb]}")
            live = ~wild if live is None else live & ~wild
    return live


_PAST = {"read": "read", "write": "written"}


def _load(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    pointer = operands[0]
    mask = operands[1] if len(operands) > 1 else None
    other = operands[2] if len(operands) > 2 else None
    live = live_lanes(machine, op, pointer, mask, "read")
    tile = read(machine, op, pointer, live)
    if mask is not None and live is not None:
        masked = mask.data if mask.data.dim() == tile.data.dim() else mask.data.reshape(tile.data.shape)
        if other is not None:
            tile.data = torch.where(masked, tile.data, other.data)
            if other.poison is not None:
                tile.poison = joined_poison([tile, Tile(other.data, (), "", None, other.poison * ~masked)])
        else:
            base = pointer.base
            name = machine.memory.regions[base].name if isinstance(base, int) and base >= 0 else None
            number = machine.faults.origins.number(Origin("undefined-lanes", name, machine.place(op)))
            own = (~masked).to(torch.uint8) * number
            tile.poison = own if tile.poison is None else torch.maximum(tile.poison, own)
    return tile


def read(machine: Machine, op: Op, pointer: Tile, live: Tensor | None) -> Tile:
    """Values at addresses; lanes that are not live, or outside, hold 0."""
    element = pointer.element[4:-1]
    size = elements.size(element)
    access = Access(machine, op, pointer, size, "read", live)
    machine.stamp += 1
    shape = pointer.data.shape if live is None else torch.broadcast_shapes(pointer.data.shape, live.shape)
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


def _gathered(access: Access, region: Region, inside: Tensor | None, shape: torch.Size) -> tuple[Tensor, Tensor | None]:
    """Raw values, zero where not inside, and the poison of those nobody wrote."""
    machine, storage, size = access.machine, region.storage, access.size
    typed = storage.typed(size)
    index = (access.pointer.data - storage.address) >> (size.bit_length() - 1)
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
        units = storage.units_of(size)
        assert storage.undefined is not None
        missing = storage.undefined.index_select(0, flat * units).reshape(index.shape)
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


def _note_read(access: Access, region: Region, index: Tensor, inside: Tensor | None) -> None:
    machine, storage = access.machine, region.storage
    units, programs, lanes = shadow_units(machine, storage, index, inside, access.size)
    if len(units) == 0:
        return
    racing = machine.races.read(storage, units, programs, machine.stamp)
    if racing is not None:
        report_race(access, region, "read-write-race", units, programs, racing, lanes)


def shadow_units(
    machine: Machine, storage: Storage, index: Tensor, inside: Tensor | None, size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Units touched by live lanes, with their programs and addresses' indices."""
    parts = storage.units_of(size)
    programs = machine.scope.programs.to(torch.int32)
    shape = (machine.scope.size, *index.shape[1:])
    if inside is not None:
        shape = torch.broadcast_shapes(shape, inside.shape)
    wide = index.expand(shape)
    owner = programs.reshape(-1, *(1,) * (index.dim() - 1)).expand(shape)
    if inside is None:
        flat, owners = wide.reshape(-1), owner.reshape(-1)
    else:
        lanes = inside.expand(shape)
        flat, owners = wide[lanes], owner[lanes]
    if parts == 1:
        return flat, owners, flat
    spread = torch.arange(parts)
    units = (flat[:, None] * parts + spread).reshape(-1)
    return units, owners.repeat_interleave(parts), flat.repeat_interleave(parts)


def report_race(
    access: Access, region: Region, kind: str, units: Tensor, programs: Tensor, racing: Tensor, index: Tensor
) -> None:
    """A race between programs, from flat lanes."""
    machine = access.machine
    who = programs[racing].unique().tolist()
    first = int(index[racing][(programs[racing] == who[0]).nonzero()[0, 0]])
    address = first * access.size + region.storage.address
    element = region.coordinates(address)
    what = {
        "write-write-race": "programs write different values to one element, in no order",
        "read-write-race": "one program writes what another reads, in no order",
        "redundant-write": "several programs write the same value to one element",
    }[kind]
    words = f"{what}: {region.name}[{', '.join(map(str, element))}]"
    machine.faults.add(
        kind,
        machine.place(access.op),
        words,
        grid=machine.grid,
        programs=who,
        lanes=int(racing.sum()),
        tensor=region.name,
        element=element,
        severity="warning" if kind == "redundant-write" else "error",
    )


def _store(machine: Machine, op: Op, operands: list[Tile]) -> None:
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
        if value.poison is not None:
            reached = value.poison != 0 if inside is None else (value.poison != 0) & inside
            if any_set(reached):
                machine.report_poison(op, reached, value.poison, f"is stored to {region.name}")
        _scattered(access, region, inside, elements.to_memory(value.data, element))


def _scattered(access: Access, region: Region, inside: Tensor | None, raw: Tensor) -> None:
    machine, storage, size = access.machine, region.storage, access.size
    typed = storage.typed(size)
    index = (access.pointer.data - storage.address) >> (size.bit_length() - 1)
    shape = torch.Size((machine.scope.size, *access.pointer.shape))
    index = index.expand(shape)
    units, programs, flat = shadow_units(machine, storage, index, inside, size)
    if len(units) == 0:
        return
    parts = storage.units_of(size)
    values = raw.expand(shape).reshape(-1) if inside is None else raw.expand(shape)[inside.expand(shape)]
    where = flat if parts == 1 else flat[::parts]
    before = typed.index_select(0, where) if storage.writer is not None or storage.adder is not None else None
    typed.scatter_(0, where, values)
    landed = typed.index_select(0, where)
    overwritten = landed != values
    same = None if before is None else before == values
    conflicts = machine.races.write(storage, units, programs, _spread(same, parts), machine.stamp, atomic=False)
    owners = programs if parts == 1 else programs[::parts]
    if any_set(overwritten):
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
    assert changed is not None
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


def _spread(plane: Tensor | None, parts: int) -> Tensor | None:
    return plane if plane is None or parts == 1 else plane.repeat_interleave(parts)


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


def note_written(machine: Machine, op: Op, region: Region, units: Tensor) -> None:
    """Remembers for the whole call what was written and from where."""
    storage = region.storage
    storage.note_site(machine.site(op, region.name), units)
    machine.changes += 1
    if storage.undefined is not None:
        storage.undefined.index_fill_(0, units, False)


OPS: dict[str, Handler] = {
    "tt.addptr": _add_pointer,
    "tt.int_to_ptr": _int_to_ptr,
    "tt.ptr_to_int": _ptr_to_int,
    "tt.load": _load,
    "tt.store": _store,
}
