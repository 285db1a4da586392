"""Operators over the kernels of tests/cpu/executor/kernels/rows.py."""

import torch
import triton
from jaxtyping import Float, Int32
from rows import (
    _add,
    _argmax,
    _histogram,
    _histogram_of_tiles,
    _layer_norm,
    _layer_norm_grads,
    _rms_norm,
    _softmax,
    _sum_groups,
    _transpose,
)
from torch import Tensor

import tilewright as tw

SMALL = "M * N < 2**31"  # offsets in 32 bits


@tw.operator(reference=lambda x, y: x + y, where="N < 2**31 - 256")
def vector_add(x: Float[Tensor, "N"], y: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    x, y = x.contiguous(), y.contiguous()
    out = torch.empty_like(x)
    if out.numel():
        _add[(triton.cdiv(x.numel(), 256),)](x, y, out, x.numel(), BLOCK=256)
    return out


@tw.operator(reference=lambda x: torch.softmax(x, -1), where=f"{SMALL} and N >= 1")
def persistent_softmax(x: Float[Tensor, "M N"]) -> Float[Tensor, "M N"]:
    x = x if x.stride(1) == 1 else x.contiguous()
    M, N = x.shape
    out = torch.empty((M, N))
    _softmax[(8,)](out, x, x.stride(0), out.stride(0), M, N, BLOCK=triton.next_power_of_2(N), STAGES=2)
    return out


def _norm_golden(x, w, b):
    mean = x.mean(-1, keepdim=True)
    rstd = ((x - mean).square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    return (x - mean) * rstd * w + b, mean[:, 0], rstd[:, 0]


@tw.operator(reference=_norm_golden, where=f"{SMALL} and N >= 1")
def layer_norm_walks(
    x: Float[Tensor, "M N"], w: Float[Tensor, "N"], b: Float[Tensor, "N"]
) -> tuple[Float[Tensor, "M N"], Float[Tensor, "M"], Float[Tensor, "M"]]:
    x, w, b = x.contiguous(), w.contiguous(), b.contiguous()
    M, N = x.shape
    y, mean, rstd = torch.empty((M, N)), torch.empty(M), torch.empty(M)
    if M:
        _layer_norm[(M,)](x, y, w, b, mean, rstd, x.stride(0), N, 1e-5, BLOCK=32)
    return y, mean, rstd


def _norm_gradients(dy, x, w):
    mean = x.mean(-1, keepdim=True)
    rstd = ((x - mean).square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    hat, wdy = (x - mean) * rstd, w * dy
    dx = (wdy - hat * (hat * wdy).mean(-1, keepdim=True) - wdy.mean(-1, keepdim=True)) * rstd
    return dx, (dy * hat).sum(0), dy.sum(0)


@tw.operator(reference=_norm_gradients, where=f"{SMALL} and N >= 1 and M >= 4")
def layer_norm_locks(
    dy: Float[Tensor, "M N"], x: Float[Tensor, "M N"], w: Float[Tensor, "N"]
) -> tuple[Float[Tensor, "M N"], Float[Tensor, "N"], Float[Tensor, "N"]]:
    dy, x, w = dy.contiguous(), x.contiguous(), w.contiguous()
    M, N = x.shape
    mean = x.mean(-1)
    rstd = ((x - mean[:, None]).square().mean(-1) + 1e-5).rsqrt()
    dx, dw, db = torch.empty((M, N)), torch.empty(N), torch.empty(N)
    locks, partial = torch.zeros(2 * 4, dtype=torch.int32), torch.empty(2, 4, N)
    _layer_norm_grads[(M,)](
        dx, dy, partial[0], partial[1], x, w, mean, rstd, locks, x.stride(0), N,
        GROUPS=4, BLOCK=triton.next_power_of_2(N),
    )  # fmt: skip
    for part, out in ((partial[0], dw), (partial[1], db)):
        _sum_groups[(triton.cdiv(N, 32),)](part, out, 4, N, ROWS=8, BLOCK=32)
    return dx, dw, db


def _rms_golden(x, w):
    x.copy_(x * ((x * x).mean(-1, keepdim=True) + 1e-6).rsqrt() * w)


@tw.operator(reference=_rms_golden, dtypes=("fp16",), where="N >= 1 and N <= 65536", mutates=("x",))
def rms_norm_in_place(x: Float[Tensor, "M N"], w: Float[Tensor, "N"]) -> None:
    rows, w = x.contiguous(), w.contiguous()
    if x.numel():
        _rms_norm[(x.shape[0],)](rows, w, x.shape[1], 1e-6, BLOCK=triton.next_power_of_2(x.shape[1]))
    if rows.data_ptr() != x.data_ptr():
        x.copy_(rows)


@tw.operator(reference=lambda x: x.mT.contiguous(), where=SMALL)
def transpose(x: Float[Tensor, "M N"]) -> Float[Tensor, "N M"]:
    x = x.contiguous()
    M, N = x.shape
    y = torch.empty((N, M))
    if y.numel():
        _transpose[(triton.cdiv(M, 16), triton.cdiv(N, 16))](x, y, M, N, BM=16, BN=16)
    return y


def _counted(x):
    return torch.bincount(x.long(), minlength=16).int()


def _counts(kernel, x):
    x = x.contiguous()
    counts = torch.zeros(16, dtype=torch.int32)
    if x.numel():
        kernel[(triton.cdiv(x.numel(), 128),)](x, counts, x.numel(), BINS=16, BLOCK=128)
    return counts


@tw.operator(reference=_counted, values={"x": tw.values.integers(0, 16)}, where="N < 2**31 - 256")
def histogram_of_lanes(x: Int32[Tensor, "N"]) -> Int32[Tensor, "16"]:
    return _counts(_histogram, x)


@tw.operator(reference=_counted, values={"x": tw.values.integers(0, 16)}, where="N < 2**31 - 256")
def histogram_of_tiles(x: Int32[Tensor, "N"]) -> Int32[Tensor, "16"]:
    return _counts(_histogram_of_tiles, x)


def _largest(x):
    found = x.max(-1)
    return found.values, found.indices.int()


@tw.operator(reference=_largest, where=f"{SMALL} and N >= 1")
def row_argmax(x: Float[Tensor, "M N"]) -> tuple[Float[Tensor, "M"], Int32[Tensor, "M"]]:
    x = x.contiguous()
    M, N = x.shape
    value, index = torch.empty(M), torch.empty(M, dtype=torch.int32)
    if M:
        _argmax[(M,)](x, value, index, N, BLOCK=triton.next_power_of_2(N))
    return value, index
