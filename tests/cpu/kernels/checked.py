"""Operators for what debug does around the checked executor."""

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

import tilewright as tw


@triton.jit
def rows_kernel(x_ptr, y_ptr, stride, N, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    if WIDE:
        row = row.to(tl.int64)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + columns, mask=columns < N, other=0.0)  # the row's line
    tl.store(y_ptr + row * stride + columns, x * 2, mask=columns < N)


def rows(x, wide):
    y = torch.empty_like(x)
    block = min(triton.next_power_of_2(x.shape[1]), 4096)
    rows_kernel[(x.shape[0],)](x, y, x.stride(0), x.shape[1], WIDE=wide, BLOCK=block)
    return y


@tw.operator(reference=lambda x: x * 2, dtypes=("fp32",))
def narrow_rows(x: Float[Tensor, "M N"]) -> Float[Tensor, "M N"]:
    return rows(x.contiguous(), False)


@tw.operator(reference=lambda x: x * 2, dtypes=("fp32",))
def wide_rows(x: Float[Tensor, "M N"]) -> Float[Tensor, "M N"]:
    return rows(x.contiguous(), True)


@triton.jit
def shifted_kernel(x_ptr, y_ptr, n, shift, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    offsets = start + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets + shift, mask=offsets < n, other=0.0)  # the shifted line
    tl.store(y_ptr + offsets, x, mask=offsets < n)


@tw.operator(dtypes=("fp32",))
def shifted(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    y = torch.empty_like(x)
    shifted_kernel[(triton.cdiv(x.numel(), 16),)](x, y, x.numel(), 3, BLOCK=16)
    return y


@triton.jit
def assembly_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    y = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], tl.int32, True, 1)  # assembly
    tl.store(y_ptr + offsets, y)


def assembled(x):
    y = torch.empty_like(x)
    assembly_kernel[(1,)](x, y, BLOCK=16)
    return y


assembly = tw.Operator(name="assembly", run=assembled, inputs=lambda: (torch.arange(16, dtype=torch.int32),))


@triton.jit
def product_kernel(a_ptr, b_ptr, c_ptr, K, BLOCK: tl.constexpr):
    row, column, inner = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :], tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        a = tl.load(a_ptr + row * K + k + inner[None, :])
        b = tl.load(b_ptr + (k + inner[:, None]) * BLOCK + column)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + row * BLOCK + column, total)


def multiplied(a, b):
    c = torch.empty(16, 16)
    product_kernel[(1,)](a, b, c, a.shape[1], BLOCK=16)
    return c


product = tw.Operator(
    name="product", run=multiplied, reference=torch.matmul, inputs=lambda: (torch.randn(16, 256), torch.randn(256, 16))
)


@triton.jit
def flags_kernel(flag_ptr, y_ptr, n, SKIP: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    flag = tl.load(flag_ptr + offsets, mask=offsets < n, other=0)
    tl.store(y_ptr + offsets, flag, mask=offsets < n - SKIP)


def flagged(x, fresh, skip):
    flags, out = torch.empty_like(x), torch.empty_like(x)
    if not fresh:
        flags.copy_(x)
    flags_kernel[(triton.cdiv(x.numel(), 16),)](flags, out, x.numel(), SKIP=skip, BLOCK=16)
    return out


flags = tw.Operator(
    name="flags",
    run=flagged,
    reference=lambda x, fresh, skip: x.clone(),
    inputs=lambda n=33, fresh=False, skip=0: (torch.rand(n) < 0.5, fresh, skip),
)
