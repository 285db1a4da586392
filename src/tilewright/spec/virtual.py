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
RESERVED = 1 << 24
"""Bytes from which on the other tensors of such a case are reserved only, too."""
_NO_RESERVE = 0x4000  # Linux's MAP_NORESERVE: no page is accounted for before it is touched


def virtual(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """A contiguous tensor of zeros that takes memory only where it is written."""
    size = math.prod(shape) * dtype.itemsize
    pages = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    return torch.frombuffer(pages, dtype=dtype, count=math.prod(shape)).reshape(tuple(shape))


def is_huge(inputs: Inputs) -> bool:
    """Whether the tensors of a call are too large to be drawn, copied and compared."""
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in inputs.tensors.values()}
    return sum(storages.values()) >= HUGE
