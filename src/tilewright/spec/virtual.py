"""Tensors of sizes that this machine has no memory for: reserved, all zero, given pages only where they are written."""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence

import torch
from torch import Tensor

from tilewright.spec.inputs import Inputs

HUGE = 1 << 30
"""Bytes of a case's tensors from which on its values are not looked at, only its addresses."""
APART = 3 << 30
"""Elements that a dim laid out far apart spans: its last third lies beyond 32-bit offsets."""
_ALIGNED = 64
"""Elements that divide the strides of such a layout, as they divide those of most large tensors."""
_WRITTEN_APART = 1 << 12
"""Elements along such a dim that are written; of more than these all stay 0."""
RESERVED = 1 << 24
"""Bytes from which on the other tensors of such a case are reserved only, too."""
_NO_RESERVE = 0x4000  # Linux's MAP_NORESERVE: no page is accounted for before it is touched


def virtual(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """A contiguous tensor of zeros that takes memory only where it is written."""
    size = math.prod(shape) * dtype.itemsize
    pages = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    return torch.frombuffer(pages, dtype=dtype, count=math.prod(shape)).reshape(tuple(shape))


def apart(tensor: Tensor, axis: int) -> Tensor:
    """The same values, those along an axis as far from each other as in a slice of something huge, all else close by.

    Tables of indices stay as they are: whatever they point into, they are small.
    """
    size = tensor.shape[axis]
    if size < 2 or tensor.numel() == 0 or tensor.dtype in (torch.int32, torch.int64):
        return tensor
    close = [n for position, n in enumerate(tensor.shape) if position != axis]
    stride = max(APART // (size - 1), math.prod(close))
    stride += -stride % _ALIGNED
    strides = [math.prod(close[position + 1 :]) for position in range(len(close))]
    strides.insert(axis, stride)
    memory = virtual([(size - 1) * stride + math.prod(close)], tensor.dtype)
    laid_out = memory.as_strided(tensor.shape, strides)
    return laid_out.copy_(tensor) if size <= _WRITTEN_APART else laid_out  # which takes a page for each


def is_huge(inputs: Inputs) -> bool:
    """Whether the tensors of a call are too large to be drawn, copied and compared."""
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in inputs.tensors.values()}
    return sum(storages.values()) >= HUGE
