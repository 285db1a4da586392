"""Who touched which byte last: races between programs, and lanes of one program that disagree.

For each unit of a storage the shadows hold the last writer, the last atomic, and up to two programs that read
it since. That is exact at any size: an access races if another program wrote the unit, or read it before this
write, and nothing orders the two. Order comes from ``order.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from tilewright.debug.executor.order import Order
from tilewright.debug.executor.storage import Storage
from tilewright.debug.executor.tile import any_set

NOBODY = -1


@dataclass
class Conflicts:
    """Lanes of an access (flat) that race, by kind."""

    write_write: Tensor | None = None
    redundant: Tensor | None = None
    read_write: Tensor | None = None
    shared: Tensor | None = None  # atomics that meet those of other programs: no race


@dataclass
class Races:
    """The detector of one launch. ``order`` is None where no atomic synchronises."""

    programs: int
    synchronises: bool
    order: Order | None = field(init=False)
    partner: Tensor | None = None  # of the access just noted: by lane another program it meets, -1 for none

    def __post_init__(self) -> None:
        self.order = Order(self.programs) if self.synchronises else None

    def read(self, storage: Storage, units: Tensor, program: Tensor, stamp: int, *, volatile: bool) -> Tensor | None:
        """Notes a read; lanes that race with an earlier write of another program, or None.

        A volatile read may meet atomics, as an atomic may.
        """
        self.partner = None
        racing = self._meets(storage, "writer", units, program)
        if volatile:
            return racing
        racing = _either(racing, self._meets(storage, "adder", units, program))
        first = storage.plane("reader", torch.int32, NOBODY)
        before = first.index_select(0, units)
        new = before == NOBODY
        if any_set(new):
            where = units[new]
            first.scatter_(0, where, program[new])
            self._stamp(storage, "reader", where, stamp)
            before = first.index_select(0, units)
        second = before != program
        if any_set(second):
            storage.plane("other", torch.int32, NOBODY).scatter_(0, units[second], program[second])
            self._stamp(storage, "other", units[second], stamp)
        if self.order is not None and not bool(second.all()):
            self._stamp(storage, "reader", units[~second], stamp)
        return racing

    def write(
        self,
        storage: Storage,
        units: Tensor,
        program: Tensor,
        stamp: int,
        *,
        atomic: bool,
        same: Callable[[], Tensor] | None = None,
        meets: bool = True,
    ) -> Conflicts:
        """Notes a write that is about to happen.

        ``same`` gives the lanes whose memory already holds what they store. Atomics may meet atomics. Without
        ``meets`` no two lanes of this write share a unit.
        """
        self.partner = None
        found = Conflicts()
        found.write_write = self._meets(storage, "writer", units, program)
        if not atomic:
            found.write_write = _either(found.write_write, self._meets(storage, "adder", units, program))
        if found.write_write is not None and same is not None:
            equal = same()
            found.redundant = found.write_write & equal
            found.write_write = found.write_write & ~equal
        for readers in ("reader", "other"):
            found.read_write = _either(found.read_write, self._meets(storage, readers, units, program))
        name = "adder" if atomic else "writer"
        own = storage.plane(name, torch.int32, NOBODY)
        if atomic:
            before = own.index_select(0, units)
            found.shared = (before != NOBODY) & (before != program)
        own.scatter_(0, units, program)
        if meets:
            last = own.index_select(0, units)
            lost = last != program
            if atomic:
                found.shared = _either(found.shared, lost)
            elif any_set(lost):
                found.write_write = _either(found.write_write, lost)
                self._pair(lost, last)
        if self.order is not None:
            self._stamp(storage, name, units, stamp)
            # Who read before is ordered before this write, or was reported: what follows need only look at the write.
            for plane in (storage.reader, storage.other):
                if plane is not None:
                    plane.index_fill_(0, units, NOBODY)
        return found

    def _stamp(self, storage: Storage, name: str, units: Tensor, stamp: int) -> None:
        if self.order is not None:
            storage.plane(f"{name}_stamp", torch.int32, NOBODY).index_fill_(0, units, stamp)

    def _meets(self, storage: Storage, name: str, units: Tensor, program: Tensor) -> Tensor | None:
        """Lanes whose unit another program touched before in a certain way, in no order; None where there are none."""
        plane: Tensor | None = getattr(storage, name)
        if plane is None:
            return None
        before = plane.index_select(0, units)
        clash = (before != NOBODY) & (before != program)
        if not any_set(clash):
            return None
        stamps: Tensor | None = getattr(storage, f"{name}_stamp")
        if self.order is not None and stamps is not None:
            lanes = clash.nonzero().flatten()
            ordered = self.order.before(before[lanes], stamps[units[lanes]], program[lanes])
            clash[lanes] = ~ordered
            if not any_set(clash):
                return None
        self._pair(clash, before)
        return clash

    def _pair(self, clash: Tensor, other: Tensor) -> None:
        if self.partner is None:
            self.partner = torch.full_like(other, NOBODY)
        self.partner = torch.where(clash & (self.partner == NOBODY), other, self.partner)


def _either(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a | b
