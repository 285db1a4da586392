"""Norms of rows as training libraries write them: forward, and backward with atomics into shared gradients."""

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

import tilewright as tw


@triton.jit
def _layer_norm_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, stride_xm, stride_ym, N, eps, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(x_ptr + row * stride_xm + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / N
    centred = tl.where(mask, x - mean, 0.0)
    var = tl.sum(centred * centred, axis=0) / N
    rstd = 1 / tl.sqrt(var + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    w = tl.load(w_ptr + cols, mask=mask).to(tl.float32)
    b = tl.load(b_ptr + cols, mask=mask).to(tl.float32)
    y = centred * rstd * w + b
    tl.store(y_ptr + row * stride_ym + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


def _layer_norm_golden(x, w, b):
    mean = x.mean(-1, keepdim=True)
    rstd = ((x - mean).square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    return (x - mean) * rstd * w + b, mean[:, 0].float(), rstd[:, 0].float()


@tw.operator(reference=_layer_norm_golden, dtypes=("fp32", "bf16"), where="N >= 1 and N <= 65536")
def layer_norm(
    x: Float[Tensor, "M N"], w: Float[Tensor, "N"], b: Float[Tensor, "N"]
) -> tuple[Float[Tensor, "M N"], Tensor, Tensor]:
    x = x if x.stride(1) == 1 else x.contiguous()
    M, N = x.shape
    y = torch.empty((M, N), dtype=x.dtype)
    mean, rstd = torch.empty(M), torch.empty(M)
    if M:
        _layer_norm_kernel[(M,)](
            x, w.contiguous(), b.contiguous(), y, mean, rstd, x.stride(0), y.stride(0), N, 1e-5,
            BLOCK=triton.next_power_of_2(N),
        )  # fmt: skip
    return y, mean, rstd


@triton.jit
def _layer_norm_backward_kernel(
    dy_ptr, x_ptr, w_ptr, dx_ptr, dw_ptr, db_ptr, M, N, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Each program walks over some rows and adds its share of dw and db at the end."""
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), dtype=tl.float32)
    db = tl.zeros((BLOCK,), dtype=tl.float32)
    first = tl.program_id(0).to(tl.int64) * ROWS
    for row in range(first, tl.minimum(first + ROWS, M)):
        x = tl.load(x_ptr + row * N + cols, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * N + cols, mask=mask, other=0.0).to(tl.float32)
        mean = tl.sum(x, axis=0) / N
        centred = tl.where(mask, x - mean, 0.0)
        rstd = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / N + eps)
        hat = centred * rstd
        wdy = w * dy
        c1 = tl.sum(hat * wdy, axis=0) / N
        c2 = tl.sum(wdy, axis=0) / N
        dx = (wdy - hat * c1 - c2) * rstd
        tl.store(dx_ptr + row * N + cols, dx, mask=mask)
        dw += dy * hat
        db += dy
    tl.atomic_add(dw_ptr + cols, dw, mask=mask)
    tl.atomic_add(db_ptr + cols, db, mask=mask)


def _layer_norm_backward_golden(dy, x, w):
    mean = x.mean(-1, keepdim=True)
    rstd = ((x - mean).square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    hat, wdy = (x - mean) * rstd, w * dy
    dx = (wdy - hat * (hat * wdy).mean(-1, keepdim=True) - wdy.mean(-1, keepdim=True)) * rstd
    return dx, (dy * hat).sum(0), dy.sum(0)


@tw.operator(reference=_layer_norm_backward_golden, where="N >= 1 and N <= 65536")
def layer_norm_backward(
    dy: Float[Tensor, "M N"], x: Float[Tensor, "M N"], w: Float[Tensor, "N"]
) -> tuple[Float[Tensor, "M N"], Float[Tensor, "N"], Float[Tensor, "N"]]:
    dy, x, w = dy.contiguous(), x.contiguous(), w.contiguous()
    M, N = x.shape
    dx, dw, db = torch.empty_like(x), torch.zeros(N), torch.zeros(N)
    if M:
        _layer_norm_backward_kernel[(triton.cdiv(M, 4),)](
            dy, x, w, dx, dw, db, M, N, 1e-5, ROWS=4, BLOCK=triton.next_power_of_2(N)
        )
    return dx, dw, db


@triton.jit
def _rms_norm_kernel(x_ptr, w_ptr, y_ptr, stride_xm, stride_xn, stride_ym, stride_yn, N, eps, BLOCK: tl.constexpr):
    """Rows of any length, in two walks."""
    row = tl.program_id(0).to(tl.int64)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride_xm + cols.to(tl.int64) * stride_xn, mask=cols < N, other=0.0).to(tl.float32)
        squares += x * x
    scale = tl.rsqrt(tl.sum(squares, axis=0) / N + eps)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = cols < N
        x = tl.load(x_ptr + row * stride_xm + cols.to(tl.int64) * stride_xn, mask=inside, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + cols, mask=inside, other=0.0).to(tl.float32)
        y = x * scale * w
        tl.store(y_ptr + row * stride_ym + cols.to(tl.int64) * stride_yn, y.to(y_ptr.dtype.element_ty), mask=inside)


@tw.operator(
    reference=lambda x, w: x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * w,
    dtypes=("bf16", "fp32"),
    where="N >= 1",
)
def rms_norm(x: Float[Tensor, "M N"], w: Float[Tensor, "N"]) -> Float[Tensor, "M N"]:
    y, w = torch.empty_like(x), w.contiguous()
    if x.shape[0]:
        _rms_norm_kernel[(x.shape[0],)](x, w, y, *x.stride(), *y.stride(), x.shape[1], 1e-6, BLOCK=64)
    return y
