"""Fault kind: redundant programs write the same cells (benign-looking write-write race).

The grid is sized by N // 16 but the kernel never reads program_id, so for N >= 32 two or more
programs store the same values to the same cells.

A tool must say (WARNING, not ERROR): write-write conflict on `out` with EQUAL values between
programs (0,0,0) and (1,0,0); kernel is independent of program_id(0) though grid[0] = 2.
No value comparison can ever show it.
"""

import torch
import triton
import triton.language as tl

NAIVE = [dict(N=16)]
ADVERSARIAL = [dict(N=32), dict(N=64)]
EXPECT = dict(kind="write_write_same_value", arg="out_ptr", stage=1, severity="warning")


@triton.jit
def _double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    for s in range(0, n, BLOCK):
        o = s + tl.arange(0, BLOCK)
        m = o < n
        tl.store(out_ptr + o, tl.load(x_ptr + o, mask=m, other=0.0) * 2.0, mask=m)  # BUG


def _go(x, grid):
    out = torch.empty_like(x)
    _double[grid](x, out, x.numel(), BLOCK=16)
    return out


def inputs(N=16, seed=0):
    g = torch.Generator().manual_seed(seed)
    return (torch.randn(N, generator=g),)


def run(x):
    return _go(x, (max(1, x.numel() // 16),))


def fixed_run(x):
    return _go(x, (1,))


def reference(x):
    return x * 2.0
