"""Kernels for inputs out of the ordinary."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n)
    tl.store(y_ptr + lanes, x + x, mask=lanes < n)


@triton.jit
def move(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + lanes, tl.load(x_ptr + lanes, mask=lanes < n), mask=lanes < n)


@triton.jit
def strided(x_ptr, y_ptr, m, n, sm, sn, BM: tl.constexpr, BN: tl.constexpr):
    rm, rn = tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    mask = (rm < m) & (rn < n)
    tl.store(y_ptr + rm * n + rn, tl.load(x_ptr + rm * sm + rn * sn, mask=mask), mask=mask)


@triton.jit
def fill_strided(y_ptr, m, n, sm, sn, BM: tl.constexpr, BN: tl.constexpr):
    rm, rn = tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    tl.store(y_ptr + rm * sm + rn * sn, rm * 100 + rn, mask=(rm < m) & (rn < n))


@triton.jit
def scalar(x_ptr, y_ptr):
    tl.store(y_ptr, tl.load(x_ptr) + 1)


@triton.jit
def maybe_biased(x_ptr, bias_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n)
    if bias_ptr is not None:
        x += tl.load(bias_ptr + lanes, mask=lanes < n)
    tl.store(y_ptr + lanes, x, mask=lanes < n)


@triton.jit
def of_tuples(inputs, outputs, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    for i in tl.static_range(len(inputs)):
        x = tl.load(inputs[i] + lanes, mask=lanes < n)
        tl.store(outputs[i] + lanes, x * (i + 1), mask=lanes < n)


@triton.jit
def three_axes(y_ptr, BLOCK: tl.constexpr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    at = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
    tl.store(y_ptr + at, x + 10 * y + 100 * z)


@triton.jit
def ends(x_ptr, y_ptr, rows, stride, BLOCK: tl.constexpr):
    """Of a huge tensor the first and the last row."""
    row = tl.where(tl.program_id(0) == 0, 0, rows - 1).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    tl.store(y_ptr + row * stride + lanes, tl.load(x_ptr + row * stride + lanes))


@triton.jit
def ends_in_place(x_ptr, rows, stride, BLOCK: tl.constexpr, STEP: tl.constexpr):
    row = tl.where(tl.program_id(0) == 0, 0, rows - 1).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + lanes)
    tl.store(x_ptr + row * stride * STEP + lanes, x + 1)


@triton.jit
def through_integer(address, y_ptr, BLOCK: tl.constexpr):
    p = address.to(tl.pointer_type(tl.float32))
    lanes = tl.arange(0, BLOCK)
    tl.store(y_ptr + lanes, tl.load(p + lanes))
