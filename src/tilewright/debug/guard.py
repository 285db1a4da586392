"""The memory of an interpreted launch, fenced: each access is checked before it happens.

The kernel never sees a real address. Each tensor parameter gets a region of a made-up address space, far
from all others, so that an offset that went wrong still tells which parameter it came from; an access is
translated back only if it stays inside the parameter's view.
"""

from __future__ import annotations

import gc
import os
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np
import torch
import triton

from tilewright.debug import bfloat
from tilewright.launch.launch import Launch

# Bit 63 marks a made-up address, which no process on 64-bit Linux has; 16 TiB for each parameter.
_MADE_UP = 1 << 63
_REGION_BITS = 44
_MIDDLE = 1 << (_REGION_BITS - 1)

_NOT_USERS = tuple(os.path.dirname(path) + os.sep for path in (triton.__file__, np.__file__, __file__) if path)
_STANDARD_LIBRARY = sysconfig.get_path("stdlib") + os.sep
_INSTALLED = ("site-packages", "dist-packages")  # both lie inside the standard library's folder


class WildAccess(Exception):
    """A kernel's access outside the tensor it was made from. Raised at the access, in the kernel's frame."""

    def __init__(
        self, kind: str, message: str, tensor: str | None, element: tuple[int, ...] | None, lanes: int, site: Site
    ) -> None:
        super().__init__(message)
        self.kind, self.message, self.tensor = kind, message, tensor
        self.element, self.lanes, self.site = element, lanes, site


@dataclass(frozen=True)
class Site:
    """A line of a kernel that touches memory, and through which parameter."""

    file: str
    line: int
    tensor: str | None = None
    launch: int = 0


@dataclass
class Region:
    """One tensor parameter: where the kernel believes it to be, and what its view covers."""

    name: str
    tensor: torch.Tensor
    base: int
    real: int
    members: np.ndarray | None  # by element offset from the view's start; None where the view is dense
    extent: int  # elements from the first to behind the last of the view


@dataclass
class Watch:
    """An element of a parameter, outside its view perhaps: ``touched`` is called at each access to it."""

    tensor: str
    element: tuple[int, ...]
    touched: Callable[[Region], None]

    def look(self, region: Region, offsets: np.ndarray) -> None:
        """Sees some byte offsets into a region accessed."""
        if region.name == self.tensor and len(self.element) == region.tensor.dim():
            strides = region.tensor.stride()
            element = sum(i * stride for i, stride in zip(self.element, strides, strict=True))
            if (offsets == element * region.tensor.element_size()).any():
                self.touched(region)


@dataclass
class Writers:
    """For each byte of a storage: the program and site of its last store, -1 where there was none."""

    program: np.ndarray
    site: np.ndarray


