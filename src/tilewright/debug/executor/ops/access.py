"""What loads, stores and atomics share: where live lanes point, whether that is inside, and what is noted of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tilewright.debug.executor.machine import Machine
from tilewright.debug.executor.memory import Region
from tilewright.debug.executor.storage import Storage
from tilewright.debug.executor.tile import Tile, all_set, any_set, broadcast_shape, known_bounds
from tilewright.launch.ttir import Op
from tilewright.records import Severity


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
        left = self._lanes().expand(broadcast_shape(self._lanes().shape, self.pointer.data.shape))
        addresses = self.pointer.data.expand(left.shape)
        found: list[tuple[Region | None, Tensor | None]] = []
        while any_set(left):
            first = int(addresses[left][0])
            region = self.machine.memory.find(first)
            if region is None:
                lanes = left & self.machine.memory.nowhere(addresses)
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

    def undefined(self, value: Tile, inside: Tensor | None) -> Tensor | None:
        """Live lanes of a value that hold none, or None where all do."""
        if value.poison is None:
            return None
        reached = value.poison != 0 if inside is None else (value.poison != 0) & inside
        return reached if any_set(reached) else None

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

    def element(self, region: Region, lanes: Tensor) -> str:
        """The element that the first of some lanes points at: ``y_ptr[3, 0]``."""
        return f"{region.name}[{', '.join(map(str, region.coordinates(self._first(lanes))))}]"

    def _first(self, lanes: Tensor) -> int:
        """Address of the first set lane of the first program."""
        size = self.machine.scope.size
        shape = broadcast_shape(lanes.shape, self.pointer.data.shape)
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
            shape = broadcast_shape(wrong.shape, pointer.wide.shape, pointer.data.shape)
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


def element_index(addresses: Tensor, storage: Storage, size: int) -> Tensor:
    """Addresses as positions among a storage's elements of a size."""
    index = addresses - storage.address
    return index.bitwise_right_shift_(size.bit_length() - 1) if size > 1 else index


def shadow_units(
    machine: Machine, storage: Storage, index: Tensor, inside: Tensor | None, size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Where shadows of what live lanes touch stand, with their programs and elements' indices."""
    parts = storage.units_of(size)
    programs = machine.scope.programs.to(torch.int32)
    shape = (machine.scope.size, *index.shape[1:])
    if inside is not None:
        shape = broadcast_shape(shape, inside.shape)
    wide = index.expand(shape)
    owner = programs.reshape(-1, *(1,) * (index.dim() - 1)).expand(shape)
    if inside is None:
        flat, owners = wide.reshape(-1), owner.reshape(-1)
    else:
        lanes = inside.expand(shape)
        flat, owners = wide[lanes], owner[lanes]
    if parts == 1:
        return storage.shadow(flat), owners, flat
    spread = torch.arange(parts)
    units = (flat[:, None] * parts + spread).reshape(-1)
    return storage.shadow(units), owners.repeat_interleave(parts), flat.repeat_interleave(parts)


_SEVERITIES: dict[str, Severity] = {"redundant-write": "warning", "nondeterministic": "note"}


def report_race(
    access: Access, region: Region, kind: str, units: Tensor, programs: Tensor, racing: Tensor, index: Tensor
) -> None:
    """A race between programs, from flat lanes."""
    machine = access.machine
    who = programs[racing].unique().tolist()
    lane = int((racing & (programs == who[0])).nonzero()[0, 0])
    address = int(index[lane]) * access.size + region.storage.address
    element = region.coordinates(address)
    what = {
        "write-write-race": "programs write different values to one element, in no order",
        "read-write-race": "one program writes what another reads, in no order",
        "redundant-write": "several programs write the same value to one element",
        "nondeterministic": "several programs add floats to one element, in an order that differs from run to run",
    }[kind]
    words = f"{what}: {region.name}[{', '.join(map(str, element))}]"
    partner = machine.races.partner
    if partner is not None and int(partner[lane]) >= 0:
        x, y, _ = machine.grid
        ids = [(p % x, p // x % y, p // (x * y)) for p in (who[0], int(partner[lane]))]
        words += f", programs {ids[0]} and {ids[1]}"
    machine.faults.add(
        kind,
        machine.place(access.op),
        words,
        grid=machine.grid,
        programs=who,
        lanes=int(racing.sum()),
        tensor=region.name,
        element=element,
        severity=_SEVERITIES.get(kind, "error"),
    )


def note_written(machine: Machine, op: Op, region: Region, units: Tensor) -> None:
    """Remembers for the whole call what was written and from where."""
    storage = region.storage
    storage.note_site(machine.site(op, region.name), units)
    if storage.undefined is not None:
        storage.undefined.index_fill_(0, units, False)
