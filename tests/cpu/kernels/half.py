"""Kernels that reduce, scan and add bfloat16 tiles without widening them first."""

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int32
from torch import Tensor

import tilewright as tw


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def rows_kernel(x_ptr, y_ptr, N, OP: tl.constexpr, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    mask = columns < N
    x = tl.load(x_ptr + row * N + columns, mask=mask, other=0.0)
    if OP == "sum":
        y = tl.sum(x, 0)
    elif OP == "max":
        y = tl.max(tl.where(mask, x, -float("inf")), 0)
    elif OP == "min":
        y = tl.min(tl.where(mask, x, float("inf")), 0)
    elif OP == "argmax":
        y = tl.argmax(tl.where(mask, x, -float("inf")), 0).to(tl.float32)
    elif OP == "reduce":
        y = tl.reduce(x, 0, plus)
    tl.store(y_ptr + row, y)


@triton.jit
def scans_kernel(x_ptr, y_ptr, N, OP: tl.constexpr, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    mask = columns < N
    x = tl.load(x_ptr + row * N + columns, mask=mask, other=1.0)
    if OP == "sum":
        y = tl.associative_scan(x, 0, tl.standard._sum_combine)
    else:
        y = tl.associative_scan(x, 0, tl.standard._prod_combine)
    tl.store(y_ptr + row * N + columns, y, mask=mask)


def rows(x, op):
    x = x.contiguous()
    y = torch.empty(x.shape[0], dtype=x.dtype)
    rows_kernel[(x.shape[0],)](x, y, x.shape[1], OP=op, BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


def scans(x, op):
    x = x.contiguous()
    y = torch.empty_like(x)
    scans_kernel[(x.shape[0],)](x, y, x.shape[1], OP=op, BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


@tw.operator(reference=lambda x: x.sum(-1), dtypes="bf16")
def summed(x: Float[Tensor, "M N"]) -> Float[Tensor, "M"]:
    return rows(x, "sum")


@tw.operator(reference=lambda x: x.amax(-1), dtypes="bf16")
def largest(x: Float[Tensor, "M N"]) -> Float[Tensor, "M"]:
    return rows(x, "max")


@tw.operator(reference=lambda x: x.amin(-1), dtypes="bf16")
def smallest(x: Float[Tensor, "M N"]) -> Float[Tensor, "M"]:
    return rows(x, "min")


@tw.operator(reference=lambda x: x.argmax(-1).to(x.dtype), dtypes="bf16")
def where_largest(x: Float[Tensor, "M N"]) -> Float[Tensor, "M"]:
    return rows(x, "argmax")


def in_pairs(x):
    """A sum as hardware makes it of a combine function: neighbours in pairs, each step rounded."""
    x = torch.nn.functional.pad(x, (0, triton.next_power_of_2(x.shape[1]) - x.shape[1]))
    while x.shape[1] > 1:
        x = x[:, 0::2] + x[:, 1::2]
    return x[:, 0]


@tw.operator(reference=in_pairs, dtypes=("bf16", "fp16"))
def reduced(x: Float[Tensor, "M N"]) -> Float[Tensor, "M"]:
    return rows(x, "reduce")


@tw.operator(reference=lambda x: x.cumsum(-1), dtypes="bf16")
def scanned(x: Float[Tensor, "M N"]) -> Float[Tensor, "M N"]:
    return scans(x, "sum")


@tw.operator(reference=lambda x: x.cumprod(-1), dtypes="bf16", values={"x": tw.values.uniform(0.9, 1.1)})
def multiplied(x: Float[Tensor, "M N"]) -> Float[Tensor, "M N"]:
    return scans(x, "prod")


@triton.jit
def total_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + columns, mask=columns < N, other=0.0)
    tl.store(y_ptr, tl.sum(tl.reshape(x, (2, BLOCK // 2))))


@tw.operator(reference=lambda x: x.sum().reshape(1), dtypes="bf16")
def total(x: Float[Tensor, "N"]) -> Float[Tensor, "1"]:
    y = torch.empty(1, dtype=x.dtype)
    total_kernel[(1,)](x.contiguous(), y, x.numel(), BLOCK=triton.next_power_of_2(x.numel()))
    return y


@triton.jit
def first_largest(a, i, b, j):
    takes = (a > b) | ((a == b) & (i < j))
    return tl.where(takes, a, b), tl.where(takes, i, j)


@triton.jit
def both_kernel(x_ptr, y_ptr, i_ptr, N, KEEP: tl.constexpr, BLOCK: tl.constexpr):
    rows, columns = tl.arange(0, 4), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + rows[:, None] * N + columns[None, :], mask=columns[None, :] < N, other=-float("inf"))
    index = tl.broadcast_to(columns[None, :], x.shape)
    value, place = tl.reduce((x, index), 1, first_largest, keep_dims=KEEP)
    if KEEP:
        tl.store(y_ptr + rows[:, None], value)
        tl.store(i_ptr + rows[:, None], place)
    else:
        tl.store(y_ptr + rows, value)
        tl.store(i_ptr + rows, place)


def largest_of(x):
    value, place = x.max(1)
    return value, place.to(torch.int32)


@tw.operator(reference=largest_of, dtypes="bf16")
def largest_and_where(x: Float[Tensor, "4 N"], *, keep: bool = False) -> tuple[Float[Tensor, "4"], Int32[Tensor, "4"]]:
    y, i = torch.empty(4, dtype=x.dtype), torch.empty(4, dtype=torch.int32)
    both_kernel[(1,)](x.contiguous(), y, i, x.shape[1], KEEP=keep, BLOCK=triton.next_power_of_2(x.shape[1]))
    return y, i


@triton.jit
def add_kernel(x_ptr, y_ptr, N, BINS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < N
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    tl.atomic_add(y_ptr + offsets % BINS, x, mask=mask)


def add(x, bins, start):
    y = torch.full((bins,), start, dtype=x.dtype)
    add_kernel[(triton.cdiv(x.numel(), 32),)](x.contiguous(), y, x.numel(), BINS=bins, BLOCK=32)
    return y


@tw.operator(reference=lambda x: x + 1, dtypes="bf16")
def added(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return add(x, x.numel(), 1.0)


def binned(x):
    return torch.zeros(4, dtype=x.dtype).index_add(0, torch.arange(x.numel()) % 4, x)


@tw.operator(reference=binned, dtypes="bf16", values={"x": tw.values.integers(-3, 4)})
def histogram(x: Float[Tensor, "N"]) -> Float[Tensor, "4"]:
    return add(x, 4, 0.0)


@triton.jit
def print_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < N)
    tl.device_print("x", x)
    tl.store(y_ptr + offsets, x, mask=offsets < N)


@tw.operator(reference=lambda x: x.clone(), dtypes="bf16", values={"x": tw.values.constant(1.5)})
def printing(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    y = torch.empty_like(x)
    print_kernel[(1,)](x.contiguous(), y, x.numel(), BLOCK=4)
    return y
