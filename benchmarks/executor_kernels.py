"""Kernels that the checked executor is timed on against the stock interpreter, each with its call and its golden."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tiles_n = tl.cdiv(N, BLOCK_N)
    row = (tl.program_id(0) // tiles_n) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = (tl.program_id(0) % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + row[:, None] * stride_am + inner[None, :] * stride_ak
    b_ptrs = b_ptr + inner[:, None] * stride_bk + column[None, :] * stride_bn
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=(row[:, None] < M) & (inner[None, :] < K - k), other=0.0)
        b = tl.load(b_ptrs, mask=(inner[:, None] < K - k) & (column[None, :] < N), other=0.0)
        total = tl.dot(a, b, total)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    c_ptrs = c_ptr + row[:, None] * stride_cm + column[None, :] * stride_cn
    tl.store(c_ptrs, total.to(c_ptr.dtype.element_ty), mask=(row[:, None] < M) & (column[None, :] < N))


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, N, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    head = tl.program_id(1) * N * D
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    depth = tl.arange(0, D)
    q = tl.load(q_ptr + head + row[:, None] * D + depth[None, :], mask=row[:, None] < N, other=0.0)
    largest = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    weight = tl.zeros((BLOCK_M,), tl.float32)
    total = tl.zeros((BLOCK_M, D), tl.float32)
    for start in range(0, N, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + head + key[None, :] * D + depth[:, None], mask=key[None, :] < N, other=0.0)
        v = tl.load(v_ptr + head + key[:, None] * D + depth[None, :], mask=key[:, None] < N, other=0.0)
        score = tl.where(key[None, :] < N, tl.dot(q, k) * scale, -float("inf"))
        now = tl.maximum(largest, tl.max(score, 1))
        share = tl.exp(score - now[:, None])
        shrink = tl.exp(largest - now)
        weight = weight * shrink + tl.sum(share, 1)
        total = total * shrink[:, None] + tl.dot(share.to(v.dtype), v)
        largest = now
    total = total / weight[:, None]
    tl.store(
        out_ptr + head + row[:, None] * D + depth[None, :], total.to(out_ptr.dtype.element_ty), mask=row[:, None] < N
    )


def add(n: int, block: int = 1024) -> tuple[Callable[[], Any], Callable[[], Any]]:
    x, y = torch.randn(n), torch.randn(n)
    out = torch.empty(n)

    def call() -> Any:
        add_kernel[(triton.cdiv(n, block),)](x, y, out, n, BLOCK=block)
        return out

    return call, lambda: x + y


def matmul(size: int, block: tuple[int, int, int], dtype: torch.dtype) -> tuple[Callable[[], Any], Callable[[], Any]]:
    a, b = torch.randn(size, size).to(dtype), torch.randn(size, size).to(dtype)
    c = torch.empty(size, size, dtype=dtype)
    m, n, k = block

    def call() -> Any:
        grid = (triton.cdiv(size, m) * triton.cdiv(size, n),)
        strides = (*a.stride(), *b.stride(), *c.stride())
        matmul_kernel[grid](a, b, c, size, size, size, *strides, BLOCK_M=m, BLOCK_N=n, BLOCK_K=k)
        return c

    return call, lambda: a.double() @ b.double()


def attention(batch: int, heads: int, n: int, d: int, block: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    q, k, v = (torch.randn(batch, heads, n, d) for _ in range(3))
    out = torch.empty_like(q)
    scale = d**-0.5

    def call() -> Any:
        grid = (triton.cdiv(n, block), batch * heads)
        attention_kernel[grid](q, k, v, out, n, scale, D=d, BLOCK_M=block, BLOCK_N=block)
        return out

    return call, lambda: torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double())


CASES: dict[str, Callable[[], tuple[Callable[[], Any], Callable[[], Any]]]] = {
    "matmul 512x512x512 fp32, 32x32x32 blocks": lambda: matmul(512, (32, 32, 32), torch.float32),
    "attention 2x4x256x64 fp32, 64x64 blocks": lambda: attention(2, 4, 256, 64, 64),
    "add of 16.8M fp32, blocks of 1024": lambda: add(1 << 24),
    "matmul 1024x1024x1024 fp16, 64x64x32 blocks": lambda: matmul(1024, (64, 64, 32), torch.float16),
}
