"""Handing over with tl.atomic_store and tl.atomic_poll, which Triton has from 3.9 on."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _handed_over(x_ptr, y_ptr, flag_ptr, BLOCK: tl.constexpr, SEM: tl.constexpr, LAST: tl.constexpr):
    program, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    if program == (tl.num_programs(0) - 1 if LAST else 0):
        tl.store(y_ptr + lanes, tl.load(x_ptr + lanes) * 2)
        tl.debug_barrier()
        tl.atomic_store(flag_ptr, 1, sem=SEM)
    else:
        seen = tl.atomic_poll(flag_ptr, 1)
        y = tl.load(y_ptr + lanes)  # read
        tl.store(y_ptr + (program + 1) * BLOCK + lanes, y + seen.to(tl.float32))


def handed_over(sem: str = "release", last: bool = False) -> tuple[Tensor, Tensor]:
    """What each program saw, and what it should have seen: the one that hands over writes nothing of its own."""
    x, y = torch.randn(16), torch.zeros(5 * 16)
    _handed_over[(4,)](x, y, torch.zeros(1, dtype=torch.int32), BLOCK=16, SEM=sem, LAST=last)
    expected = torch.cat([2 * x, *(2 * x + 1 if (p != 3 if last else p != 0) else torch.zeros(16) for p in range(4))])
    return y, expected


@triton.jit
def _polled(flag_ptr, y_ptr, TIMEOUT: tl.constexpr):
    seen = tl.atomic_poll(flag_ptr, 1, timeout_ns=TIMEOUT)  # poll
    tl.store(y_ptr + tl.program_id(0), seen.to(tl.int32) + tl.atomic_load(flag_ptr))


def polled_for_nothing(timeout: int | None) -> Tensor:
    y = torch.full((3,), 7, dtype=torch.int32)
    _polled[(3,)](torch.zeros(1, dtype=torch.int32), y, TIMEOUT=timeout)
    return y
