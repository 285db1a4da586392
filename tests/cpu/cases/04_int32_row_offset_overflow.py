"""Fault kind: int32 overflow in pointer arithmetic.

Row gather: offset = row * row_stride with both int32.  In int32 the product wraps
past 2**31-1.  The big tensor is int8 and is only virtually allocated (a few rows
are touched), so the case runs in little memory.

A tool must say: int32 overflow at the line tagged BUG: row=70000 * stride=65537
= 4587590000 does not fit int32 (wraps to +292622704, silently in bounds); for
row=40000 it wraps to a NEGATIVE offset -1673487296 (OOB load before `x`, segfault
in the stock interpreter).  Best said also at small shapes, as a risk: "the product of
an int32 index and an int32 stride reaches 2**31 once rows*stride > 2147483647".
"""

import torch
import triton
import triton.language as tl

NAIVE = [dict(rows=64, stride=128, pick=(0, 3, 63))]
ADVERSARIAL = [dict(rows=70001, stride=65537, pick=(0, 70000)), dict(rows=40001, stride=65537, pick=(0, 40000))]
EXPECT = dict(kind="int32_overflow", arg="x_ptr", stage=1)
CRASHES_STOCK = [False, True]
COLS = 16


@triton.jit
def _gather(x_ptr, idx_ptr, out_ptr, stride, WIDE: tl.constexpr, COLS: tl.constexpr):
    p = tl.program_id(0)
    row = tl.load(idx_ptr + p)
    if WIDE:
        row = row.to(tl.int64)
    c = tl.arange(0, COLS)
    v = tl.load(x_ptr + row * stride + c)  # BUG
    tl.store(out_ptr + p * COLS + c, v)


def _go(x, idx, wide):
    out = torch.zeros(idx.numel(), COLS, dtype=x.dtype)
    _gather[(idx.numel(),)](x, idx, out, x.stride(0), WIDE=wide, COLS=COLS)
    return out


def inputs(rows=64, stride=128, pick=(0, 3)):
    x = torch.empty(rows, stride, dtype=torch.int8)  # untouched pages stay virtual
    for r in pick:
        x[r, :COLS] = (torch.arange(COLS) + r) % 100 + 1
    return x, torch.tensor(pick, dtype=torch.int32)


def run(x, idx):
    return _go(x, idx, False)


def fixed_run(x, idx):
    return _go(x, idx, True)


def reference(x, idx):
    return x[idx.long(), :COLS]
