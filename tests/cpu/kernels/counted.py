"""Kernels whose dots are to be counted: in loops, branches, calls, and where nobody can tell."""

import triton
import triton.language as tl


@triton.jit
def tile(x_ptr, B: tl.constexpr):
    rows = tl.arange(0, B)
    return tl.load(x_ptr + rows[:, None] * B + rows[None, :])


@triton.jit
def plain(x_ptr, y_ptr, K, B: tl.constexpr, PRECISION: tl.constexpr = "tf32"):
    acc = tl.zeros((B, B), dtype=tl.float32)
    for _ in range(0, tl.cdiv(K, B)):
        x = tile(x_ptr, B)
        acc = tl.dot(x, x, acc, input_precision=PRECISION)
    rows = tl.arange(0, B)
    tl.store(y_ptr + rows[:, None] * B + rows[None, :], acc)


@triton.jit
def inner(x_ptr, acc, count, B: tl.constexpr):
    for _ in range(count):
        acc += tl.dot(tile(x_ptr, B), tile(x_ptr, B))
    return acc


@triton.jit
def triangle(x_ptr, y_ptr, B: tl.constexpr):
    """Program i does i + 1 products."""
    acc = inner(x_ptr, tl.zeros((B, B), dtype=tl.float32), tl.program_id(0) + 1, B)
    tl.store(y_ptr + tl.arange(0, B), tl.sum(acc, 0))


@triton.jit
def persistent(x_ptr, y_ptr, tiles, K, B: tl.constexpr):
    for _ in range(tl.program_id(0), tiles, tl.num_programs(0)):
        acc = inner(x_ptr, tl.zeros((B, B), dtype=tl.float32), tl.cdiv(K, B), B)
        tl.store(y_ptr + tl.arange(0, B), tl.sum(acc, 0))


@triton.jit
def nested(x_ptr, y_ptr, N, B: tl.constexpr):
    acc = tl.zeros((B, B), dtype=tl.float32)
    for i in range(N):
        acc = inner(x_ptr, acc, i + 1, B)
    tl.store(y_ptr + tl.arange(0, B), tl.sum(acc, 0))


@triton.jit
def leaves_early(x_ptr, y_ptr, N, B: tl.constexpr):
    if tl.program_id(0) >= N:
        return
    tl.store(y_ptr + tl.arange(0, B), tl.sum(tl.dot(tile(x_ptr, B), tile(x_ptr, B)), 0))


@triton.jit
def every_other(x_ptr, y_ptr, B: tl.constexpr):
    acc = tl.zeros((B, B), dtype=tl.float32)
    if tl.program_id(0) % 2 == 0:
        acc = tl.dot(tile(x_ptr, B), tile(x_ptr, B), acc)
    tl.store(y_ptr + tl.arange(0, B), tl.sum(acc, 0))


@triton.jit
def as_data_says(x_ptr, y_ptr, lengths_ptr, B: tl.constexpr):
    acc = inner(x_ptr, tl.zeros((B, B), dtype=tl.float32), tl.load(lengths_ptr + tl.program_id(0)), B)
    tl.store(y_ptr + tl.arange(0, B), tl.sum(acc, 0))


@triton.jit
def until_data_says(x_ptr, y_ptr, lengths_ptr, B: tl.constexpr):
    acc = tl.zeros((B, B), dtype=tl.float32)
    i = 0
    while i < tl.load(lengths_ptr):
        acc += tl.dot(tile(x_ptr, B), tile(x_ptr, B))
        i += 1
    tl.store(y_ptr + tl.arange(0, B), tl.sum(acc, 0))


@triton.jit
def batched(x_ptr, y_ptr, B: tl.constexpr):
    i = tl.arange(0, 4)[:, None, None] * B * B + tl.arange(0, B)[None, :, None] * B + tl.arange(0, B)[None, None, :]
    x = tl.load(x_ptr + i)
    tl.store(y_ptr + i, tl.dot(x, x))


@triton.jit
def no_dot(x_ptr, y_ptr, N, B: tl.constexpr):
    offsets = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=offsets < N), mask=offsets < N)