@dataclass
class Memory:
    """All regions of one operator call, over its launches; the interpreter's loads and stores go through it."""

    raw: Any  # the interpreter's own memory functions
    regions: list[Region] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)
    writers: dict[int, Writers] = field(default_factory=dict)
    storages: dict[int, torch.UntypedStorage] = field(default_factory=dict)
    grids: list[tuple[int, int, int]] = field(default_factory=list)  # of the launches so far
    program: tuple[int, int, int] = (0, 0, 0)
    watch: Watch | None = None
    lenient: bool = False  # lanes that go wild are switched off; what they read is NaN, or -1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)  # the interpreter's enums and arithmetic pass through

    def admit(self, name: str, tensor: torch.Tensor) -> int:
        """Gives a parameter its region; the made-up address of its first element."""
        real = tensor.data_ptr()
        # The low bits are the real ones: a kernel may look at alignment.
        base = _MADE_UP | (len(self.regions) << _REGION_BITS) | _MIDDLE | (real & 0xFFFF)
        members, extent = _members(tensor)
        self.regions.append(Region(name, tensor, base, real, members, extent))
        storage = tensor.untyped_storage()
        self.storages[storage.data_ptr()] = storage
        return base

    def start_launch(self, launch: Launch) -> None:
        self.regions = []
        self.grids.append(launch.grid)

    @property
    def launch_index(self) -> int:
        return len(self.grids) - 1

    # ------------------------------------------------------- what the interpreter calls in place of its own

    def load(self, pointers: np.ndarray, mask: np.ndarray, other: np.ndarray, dtype: Any) -> np.ndarray:
        real = self._checked(pointers, mask, np.dtype(dtype).itemsize, "read")
        live = self._live(real, mask)
        loaded: np.ndarray = self.raw.load(real, live, other, dtype)
        wild = np.broadcast_to(mask, real.shape) & ~live
        if wild.any():
            loaded.view(np.uint8).reshape(*loaded.shape, -1)[wild] = 0xFF
        return loaded

    def store(self, pointers: np.ndarray, value: np.ndarray, mask: np.ndarray) -> Any:
        real = self._checked(pointers, mask, value.dtype.itemsize, "write")
        mask = self._live(real, mask)
        self._note(pointers, real, mask, value.dtype.itemsize)
        return self.raw.store(real, value, mask)

    def atomic_rmw(self, operation: Any, pointers: np.ndarray, value: np.ndarray, mask: np.ndarray, order: Any) -> Any:
        real = self._checked(pointers, mask, value.dtype.itemsize, "write")
        mask = self._live(real, mask)
        self._note(pointers, real, mask, value.dtype.itemsize)
        # Integers are added by ADD: a sum of floats in 16-bit integers is one of bfloat16 bits.
        if operation == self.raw.RMW_OP.FADD and value.dtype == np.uint16:
            return bfloat.add_in_memory(self.raw, real, value, np.broadcast_to(mask, real.shape))
        return self.raw.atomic_rmw(operation, real, value, mask, order)

    def atomic_cas(self, pointers: np.ndarray, compare: np.ndarray, value: np.ndarray, order: Any) -> Any:
        mask = np.ones_like(pointers, dtype=bool)
        real = self._checked(pointers, mask, value.dtype.itemsize, "write")
        if not real.all():  # it takes no mask that would switch a wild lane off
            raise self._wild("write", "at an address outside all tensors", None, None, int((real == 0).sum()))
        self._note(pointers, real, mask, value.dtype.itemsize)
        return self.raw.atomic_cas(real, compare, value, order)

    # ------------------------------------------------------------------------------------------- checking

    def _live(self, real: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """The lanes of an access that are made: those of its mask, but for wild ones where they are let pass."""
        return np.broadcast_to(np.asarray(mask, dtype=bool), real.shape) & (real != 0) if self.lenient else mask

    def _checked(self, pointers: np.ndarray, mask: np.ndarray, size: int, verb: str) -> np.ndarray:
        """Real addresses of an access; raises WildAccess if a live lane leaves its view."""
        pointers = np.asarray(pointers, dtype=np.uint64)
        mask = np.broadcast_to(np.asarray(mask, dtype=bool), pointers.shape)
        real = np.zeros_like(pointers)
        live = pointers[mask]
        if live.size == 0:
            return real
        made_up = live >= np.uint64(_MADE_UP)
        numbers = ((live & np.uint64(_MADE_UP - 1)) >> np.uint64(_REGION_BITS)).astype(np.int64)
        translated = live.copy()
        if not made_up.all():
            translated[~made_up] = self._check_real(live[~made_up], size, verb)
        for number in np.unique(numbers[made_up]):
            lanes = made_up & (numbers == number)
            translated[lanes] = self._translate(live[lanes], int(number), size, verb)
        real[mask] = translated
        return real

    def _translate(self, addresses: np.ndarray, number: int, size: int, verb: str) -> np.ndarray:
        if number >= len(self.regions):
            if self.lenient:
                return np.zeros_like(addresses)
            raise self._wild(
                verb, "through a pointer that belongs to no tensor of the launch", None, None, len(addresses)
            )
        region = self.regions[number]
        offsets = (addresses - np.uint64(region.base)).astype(np.int64)  # wraps to negative, as wanted
        if self.watch is not None:
            self.watch.look(region, offsets)
        bad = ~_inside(region, offsets, size)
        if bad.any() and not self.lenient:
            raise self._outside(region, int(offsets[bad][0]), int(bad.sum()), verb)
        return np.where(bad, 0, offsets + region.real).astype(np.uint64)

    def _check_real(self, addresses: np.ndarray, size: int, verb: str) -> np.ndarray:
        """A pointer read from memory (a pointer table) holds a real address: it must lie in a live tensor."""
        inside = np.zeros(addresses.shape, dtype=bool)
        for start, end in self._live_storages():
            inside |= (addresses >= start) & (addresses + np.uint64(size) <= end)
        if not inside.all() and not self.lenient:
            wild = int(addresses[~inside][0])
            raise self._wild(
                verb, f"at address {wild:#x}, which belongs to no tensor", None, None, int((~inside).sum())
            )
        return np.where(inside, addresses, np.uint64(0))

    def _live_storages(self) -> list[tuple[np.uint64, np.uint64]]:
        known = list(self.storages.values())
        known += [t.untyped_storage() for t in gc.get_objects() if type(t) is torch.Tensor and t.device.type == "cpu"]
        return [(np.uint64(s.data_ptr()), np.uint64(s.data_ptr() + s.nbytes())) for s in known]

    def _outside(self, region: Region, offset: int, lanes: int, verb: str) -> WildAccess:
        tensor = region.tensor
        element = offset // tensor.element_size()
        index = _coordinates(tensor, element)
        start = tensor.storage_offset() + element
        in_storage = start >= 0 and (start + 1) * tensor.element_size() <= tensor.untyped_storage().nbytes()
        shape = "x".join(map(str, tensor.shape)) or "scalar"
        where = f"{region.name}[{', '.join(map(str, index))}]"
        message = f"{verb}s {where}, but {region.name} has shape {shape}"
        if in_storage:
            message += "; the address is inside its storage, outside its view"
        elif element < 0:
            message += f"; {_count(-element, 'element')} before its start"
        else:
            message += f"; {_count(element - region.extent + 1, 'element')} past its end"
        return self._wild(verb, message, region.name, index, lanes)

    def _wild(
        self, verb: str, message: str, tensor: str | None, element: tuple[int, ...] | None, lanes: int
    ) -> WildAccess:
        text = message if message.startswith(verb) else f"{verb}s {message}"
        file, line = kernel_position()
        return WildAccess(
            f"out-of-bounds-{verb}", text, tensor, element, lanes, Site(file, line, tensor, self.launch_index)
        )

    # --------------------------------------------------------------------------------------- who wrote what

    def _note(self, pointers: np.ndarray, real: np.ndarray, mask: np.ndarray, size: int) -> None:
        mask = np.broadcast_to(np.asarray(mask, dtype=bool), real.shape)
        written, names = real[mask].astype(np.int64), pointers[mask]
        if written.size == 0:
            return
        file, line = kernel_position()
        number = int((names[0] & np.uint64(_MADE_UP - 1)) >> np.uint64(_REGION_BITS))
        tensor = self.regions[number].name if names[0] >= np.uint64(_MADE_UP) and number < len(self.regions) else None
        site = Site(file, line, tensor, self.launch_index)
        if site not in self.sites:
            self.sites.append(site)
        grid = self.grids[-1]
        program = (self.program[2] * grid[1] + self.program[1]) * grid[0] + self.program[0]
        for address, storage in self.storages.items():
            inside = (written >= address) & (written < address + storage.nbytes())
            if inside.any():
                writers = self._writers_of(address, storage.nbytes())
                for byte in range(size):
                    writers.program[written[inside] - address + byte] = program
                    writers.site[written[inside] - address + byte] = self.sites.index(site)

    def _writers_of(self, address: int, size: int) -> Writers:
        if address not in self.writers:
            self.writers[address] = Writers(np.full(size, -1, np.int32), np.full(size, -1, np.int16))
        return self.writers[address]

    def writer(self, tensor: torch.Tensor, index: tuple[int, ...]) -> tuple[tuple[int, int, int], Site] | None:
        """The program and line that stored an element last, or None where no launch wrote it."""
        writers = self.writers.get(tensor.untyped_storage().data_ptr())
        if writers is None:
            return None
        byte = (
            tensor.storage_offset() + sum(i * s for i, s in zip(index, tensor.stride(), strict=True))
        ) * tensor.element_size()
        program = int(writers.program[byte])
        if program < 0:
            return None
        site = self.sites[int(writers.site[byte])]
        x, y, _ = self.grids[site.launch]
        return (program % x, program // x % y, program // (x * y)), site

    def last_site(self, tensor: torch.Tensor) -> Site | None:
        """The line among those that stored to a tensor's storage which came last."""
        writers = self.writers.get(tensor.untyped_storage().data_ptr())
        last = -1 if writers is None or writers.site.size == 0 else int(writers.site.max())
        return self.sites[last] if last >= 0 else None

    def unwritten(self, tensor: torch.Tensor) -> torch.Tensor:
        """True where no launch stored to an element of the view."""
        writers = self.writers.get(tensor.untyped_storage().data_ptr())
        if writers is None:
            return torch.ones(tensor.shape, dtype=torch.bool)
        first_bytes = torch.from_numpy(writers.program[:: tensor.element_size()] < 0)
        return first_bytes.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def offsets_of(addresses: np.ndarray) -> np.ndarray:
    """Bytes from the first element of a parameter to made-up addresses in its region; real addresses as they are."""
    made_up = addresses.astype(np.uint64) >= np.uint64(_MADE_UP)
    inside = (addresses.astype(np.uint64) & np.uint64((1 << _REGION_BITS) - 1)).astype(np.int64) - _MIDDLE
    return np.where(made_up, inside, addresses.astype(np.int64))


def is_users_code(file: str) -> bool:
    """False for code of Triton, of NumPy, of the standard library, and of this executor."""
    if file.startswith(_STANDARD_LIBRARY) and not file[len(_STANDARD_LIBRARY) :].startswith(_INSTALLED):
        return False
    return not file.startswith(("<", *_NOT_USERS))


def kernel_position() -> tuple[str, int]:
    """File and line of the innermost frame on the stack that is the user's kernel code."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_users_code(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return "", 0


def _members(tensor: torch.Tensor) -> tuple[np.ndarray | None, int]:
    """Which element offsets from its first element a view covers, and how far it reaches."""
    if tensor.numel() == 0:
        return np.zeros(0, dtype=bool), 0
    extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    if _is_dense(tensor):
        return None, extent
    members = torch.zeros(extent, dtype=torch.bool)
    members.as_strided(tensor.shape, tensor.stride()).fill_(True)
    return members.numpy(), extent


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether a view covers each element of its span exactly once."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True


def _inside(region: Region, offsets: np.ndarray, size: int) -> np.ndarray:
    own = region.tensor.element_size()
    first, last = offsets // own, (offsets + size - 1) // own  # an access may be wider than an element
    inside = (first >= 0) & (last < region.extent)
    if region.members is not None:
        clipped = np.clip(first, 0, max(region.extent - 1, 0))
        inside &= region.members[clipped] if region.extent else False
    return inside


def _coordinates(tensor: torch.Tensor, element: int) -> tuple[int, ...]:
    """An element offset in a view's own coordinates; the outermost dim longer than 1 takes what is too much."""
    strides = tensor.stride()
    order = sorted(range(tensor.dim()), key=lambda d: -strides[d])
    long = [d for d in order if tensor.shape[d] > 1 and strides[d] > 0] or order[-1:]
    index = [0] * tensor.dim()
    for d in long:
        index[d], element = divmod(element, max(strides[d], 1))
    return tuple(index)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
