"""The tensors of a case: drawn, laid out in memory, copied, and moved to a device."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tilewright.errors import UsageError


@dataclass(frozen=True)
class Inputs:
    """Arguments of one call. ``names`` are the operator's names of the positional ones."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    names: tuple[str, ...]

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All tensor arguments by name."""
        named = {**dict(zip(self.names, self.args, strict=False)), **self.kwargs}
        return {name: value for name, value in named.items() if isinstance(value, Tensor)}

    def map(self, change: Callable[[Tensor], Tensor]) -> Inputs:
        """The same arguments with each tensor passed through ``change``."""
        args = tuple(change(a) if isinstance(a, Tensor) else a for a in self.args)
        kwargs = {name: change(a) if isinstance(a, Tensor) else a for name, a in self.kwargs.items()}
        return replace(self, args=args, kwargs=kwargs)

    def copy(self, device: torch.device | str | None = None) -> Inputs:
        """A deep copy with the same strides, offsets and aliasing, on ``device`` (default: where it is)."""
        storages: dict[int, torch.UntypedStorage] = {}

        def duplicate(tensor: Tensor) -> Tensor:
            old = tensor.untyped_storage()
            # Python caches no storage objects: their address is what identifies them.
            key = old.data_ptr()
            if key not in storages or key == 0:
                storages[key] = old.clone() if device is None else _moved(old, torch.device(device))
            new = torch.empty(0, dtype=tensor.dtype, device=storages[key].device)
            new.set_(storages[key], tensor.storage_offset(), tensor.size(), tensor.stride())
            return new.requires_grad_(tensor.requires_grad)

        return self.map(duplicate)

    def moved(self) -> Inputs:
        """The same tensors further on in larger storages, with poison around what was there; aliases stay aliases."""
        storages: dict[int, Tensor] = {}

        def move(tensor: Tensor) -> Tensor:
            key = tensor.untyped_storage().data_ptr()
            if key == 0 or tensor.is_complex():
                return tensor
            if key not in storages:
                storages[key] = _offset(tensor)
            moved = storages[key].untyped_storage()
            place = tensor.storage_offset() + OFFSET * storages[key].element_size() // tensor.element_size()
            made = torch.empty(0, dtype=tensor.dtype).set_(moved, place, tensor.size(), tensor.stride())
            return made.requires_grad_(tensor.requires_grad)

        return self.map(move)

    def aliased(self) -> Inputs:
        """The same arguments with one tensor for two of one shape and dtype."""
        pair = aliasable(self.tensors)
        if pair is None:
            return self
        known = self.tensors
        return self.map(lambda tensor: known[pair[0]] if tensor is known[pair[1]] else tensor)

    def upcast(self, dtype: torch.dtype = torch.float64) -> Inputs:
        """Floating tensors in ``dtype``: quantised ones stand for the values they hold."""
        return self.map(lambda t: t.detach().to(dtype) if t.is_floating_point() else t)


def _moved(storage: torch.UntypedStorage, device: torch.device) -> torch.UntypedStorage:
    moved = torch.UntypedStorage(storage.nbytes(), device=device)
    moved.copy_(storage)
    return moved


def generator(seed: int, name: str) -> torch.Generator:
    """A random stream of its own for each tensor, so that adding one does not change the others."""
    return torch.Generator().manual_seed(zlib.crc32(f"{seed}/{name}".encode()))


def _transposed(tensor: Tensor) -> Tensor:
    return tensor.mT.contiguous().mT if tensor.dim() >= 2 else tensor


def _poison_of(dtype: torch.dtype) -> float | bool:
    return torch.nan if dtype.is_floating_point else True if dtype == torch.bool else 77


def _sliced(tensor: Tensor) -> Tensor:
    """A view inside a larger tensor whose other elements are poison; its strides are odd."""
    if tensor.dim() == 0:
        return tensor
    larger = tensor.new_empty([(size + 3) | 1 for size in tensor.shape])
    larger.fill_(_poison_of(tensor.dtype))
    view = larger[tuple(slice(1, 1 + size) for size in tensor.shape)]
    view.copy_(tensor)
    return view


def _offset(tensor: Tensor) -> Tensor:
    """The same strides further on in a larger storage, poison before and behind; as aligned as before."""
    size = tensor.element_size()
    own = tensor.untyped_storage().nbytes() // size
    larger = tensor.new_empty(own + 2 * OFFSET).fill_(_poison_of(tensor.dtype))
    larger[OFFSET : OFFSET + own] = tensor.new_empty(0).set_(tensor.untyped_storage(), 0, (own,), (1,))
    return larger.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset() + OFFSET)


def _expanded(tensor: Tensor) -> Tensor:
    """Its first row for all of them: stride 0."""
    return tensor[:1].clone().expand(tensor.shape) if tensor.dim() >= 2 and tensor.shape[0] > 1 else tensor


def _channels_last(tensor: Tensor) -> Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    chosen = formats.get(tensor.dim())
    return tensor if chosen is None else tensor.contiguous(memory_format=chosen)


OFFSET = 64
"""Elements before a tensor that is laid out further on in its storage: no alignment is lost by them."""
APART = "-apart"
"""Behind the name of a dim: tensors of several dims have that one as far apart as in a slice of something huge."""
UPSTREAM_LAYOUTS = ("expanded-grad", "transposed-grad")
"""Of the gradient that a backward pass is sent; inputs are contiguous with them."""

LAYOUTS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda tensor: tensor,
    "transposed": _transposed,
    "sliced": _sliced,
    "offset": _offset,
    "expanded": _expanded,
    "channels-last": _channels_last,
    "aliased": lambda tensor: tensor,
    **dict.fromkeys(UPSTREAM_LAYOUTS, lambda tensor: tensor),
}


def lay_out(tensor: Tensor, layout: str, *, written: bool = False) -> Tensor:
    """The same values in another memory layout; what is ``written`` to has a place of its own for each element.

    Raises:
        UsageError: no such layout.
    """
    if layout not in LAYOUTS:
        raise UsageError(f"unknown layout {layout!r}", f"choose from {', '.join(LAYOUTS)}")
    return tensor if written and layout == "expanded" else LAYOUTS[layout](tensor)


def aliasable(tensors: Mapping[str, Tensor]) -> tuple[str, str] | None:
    """The first two float tensors of one shape and dtype, which a caller may pass as one and the same."""
    first: dict[tuple[torch.Size, torch.dtype], str] = {}
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and tensor.numel():
            other = first.setdefault((tensor.shape, tensor.dtype), name)
            if other != name:
                return other, name
    return None
