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


def _sliced(tensor: Tensor) -> Tensor:
    """A view inside a larger tensor whose other elements are poison."""
    if tensor.dim() == 0:
        return tensor
    larger = tensor.new_empty([size + 3 for size in tensor.shape])
    larger.fill_(torch.nan if tensor.is_floating_point() else 77 if tensor.dtype != torch.bool else True)
    view = larger[tuple(slice(1, 1 + size) for size in tensor.shape)]
    view.copy_(tensor)
    return view


UPSTREAM_LAYOUTS = ("expanded-grad", "transposed-grad")
"""Of the gradient that a backward pass is sent; inputs are contiguous with them."""

LAYOUTS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda tensor: tensor,
    "transposed": _transposed,
    "sliced": _sliced,
    **dict.fromkeys(UPSTREAM_LAYOUTS, lambda tensor: tensor),
}


def lay_out(tensor: Tensor, layout: str) -> Tensor:
    """The same values in another memory layout.

    Raises:
        UsageError: no such layout.
    """
    if layout not in LAYOUTS:
        raise UsageError(f"unknown layout {layout!r}", f"choose from {', '.join(LAYOUTS)}")
    return LAYOUTS[layout](tensor)
