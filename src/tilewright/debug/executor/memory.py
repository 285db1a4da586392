"""The memory that launches see: storages with their shadows, and regions, the views that kernels get.

A storage keeps, for each unit of its bytes, which program wrote it last in this launch and whether anybody
ever wrote it. A region is one tensor parameter: the view alone counts as inside, not the storage below it.
"""

from __future__ import annotations

import gc
import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from tilewright.debug.executor.elements import MEMORY
from tilewright.debug.guard import Site
from tilewright.spec.poison import Poisoned, untouched

_PLANES = ("writer", "reader", "write_stamp", "read_stamp", "adder", "undefined", "sites", "earlier")


@dataclass(eq=False)
class Storage:
    """Bytes of one allocation. Shadows are by unit: the size of the elements it is accessed as."""

    address: int
    size: int
    raw: Tensor  # uint8, all of it
    fresh: Tensor | None = None  # the tensor as it was handed out uninitialised
    unit: int = 1
    writer: Tensor | None = None  # int32 by unit: program of the last store in this launch, -1 where none
    reader: Tensor | None = None  # int32 by unit: the one program that read it, -1 none, -2 several
    write_stamp: Tensor | None = None
    read_stamp: Tensor | None = None
    adder: Tensor | None = None  # int32 by unit: program of the last atomic, as in writer
    undefined: Tensor | None = None  # bool by unit: nobody has written it
    site: int | None = None  # where the stores of this launch stand, if all stand at one place
    sites: Tensor | None = None  # int16 by unit: the place of each, where there are several
    earlier: Tensor | None = None  # int64 by unit: place and program of the last store in earlier launches
    _typed: dict[int, Tensor] = field(default_factory=dict)

    def typed(self, size: int) -> Tensor:
        """All elements of a size, as :data:`MEMORY` integers."""
        if size not in self._typed:
            whole = self.raw[: self.raw.numel() // size * size]
            self._typed[size] = whole.view(MEMORY[size])
        return self._typed[size]

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

    def plane(self, name: str, dtype: torch.dtype, fill: int) -> Tensor:
        """A shadow, made when it is first needed."""
        found: Tensor | None = getattr(self, name)
        if found is None:
            found = torch.full((self.size // self.unit + 1,), fill, dtype=dtype)
            setattr(self, name, found)
        return found

    def undefined_units(self) -> Tensor | None:
        """Where nobody has written yet; None where the storage was initialised as a whole."""
        if self.undefined is None and self.fresh is not None:
            missing = untouched(self.fresh).reshape(-1)
            if not missing.any():
                self.fresh = None
                return None
            own = self.fresh.element_size()
            self.units_of(own)
            plane = torch.zeros(self.size // self.unit + 1, dtype=torch.bool)
            start = self.fresh.storage_offset() * own // self.unit
            spread = missing.repeat_interleave(own // self.unit)
            plane[start : start + spread.numel()] = spread
            if self.writer is not None or self.earlier is not None:
                plane &= self.last_writes() < 0
            self.undefined = plane
            self.fresh = None
        return self.undefined

    def note_site(self, site: int, units: Tensor) -> None:
        """Remembers the place of stores, so that a wrong element can be traced to its line."""
        if self.sites is None and self.site in (None, site):
            self.site = site
            return
        sites = self.plane("sites", torch.int16, self.site or 0)
        sites.index_fill_(0, units, site)

    def last_writes(self) -> Tensor:
        """int64 by unit: place and program (``place << 32 | program``) of the last store; -1 where none."""
        count = self.size // self.unit + 1
        last = torch.full((count,), -1, dtype=torch.int64) if self.earlier is None else self.earlier
        for plane in (self.adder, self.writer):
            if plane is not None:
                place = torch.tensor(self.site or 0) if self.sites is None else self.sites.long()
                last = torch.where(plane >= 0, (place << 32) + plane, last)
        return last

    def end_launch(self) -> None:
        if self.writer is not None or self.adder is not None:
            self.earlier = self.last_writes()
        self.writer = self.reader = self.write_stamp = self.read_stamp = self.adder = self.sites = self.site = None


@dataclass(eq=False)
class Region:
    """One tensor parameter of a launch."""

    number: int
    name: str
    tensor: Tensor
    storage: Storage
    low: int  # address of the first byte of the view
    high: int  # address behind its last byte
    dense: bool
    _members: Tensor | None = None

    def inside(self, addresses: Tensor, size: int) -> Tensor:
        """True where ``size`` bytes at an address lie inside the view."""
        within = (addresses >= self.low) & (addresses <= self.high - size)
        if self.dense or self.low == self.high:
            return within
        own = self.tensor.element_size()
        first = (addresses - self.low).clamp(0, self.high - self.low - 1)
        last = (addresses - self.low + size - 1).clamp(0, self.high - self.low - 1)
        both = self._member(first.div(own, rounding_mode="floor"))
        return within & (both if size <= own else both & self._member(last.div(own, rounding_mode="floor")))

    def _member(self, element: Tensor) -> Tensor:
        """Whether the view has an element of its span. Strides that nest are divided out one after the other."""
        axes = sorted(
            ((s, n) for s, n in zip(self.tensor.stride(), self.tensor.shape, strict=True) if n > 1 and s > 0),
            reverse=True,
        )
        reach = 1
        for stride, size in reversed(axes):
            if stride < reach:
                return self._membership()[element]  # a view that overlaps itself
            reach = stride * (size - 1) + reach
        inside = torch.ones(element.shape, dtype=torch.bool)
        for stride, size in axes:
            position = element.div(stride, rounding_mode="floor")
            inside &= position < size
            element = element - position * stride
        return inside & (element == 0)

    def _span(self) -> int:
        return (self.high - self.low) // self.tensor.element_size()

    def _membership(self) -> Tensor:
        """By element from the view's first to its last: whether the view has it."""
        if self._members is None:
            members = torch.zeros(self._span(), dtype=torch.bool)
            members.as_strided(self.tensor.shape, self.tensor.stride()).fill_(True)
            self._members = members
        return self._members

    def coordinates(self, address: int) -> tuple[int, ...]:
        """An address in the view's own coordinates; the outermost dim longer than 1 takes what is too much."""
        element = (address - self.low) // self.tensor.element_size()
        strides = self.tensor.stride()
        order = sorted(range(self.tensor.dim()), key=lambda d: -strides[d])
        index = [0] * self.tensor.dim()
        for d in [d for d in order if self.tensor.shape[d] > 1 and strides[d] > 0] or order[-1:]:
            index[d], element = divmod(element, max(strides[d], 1))
        return tuple(index)

    def describe(self, address: int) -> str:
        """``x[3, 130], but x has shape 4x128``, and how far outside that is."""
        shape = "x".join(map(str, self.tensor.shape)) or "scalar"
        index = ", ".join(map(str, self.coordinates(address)))
        words = f"{self.name}[{index}], but {self.name} has shape {shape}"
        element = (address - self.low) // self.tensor.element_size()
        if self.storage.address <= address < self.storage.address + self.storage.size:
            return words + "; the address is inside its storage, outside its view"
        if element < 0:
            return words + f"; {_count(-element)} before its start"
        return words + f"; {_count(element - self._span() + 1)} past its end"


def _count(number: int) -> str:
    return f"{number} element{'' if number == 1 else 's'}"


class Memory:
    """All storages of an operator call, over its launches."""

    def __init__(self, poisoned: Poisoned | None = None) -> None:
        self._poisoned = poisoned
        self._storages: dict[int, Storage] = {}
        self.regions: list[Region] = []
        self.sites: list[Site] = []
        self.grids: list[tuple[int, int, int]] = []

    def start_launch(self, grid: tuple[int, int, int]) -> None:
        self.regions = []
        self.grids.append(grid)
        for storage in self._storages.values():
            storage.end_launch()

    def admit(self, name: str, tensor: Tensor) -> Region:
        """The region of a parameter; one tensor given twice is two regions of one storage."""
        own = tensor.element_size()
        low = tensor.data_ptr()
        span = _span(tensor)
        region = Region(len(self.regions), name, tensor, self.storage(tensor), low, low + span * own, _is_dense(tensor))
        if span == 0:
            region.low = region.high = region.storage.address
        self.regions.append(region)
        return region

    def storage(self, tensor: Tensor) -> Storage:
        untyped = tensor.untyped_storage()
        address = untyped.data_ptr()
        known = self._storages.get(address)
        if known is not None and known.size == untyped.nbytes():
            return known
        raw = torch.empty(0, dtype=torch.uint8).set_(untyped)
        fresh = self._poisoned.fresh(address) if self._poisoned is not None else None
        storage = Storage(address, untyped.nbytes(), raw, fresh, tensor.element_size())
        self._storages[address] = storage
        return storage

    def known(self, tensor: Tensor) -> Storage | None:
        """The storage of a tensor if a launch has met it."""
        return self._storages.get(tensor.untyped_storage().data_ptr())

    def find(self, address: int) -> Region | None:
        """The region of an address that came from memory: a pointer table's entry names no parameter."""
        for region in self.regions:
            if region.low <= address < region.high:
                return region
        best = None
        for tensor in gc.get_objects():
            if type(tensor) is Tensor and tensor.device.type == "cpu" and tensor.numel():
                low = tensor.data_ptr()
                high = low + _span(tensor) * tensor.element_size()
                if low <= address < high and (best is None or tensor.numel() > best.numel()):
                    best = tensor
        return None if best is None else self.admit("(a tensor in a pointer table)", best)

    def site(self, site: Site) -> int:
        """The number of a place of stores."""
        if site not in self.sites:
            self.sites.append(site)
        return self.sites.index(site)

    def writer(self, tensor: Tensor, index: tuple[int, ...]) -> tuple[tuple[int, int, int], Site] | None:
        """The program and line that stored an element last, or None where no launch wrote it."""
        storage = self.known(tensor)
        if storage is None:
            return None
        element = tensor.storage_offset() + sum(i * s for i, s in zip(index, tensor.stride(), strict=True))
        last = int(storage.last_writes()[element * tensor.element_size() // storage.unit])
        if last < 0:
            return None
        site, program = self.sites[last >> 32], last & 0xFFFF_FFFF
        x, y, _ = self.grids[site.launch]
        return (program % x, program // x % y, program // (x * y)), site

    def unwritten(self, tensor: Tensor) -> Tensor:
        """True where no launch stored to an element of a view."""
        storage = self.known(tensor)
        if storage is None:
            return torch.ones(tensor.shape, dtype=torch.bool)
        own = tensor.element_size()
        storage.units_of(own)
        missing = storage.last_writes() < 0
        parts = own // storage.unit
        sizes = [stride * parts for stride in tensor.stride()]
        return missing.as_strided(tensor.shape, sizes, tensor.storage_offset() * parts)


def _span(tensor: Tensor) -> int:
    """Elements from a view's first to behind its last."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def _is_dense(tensor: Tensor) -> bool:
    """Whether a view covers each element of its span."""
    return math.prod(tensor.shape) >= _span(tensor) and _covers(tensor)


def _covers(tensor: Tensor) -> bool:
    reach = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride > reach:
            return False
        reach += (size - 1) * stride
    return True
