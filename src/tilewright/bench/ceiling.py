"""What this card can do at the clocks it holds now: copies and products of large matrices, measured.

Nothing that was counted right runs faster. A result above the ceiling means work left out, or bytes and operations
counted that are not needed.
"""

from __future__ import annotations

import functools
import statistics
from dataclasses import dataclass
from typing import Any

import torch

from tilewright.bench import flags
from tilewright.bench.device import DeviceTimer

_COPY_BYTES = 2**30
_PRODUCT_SIZE = {torch.float64: 4096, torch.float32: 8192, torch.float16: 8192, torch.bfloat16: 8192}
_PROBES = 7
_L2_ROOM = 2
"""So many times the cache's size may have stayed in it."""


@dataclass(frozen=True)
class Ceiling:
    """Bytes and operations a second, as far as they could be measured."""

    bytes_per_second: float | None
    flops_per_second: float | None

    def bound(self, flops: float | None, read: float, written: float, l2_bytes: int, *, is_cold: bool) -> float | None:
        """The least seconds for a call, None where nothing is known of it.

        What was written may stay in the cache, and where that is warm what is read may lie there.
        """
        in_memory = max(written - _L2_ROOM * l2_bytes, 0.0)
        in_memory += read if is_cold else max(read - _L2_ROOM * l2_bytes, 0.0)
        bounds = []
        if self.bytes_per_second is not None:
            bounds.append(in_memory / self.bytes_per_second)
        if self.flops_per_second is not None and flops:
            bounds.append(flops / self.flops_per_second)
        return max(bounds, default=0.0) or None


def measure(dtype: torch.dtype) -> Ceiling:
    """Of this GPU, once in a process; ``dtype`` is that of the products."""
    return Ceiling(_copying(), _multiplying(dtype) if dtype in _PRODUCT_SIZE else None)


@functools.cache
def _timer() -> DeviceTimer:
    return DeviceTimer("cold")


def _seconds(call: Any) -> float:
    call()
    return statistics.median(_timer().time(call).seconds for _ in range(_PROBES))


@functools.cache
def _copying() -> float | None:
    size = min(_COPY_BYTES, int(torch.cuda.mem_get_info()[0]) // 8)
    if size < 8 * _timer().l2.size:
        return None
    source = torch.randint(0, 256, (size,), dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * size / _seconds(lambda: target.copy_(source))


@functools.cache
def _multiplying(dtype: torch.dtype) -> float | None:
    """Of normal values, as zeros would draw less power; float32 with TF32, as a kernel may use it."""
    size = _PRODUCT_SIZE[dtype]
    if 4 * size * size * dtype.itemsize > torch.cuda.mem_get_info()[0]:
        return None
    one, other = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
    out = torch.empty_like(one)
    before = flags.read()
    try:
        torch.set_float32_matmul_precision("high")
        return 2 * size**3 / _seconds(lambda: torch.mm(one, other, out=out))
    finally:
        flags.restore(before)
