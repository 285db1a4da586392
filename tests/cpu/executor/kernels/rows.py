"""Techniques on vectors and rows: add, softmax, dropout, norms with locks, scans across programs, histograms."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

Pairs = list[tuple[Tensor, Tensor]]


@triton.jit
def _add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask), mask=mask)


def vector_add() -> Pairs:
    x, y = torch.randn(1000), torch.randn(1000)
    out = torch.empty_like(x)
    _add[(triton.cdiv(1000, 256),)](x, y, out, 1000, BLOCK=256)
    return [(out, x + y)]


@triton.jit
def _softmax(out_ptr, x_ptr, x_stride, out_stride, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    first, step = tl.program_id(0), tl.num_programs(0)
    lanes = tl.arange(0, BLOCK)
    mask = lanes < columns
    for row in tl.range(first, rows, step, num_stages=STAGES):
        x = tl.load(x_ptr + row * x_stride + lanes, mask=mask, other=-float("inf"))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * out_stride + lanes, e / tl.sum(e, axis=0), mask=mask)


def persistent_softmax() -> Pairs:
    x = torch.randn(37, 80)[:, :61]
    out = torch.empty(37, 61)
    _softmax[(8,)](out, x, x.stride(0), out.stride(0), 37, 61, BLOCK=64, STAGES=2)
    return [(out, torch.softmax(x, -1))]


@triton.jit
def _dropout(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    keep = tl.rand(seed, offsets) > p
    tl.store(out_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=mask)


def seeded_dropout() -> Pairs:
    x = torch.randn(5000)
    out, again = torch.empty_like(x), torch.empty_like(x)
    for y in (out, again):
        _dropout[(triton.cdiv(5000, 512),)](x, y, 5000, 0.3, 123, BLOCK=512)
    kept = out != 0
    assert 0.66 < kept.float().mean() < 0.74
    return [(out[kept], (x / 0.7)[kept]), (out, again)]


@triton.jit
def _layer_norm(x_ptr, y_ptr, w_ptr, b_ptr, mean_ptr, rstd_ptr, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * stride
    y_ptr += row * stride
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + lanes, mask=lanes < N, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / N
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + lanes, mask=lanes < N, other=0.0).to(tl.float32)
        x = tl.where(lanes < N, x - mean, 0.0)
        squares += x * x
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / N + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, N, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        mask = lanes < N
        w, b = tl.load(w_ptr + lanes, mask=mask), tl.load(b_ptr + lanes, mask=mask)
        x = tl.load(x_ptr + lanes, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + lanes, (x - mean) * rstd * w + b, mask=mask)


@triton.jit
def _layer_norm_grads(
    dx_ptr,
    dy_ptr,
    dw_ptr,
    db_ptr,
    x_ptr,
    w_ptr,
    mean_ptr,
    rstd_ptr,
    lock_ptr,
    stride,
    N,
    GROUPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Each row adds its share of dw and db to a partial sum of its group, guarded by the group's lock."""
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    mask = lanes < N
    group = row % GROUPS
    lock_ptr += group
    count_ptr = lock_ptr + GROUPS
    x = tl.load(x_ptr + row * stride + lanes, mask=mask, other=0).to(tl.float32)
    dy = tl.load(dy_ptr + row * stride + lanes, mask=mask, other=0).to(tl.float32)
    w = tl.load(w_ptr + lanes, mask=mask).to(tl.float32)
    mean, rstd = tl.load(mean_ptr + row), tl.load(rstd_ptr + row)
    hat = tl.where(mask, (x - mean) * rstd, 0.0)
    wdy = tl.where(mask, w * dy, 0.0)
    c1, c2 = tl.sum(hat * wdy, axis=0) / N, tl.sum(wdy, axis=0) / N
    tl.store(dx_ptr + row * stride + lanes, (wdy - (hat * c1 + c2)) * rstd, mask=mask)
    dw, db = dy * hat, dy
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    if tl.load(count_ptr) == 0:  # the first of a group stores, the others add
        tl.atomic_xchg(count_ptr, 1)
    else:
        dw += tl.load(dw_ptr + group * N + lanes, mask=mask)
        db += tl.load(db_ptr + group * N + lanes, mask=mask)
    tl.store(dw_ptr + group * N + lanes, dw, mask=mask)
    tl.store(db_ptr + group * N + lanes, db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def _sum_groups(partial_ptr, out_ptr, groups, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, groups, ROWS):
        rows = start + tl.arange(0, ROWS)
        mask = (rows[:, None] < groups) & (columns[None, :] < N)
        total += tl.load(partial_ptr + rows[:, None] * N + columns[None, :], mask=mask, other=0.0)
    tl.store(out_ptr + columns, tl.sum(total, axis=0), mask=columns < N)


def layer_norm(rows: int = 24, n: int = 50, groups: int = 4) -> Pairs:
    x, w, b = (t.requires_grad_() for t in (torch.randn(rows, n), torch.randn(n), torch.randn(n)))
    dy = torch.randn(rows, n)
    expected = torch.nn.functional.layer_norm(x, (n,), w, b)
    expected.backward(dy)
    with torch.no_grad():
        y, dx = torch.empty_like(x), torch.empty_like(x)
        mean, rstd = x.new_empty(rows), x.new_empty(rows)
        _layer_norm[(rows,)](x, y, w, b, mean, rstd, x.stride(0), n, 1e-5, BLOCK=32)
        locks = torch.zeros(2 * groups, dtype=torch.int32)
        partial = torch.empty(2, groups, n)
        dw, db = torch.empty_like(w), torch.empty_like(b)
        _layer_norm_grads[(rows,)](
            dx, dy, partial[0], partial[1], x, w, mean, rstd, locks, x.stride(0), n, GROUPS=groups, BLOCK=64
        )
        for part, out in ((partial[0], dw), (partial[1], db)):
            _sum_groups[(2,)](part, out, groups, n, ROWS=8, BLOCK=32)
    return [(y, expected.detach()), (dx, x.grad), (dw, w.grad), (db, b.grad)]


@triton.jit
def _rms_norm(x_ptr, w_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + lanes, mask=lanes < N, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x) / N + eps)
    w = tl.load(w_ptr + lanes, mask=lanes < N, other=0.0)
    tl.store(x_ptr + row * N + lanes, (x * scale * w).to(x_ptr.dtype.element_ty), mask=lanes < N)


