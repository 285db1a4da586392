"""The memory that launches see: storages, and regions, the views of them that kernels get.

A region is one tensor parameter: the view alone counts as inside, not the storage below it.
"""

from __future__ import annotations

import gc
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tilewright.debug.executor.storage import Storage
from tilewright.debug.guard import Site
from tilewright.spec.poison import Poisoned


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
        self._others: list[tuple[int, int, Tensor]] | None = None  # tensors that are no parameters, once asked for

    def start_launch(self, grid: tuple[int, int, int]) -> None:
        self.regions = []
        self._others = None
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
        storage = Storage(address, untyped.nbytes(), raw, self._poisoned, tensor.element_size())
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
        inside = [tensor for low, high, tensor in self._living() if low <= address < high]
        best = max(inside, key=lambda tensor: tensor.numel(), default=None)
        return None if best is None else self.admit("(a tensor in a pointer table)", best)

    def _living(self) -> list[tuple[int, int, Tensor]]:
        """First address, that behind the last, and the tensor, of all CPU tensors of this process."""
        if self._others is None:
            plain = (Tensor, torch.nn.Parameter)  # other kinds of tensors may have no memory to point at
            every = [t for t in gc.get_objects() if type(t) in plain and t.device.type == "cpu" and t.numel()]
            self._others = [(t.data_ptr(), t.data_ptr() + _span(t) * t.element_size(), t) for t in every]
        return self._others

    def nowhere(self, addresses: Tensor) -> Tensor:
        """True where an address lies in no tensor."""
        found = torch.ones(addresses.shape, dtype=torch.bool)
        for low, high in [(r.low, r.high) for r in self.regions] + [(low, high) for low, high, _ in self._living()]:
            found &= (addresses < low) | (addresses >= high)
        return found

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
        unit = torch.tensor([element * tensor.element_size() // storage.unit])
        last = int(storage.last_writes()[storage.shadow(unit)])
        if last < 0:
            return None
        site, program = self.sites[last >> 32], last & 0xFFFF_FFFF
        x, y, _ = self.grids[site.launch]
        return (program % x, program // x % y, program // (x * y)), site

    def last_site(self, tensor: Tensor) -> Site | None:
        """The line among those that stored to a tensor's storage which came last."""
        storage = self.known(tensor)
        last = -1 if storage is None else int(storage.last_writes().max()) >> 32
        return self.sites[last] if last >= 0 else None

    def unwritten(self, tensor: Tensor) -> Tensor:
        """True where no launch stored to an element of a view."""
        storage = self.known(tensor)
        if storage is None:
            return torch.ones(tensor.shape, dtype=torch.bool)
        return storage.unwritten(tensor)


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
