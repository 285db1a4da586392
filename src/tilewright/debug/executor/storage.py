"""Bytes of one allocation with their shadows: who touched each last, and whether anybody ever wrote it.

Shadows are by unit, the size of the elements it is accessed as. A large storage has shadows of the pages alone
that a launch touches: those of five billion elements would not fit, and few are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from tilewright.debug.executor.elements import MEMORY
from tilewright.debug.executor.tile import any_set
from tilewright.spec.poison import LARGE, Poisoned

_PAGE_BITS = 18  # bytes of a page, as a power of two

# What each shadow holds where nothing happened.
_PLANES = {
    "writer": -1,
    "reader": -1,
    "other": -1,
    "adder": -1,
    "writer_stamp": -1,
    "reader_stamp": -1,
    "other_stamp": -1,
    "adder_stamp": -1,
    "undefined": True,
    "sites": 0,
    "earlier": -1,
}


@dataclass(eq=False)
class Storage:
    """One allocation. Planes are tensors by shadow position (see :meth:`shadow`), made when first needed.

    Attributes:
        writer: program of the last store in this launch, -1 where none; ``adder`` that of the last atomic.
        reader, other: two of the programs that read since.
        undefined: nobody has written it; None where all is initialised, or not looked at yet.
        site: where the stores of this launch stand, if all stand at one place; else ``sites`` of each.
        earlier: place and program of the last store in earlier launches.
    """

    address: int
    size: int
    raw: Tensor  # uint8, all of it
    poisoned: Poisoned | None = None
    unit: int = 1
    writer: Tensor | None = None
    reader: Tensor | None = None
    other: Tensor | None = None
    adder: Tensor | None = None
    writer_stamp: Tensor | None = None
    reader_stamp: Tensor | None = None
    other_stamp: Tensor | None = None
    adder_stamp: Tensor | None = None
    undefined: Tensor | None = None
    site: int | None = None
    sites: Tensor | None = None
    earlier: Tensor | None = None
    _looked: bool = False  # whether ``undefined`` is up to date with what the host wrote
    _slots: Tensor | None = None  # by page, where its shadows stand; -1 for pages without
    _used: int = 0
    _typed: dict[int, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.size >= LARGE:
            self._slots = torch.full(((self.size >> _PAGE_BITS) + 1,), -1, dtype=torch.int64)

    def typed(self, size: int) -> Tensor:
        """All elements of a size, as :data:`MEMORY` integers."""
        if size not in self._typed:
            whole = self.raw[: self.raw.numel() // size * size]
            self._typed[size] = whole.view(MEMORY[size])
        return self._typed[size]

    # -------------------------------------------------------------------------------------------- positions

    def units_of(self, size: int) -> int:
        """How many units an access of ``size`` bytes covers; shadows are split finer where it is smaller."""
        if size < self.unit:
            self._split(size)
        return size // self.unit

    def _split(self, size: int) -> None:
        parts = self.unit // size
        for name in _PLANES:
            plane = getattr(self, name)
            if plane is not None:
                setattr(self, name, plane.repeat_interleave(parts))
        self.unit = size

    def shadow(self, units: Tensor) -> Tensor:
        """Where the shadows of units stand: at their own number, or where those of their page were put."""
        if self._slots is None:
            return units
        bits = _PAGE_BITS - (self.unit.bit_length() - 1)
        pages = units >> bits
        slots = self._slots[pages]
        if any_set(slots < 0):
            new = pages[slots < 0].unique()
            self._slots[new] = torch.arange(self._used, self._used + len(new))
            self._used += len(new)
            for name, nothing in _PLANES.items():
                plane = getattr(self, name)
                if plane is not None and len(plane) < self._count():
                    more = max(self._count(), 2 * len(plane)) - len(plane)
                    setattr(self, name, torch.cat((plane, torch.full((more,), nothing, dtype=plane.dtype))))
            slots = self._slots[pages]
        return (slots << bits) + (units & ((1 << bits) - 1))

    def _count(self) -> int:
        if self._slots is None:
            return self.size // self.unit + 1
        return max(self._used, 1) * ((1 << _PAGE_BITS) // self.unit)

    def plane(self, name: str, dtype: torch.dtype, fill: int) -> Tensor:
        """A shadow, made when it is first needed."""
        found: Tensor | None = getattr(self, name)
        if found is None:
            found = torch.full((self._count(),), fill, dtype=dtype)
            setattr(self, name, found)
        return found

    # ---------------------------------------------------------------------------------------- initialisation

    def undefined_units(self) -> Tensor | None:
        """By shadow position where nobody has written yet; None where all is initialised."""
        if not self._looked and self.poisoned is not None:
            self._looked = True
            self._look(self.poisoned)
            if self.undefined is None:  # what is defined stays so
                self.poisoned = None
        return self.undefined

    def _look(self, poisoned: Poisoned) -> None:
        """What the host left unwritten; what launches wrote since is known already."""
        if self._slots is not None:
            if not poisoned.is_blank(self.address):
                self.undefined = None
            elif self.undefined is None:
                self.undefined = torch.ones(self._count(), dtype=torch.bool)
                self._except_written()
            return
        missing = poisoned.missing(self.address)
        if missing is None or not missing.any():
            self.undefined = None
            return
        own = self.size // missing.numel()
        self.units_of(own)
        spread = missing.repeat_interleave(own // self.unit)
        if self.undefined is not None:
            self.undefined[: spread.numel()] &= spread
            return
        self.undefined = torch.zeros(self._count(), dtype=torch.bool)
        self.undefined[: spread.numel()] = spread
        self._except_written()

    def _except_written(self) -> None:
        if self.undefined is not None and (
            self.writer is not None or self.adder is not None or self.earlier is not None
        ):
            self.undefined[: self._count()] &= self.last_writes()[: self._count()] < 0

    def note_site(self, site: int, units: Tensor) -> None:
        """Remembers the place of stores, so that a wrong element can be traced to its line."""
        if self.sites is None and self.site in (None, site):
            self.site = site
            return
        sites = self.plane("sites", torch.int16, self.site or 0)
        sites.index_fill_(0, units, site)

    def last_writes(self) -> Tensor:
        """int64 by shadow position: place and program (``place << 32 | program``) of the last store; -1 for none."""
        planes = [plane for plane in (self.adder, self.writer) if plane is not None]
        count = max([self._count(), *(len(p) for p in (*planes, self.earlier, self.sites) if p is not None)])
        last = _padded(self.earlier, count, torch.int64, -1)
        place = torch.tensor(self.site or 0) if self.sites is None else _padded(self.sites, count, torch.int64, 0)
        for plane in planes:
            program = _padded(plane, count, torch.int64, -1)
            last = torch.where(program >= 0, (place << 32) + program, last)
        return last

    def unwritten(self, tensor: Tensor) -> Tensor:
        """True where no launch stored to an element of a view of this storage."""
        own = tensor.element_size()
        self.units_of(own)
        missing = self.last_writes() < 0
        parts = own // self.unit
        sizes = [stride * parts for stride in tensor.stride()]
        start = tensor.storage_offset() * parts
        if self._slots is None:
            return missing.as_strided(tensor.shape, sizes, start)
        units = torch.tensor(start)
        for axis, (size, stride) in enumerate(zip(tensor.shape, sizes, strict=True)):
            units = units + (torch.arange(size) * stride).reshape(-1, *(1,) * (tensor.dim() - 1 - axis))
        bits = _PAGE_BITS - (self.unit.bit_length() - 1)
        slots = self._slots[units >> bits]
        known = missing[((slots << bits) + (units & ((1 << bits) - 1))).clamp(min=0)]
        return known | (slots < 0)

    def end_launch(self) -> None:
        if self.writer is not None or self.adder is not None:
            self.earlier = self.last_writes()
        for name in _PLANES:
            if name not in ("undefined", "earlier"):
                setattr(self, name, None)
        self.site = None
        self._looked = False  # the host may write before the next


def _padded(plane: Tensor | None, count: int, dtype: torch.dtype, nothing: int) -> Tensor:
    if plane is None:
        return torch.full((count,), nothing, dtype=dtype)
    if len(plane) == count:
        return plane.to(dtype)
    return torch.cat((plane.to(dtype), torch.full((count - len(plane),), nothing, dtype=dtype)))
