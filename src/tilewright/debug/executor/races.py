"""Who touched which byte last: races between programs, and lanes of one program that disagree.

For each unit of a storage the shadows hold the last writer and the only reader (or that there were several).
That is exact at any size: an access races if another program wrote the unit, or read it before this write.
Order comes from atomics alone: what a program did before its release is ordered before what another does
after it acquired, later.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from tilewright.debug.executor.memory import Storage
from tilewright.debug.executor.tile import any_set

NOBODY, SEVERAL = -1, -2


@dataclass
class Order:
    """When each program last released and acquired, in operations on memory; only where a launch synchronises."""

    released: Tensor
    acquired: Tensor

    @staticmethod
    def of(programs: int) -> Order:
        return Order(torch.full((programs,), -1), torch.full((programs,), -1))


@dataclass
class Conflicts:
    """Lanes of an access (flat) that race, by kind."""

    write_write: Tensor | None = None
    redundant: Tensor | None = None
    read_write: Tensor | None = None
    within: Tensor | None = None  # lanes of one program that store different values to one address


@dataclass
class Races:
    """The detector of one launch.

    Attributes:
        reads_matter: storages that the launch both reads and writes; None where that is not known beforehand.
        order: None where no atomic synchronises.
    """

    programs: int
    synchronises: bool
    order: Order | None = field(init=False)

    def __post_init__(self) -> None:
        self.order = Order.of(self.programs) if self.synchronises else None

    def read(self, storage: Storage, units: Tensor, program: Tensor, stamp: int) -> Tensor | None:
        """Notes a read; lanes that race with an earlier write of another program, or None."""
        racing = None
        for written in (storage.writer, storage.adder):
            if written is not None:
                writer = written.index_select(0, units)
                clash = (writer != NOBODY) & (writer != program)
                racing = _either(racing, self._unordered(clash, writer, storage.write_stamp, units, program))
        reader = storage.plane("reader", torch.int32, NOBODY)
        before = reader.index_select(0, units)
        after = torch.where((before == NOBODY) | (before == program), program, SEVERAL)
        reader.scatter_(0, units, after)
        lost = reader.index_select(0, units) != after
        if any_set(lost):  # programs of this very access that read the same unit
            reader[units[lost]] = SEVERAL
        if self.order is not None:
            storage.plane("read_stamp", torch.int64, -1)[units] = stamp
        return racing

    def write(
        self, storage: Storage, units: Tensor, program: Tensor, same: Tensor | None, stamp: int, atomic: bool
    ) -> Conflicts:
        """Notes a write.

        ``same``: lanes whose memory already holds what they store. Atomics may meet atomics.
        """
        found = Conflicts()
        for written in (storage.writer,) if atomic else (storage.writer, storage.adder):
            if written is not None:
                before = written.index_select(0, units)
                clash = (before != NOBODY) & (before != program)
                unordered = self._unordered(clash, before, storage.write_stamp, units, program)
                found.write_write = _either(found.write_write, unordered)
        if storage.reader is not None:
            reader = storage.reader.index_select(0, units)
            clash = (reader != NOBODY) & (reader != program)
            found.read_write = self._unordered(clash, reader, storage.read_stamp, units, program)
        own = storage.plane("adder" if atomic else "writer", torch.int32, NOBODY)
        own.scatter_(0, units, program)
        if not atomic:
            last = own.index_select(0, units)
            lost = last != program
            if any_set(lost):
                found.write_write = _either(found.write_write, lost)
        if self.order is not None:
            storage.plane("write_stamp", torch.int64, -1)[units] = stamp
        if found.write_write is not None and same is not None:
            found.redundant = found.write_write & same
            found.write_write = found.write_write & ~same
        return found

    def _unordered(
        self, clash: Tensor, other: Tensor, stamps: Tensor | None, units: Tensor, program: Tensor
    ) -> Tensor | None:
        """Of the clashing lanes those that no release and later acquire orders; None where there are none."""
        if not any_set(clash):
            return None
        if self.order is None or stamps is None:
            return clash
        when = stamps.index_select(0, units)
        known = other.clamp(min=0).long()
        # A unit that several read holds the last reader's time alone; all before it is as ordered as that.
        published = (self.order.released[known] >= when) | (other == SEVERAL)
        seen = self.order.acquired[program.long()] > when
        clash = clash & ~(published & seen)
        return clash if any_set(clash) else None


def _either(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a | b
