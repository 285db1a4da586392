"""The stock interpreter's tiles as torch tensors, to be looked at in a debugger."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
import triton.language as tl
from torch import Tensor
from triton.runtime import interpreter as stock

from tilewright.debug import float8, guard

_FORMATS = {tl.bfloat16: torch.bfloat16, **float8.FORMATS}


@contextlib.contextmanager
def mended() -> Iterator[None]:
    """Within it, the interpreter's tiles name themselves as debuggers show them."""
    patch = stock._patch_lang_tensor

    def with_names(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__repr__", shown)

    stock._patch_lang_tensor = with_names
    try:
        yield
    finally:
        stock._patch_lang_tensor = patch


def as_tensors(names: Mapping[str, Any]) -> dict[str, Any]:
    """A kernel's names with torch tensors for tiles and numbers for constexprs; torch is among them."""
    return {"torch": torch, **{name: as_tensor(value) for name, value in names.items()}}


def as_tensor(value: Any) -> Any:
    """A tile as a torch tensor, pointers as offsets in elements; what is no tile as it is."""
    if isinstance(value, tl.constexpr):
        return value.value
    if not isinstance(value, tl.tensor) or not hasattr(value.handle, "data"):
        return value
    data = np.ascontiguousarray(value.handle.data)
    element = value.handle.get_element_ty() if value.dtype.is_ptr() else value.handle.dtype.scalar
    if value.dtype.is_ptr():
        data = guard.offsets_of(data) // max(element.primitive_bitwidth // 8, 1)
    tensor = torch.from_numpy(data.copy())
    if not value.dtype.is_ptr() and element in _FORMATS:
        tensor = tensor.view(_FORMATS[element])
    return tensor if value.type.is_block() else tensor.reshape(())


def as_scalar(value: Any) -> Any:
    """The number that a name of a kernel stands for; other values as they are."""
    value = as_tensor(value)
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 else value


def shown(value: Any) -> str:
    """A value as a debugger shows it: of a tile its dtype and shape, then its elements."""
    is_pointer = isinstance(value, tl.tensor) and value.dtype.is_ptr()
    tensor = as_tensor(value)
    if not isinstance(tensor, Tensor):
        return repr(tensor)
    if tensor.dim() == 0:
        return repr(tensor.item())
    shape = "x".join(map(str, tensor.shape))
    kind = "offsets in elements" if is_pointer else str(tensor.dtype).removeprefix("torch.")
    return f"{kind} {shape}\n{tensor}"