def rms_norm_in_place() -> Pairs:
    x, w = torch.randn(7, 40, dtype=torch.float16), torch.randn(40)
    wide = x.float()
    expected = wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-6) * w
    _rms_norm[(7,)](x, w, 40, 1e-6, BLOCK=64)
    return [(x, expected.half())]


@triton.jit
def _transpose(x_ptr, y_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :], mask=(m[:, None] < M) & (n[None, :] < N))
    tl.store(y_ptr + n[:, None] * M + m[None, :], tl.trans(x), mask=(n[:, None] < N) & (m[None, :] < M))


def transpose() -> Pairs:
    x = torch.randn(45, 70)
    y = x.new_empty(70, 45)
    _transpose[(3, 5)](x, y, 45, 70, BM=16, BN=16)
    return [(y, x.t())]


@triton.jit
def _histogram(x_ptr, counts_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0)
    tl.atomic_add(counts_ptr + x, 1, mask=mask, sem="relaxed")


@triton.jit
def _histogram_of_tiles(x_ptr, counts_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0)
    counts = tl.histogram(x, BINS) - tl.where(tl.arange(0, BINS) == 0, tl.sum((offsets >= n).to(tl.int32)), 0)
    tl.atomic_add(counts_ptr + tl.arange(0, BINS), counts)


def histograms() -> Pairs:
    x = torch.randint(0, 16, (1000,), dtype=torch.int32)
    pairs = []
    for kernel in (_histogram, _histogram_of_tiles):
        counts = torch.empty(16, dtype=torch.int32).fill_(0)
        kernel[(8,)](x, counts, 1000, BINS=16, BLOCK=128)
        pairs.append((counts.long(), torch.bincount(x, minlength=16)))
    return pairs


@triton.jit
def _argmax(x_ptr, value_ptr, index_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + lanes, mask=lanes < N, other=-float("inf"))
    value, index = tl.max(x, axis=0, return_indices=True)
    tl.store(value_ptr + row, value)
    tl.store(index_ptr + row, index)


def row_argmax() -> Pairs:
    x = torch.randn(9, 33)
    value, index = x.new_empty(9), torch.empty(9, dtype=torch.int32)
    _argmax[(9,)](x, value, index, 33, BLOCK=64)
    return [(value, x.max(-1).values), (index.long(), x.max(-1).indices)]


TECHNIQUES = [
    vector_add,
    persistent_softmax,
    seeded_dropout,
    layer_norm,
    rms_norm_in_place,
    transpose,
    histograms,
    row_argmax,
]
