"""The SM clock while a sample was taken, from the chip's own counters: cycles of each SM, over the global timer.

Stamps are written before a sample's hold and behind it; the span between them is long enough for the timer's steps (up
to a microsecond) not to matter.
"""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import globaltimer, smid

_MOST_SMS = 512


@triton.jit
def _stamp(out):  # type: ignore[no-untyped-def]
    cycles = tl.inline_asm_elementwise("mov.u64 $0, %clock64;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)
    nanoseconds = globaltimer()
    place = out + 2 * smid()
    tl.store(place, cycles)
    tl.store(place + 1, nanoseconds)


class Stamps:
    """Two stamps around each sample, one program for each SM; what reached both stamps counts."""

    def __init__(self) -> None:
        self._programs = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
        self._out = torch.zeros(2, _MOST_SMS, 2, dtype=torch.int64, device="cuda")
        self._latest = 0

    def first(self) -> None:
        _stamp[(self._programs,)](self._out[0], num_warps=1)

    def second(self) -> None:
        _stamp[(self._programs,)](self._out[1], num_warps=1)

    def mhz(self) -> float | None:
        """Waits for the second stamp; None where no SM has both."""
        stamps = self._out.cpu().numpy()
        found = megahertz(stamps, self._latest)
        self._latest = int(stamps[1, :, 1].max())
        return found


def megahertz(stamps: np.ndarray, since: int) -> float | None:  # type: ignore[type-arg]
    """The median over SMs; ``stamps`` are 2 x SMs x (cycles, ns), those not later than ``since`` of earlier samples."""
    (cycles, start), (later_cycles, end) = stamps.transpose(0, 2, 1)
    both = (start > since) & (end > start) & (later_cycles > cycles)
    if not both.any():
        return None
    return float(np.median((later_cycles - cycles)[both] / (end - start)[both])) * 1e3
