"""Passes over elements and rows: bias and GELU, rotary embedding, quantisation, transposition."""

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int8
from torch import Tensor

import tilewright as tw


@triton.jit
def _bias_gelu_kernel(x_ptr, bias_ptr, y_ptr, n, N, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    x += tl.load(bias_ptr + offsets % N, mask=mask).to(tl.float32)
    y = 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))
    tl.store(y_ptr + offsets, y.to(y_ptr.dtype.element_ty), mask=mask)


@tw.operator(reference=lambda x, bias: torch.nn.functional.gelu(x + bias), dtypes=("fp16", "fp32"))
def bias_gelu(x: Float[Tensor, "M N"], bias: Float[Tensor, "N"]) -> Float[Tensor, "M N"]:
    x, bias = x.contiguous(), bias.contiguous()
    y = torch.empty_like(x)
    if y.numel():
        _bias_gelu_kernel[(triton.cdiv(y.numel(), 128),)](x, bias, y, y.numel(), x.shape[1], BLOCK=128)
    return y


@triton.jit
def _rope_kernel(
    x_ptr, cos_ptr, sin_ptr, y_ptr, stride_xt, stride_xh, stride_xd, stride_yt, stride_yh, stride_yd, T, HALF,
    BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * BLOCK_T + tl.arange(0, BLOCK_T)
    head = tl.program_id(1).to(tl.int64)
    lanes = tl.arange(0, BLOCK_D)
    mask = (rows[:, None] < T) & (lanes[None, :] < HALF)
    angle = rows[:, None] * HALF + lanes[None, :]
    cos = tl.load(cos_ptr + angle, mask=mask, other=0.0).to(tl.float32)
    sin = tl.load(sin_ptr + angle, mask=mask, other=0.0).to(tl.float32)
    x_base = x_ptr + head * stride_xh
    y_base = y_ptr + head * stride_yh
    first = rows[:, None] * stride_xt + lanes[None, :] * stride_xd
    a = tl.load(x_base + first, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(x_base + first + HALF * stride_xd, mask=mask, other=0.0).to(tl.float32)
    out = rows[:, None] * stride_yt + lanes[None, :] * stride_yd
    tl.store(y_base + out, (a * cos - b * sin).to(y_ptr.dtype.element_ty), mask=mask)
    tl.store(y_base + out + HALF * stride_yd, (b * cos + a * sin).to(y_ptr.dtype.element_ty), mask=mask)


def _rope_golden(x, cos, sin):
    a, b = x.chunk(2, -1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


@tw.operator(reference=_rope_golden, dtypes=("fp32", "bf16"), where="H <= 65535")
def rope(x: Float[Tensor, "T H 2*D"], cos: Float[Tensor, "T D"], sin: Float[Tensor, "T D"]) -> Float[Tensor, "T H 2*D"]:
    cos, sin = cos.contiguous(), sin.contiguous()
    T, H, width = x.shape
    y = torch.empty((T, H, width), dtype=x.dtype)
    if y.numel():
        _rope_kernel[(triton.cdiv(T, 8), H)](
            x, cos, sin, y, *x.stride(), *y.stride(), T, width // 2,
            BLOCK_T=8, BLOCK_D=triton.next_power_of_2(width // 2),
        )  # fmt: skip
    return y


@triton.jit
def _quantise_kernel(x_ptr, q_ptr, scale_ptr, stride_xm, stride_qm, N, BLOCK: tl.constexpr):
    """A row as int8 with the scale that makes its largest magnitude 127."""
    row = tl.program_id(0).to(tl.int64)
    largest = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride_xm + cols, mask=cols < N, other=0.0).to(tl.float32)
        largest = tl.maximum(largest, tl.abs(x))
    scale = tl.max(largest, axis=0) / 127.0
    tl.store(scale_ptr + row, scale)
    inverse = tl.where(scale > 0, 1.0 / scale, 0.0)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride_xm + cols, mask=cols < N, other=0.0).to(tl.float32)
        whole = tl.floor(x * inverse + 0.5)
        tl.store(q_ptr + row * stride_qm + cols, whole.to(tl.int8), mask=cols < N)


def _quantise_golden(x):
    """In float32 throughout: what falls between two whole numbers is decided by its rounding."""
    x = x.float()
    scale = x.abs().amax(-1) / 127.0
    inverse = torch.where(scale > 0, 1.0 / scale, 0.0)
    return torch.floor(x * inverse[:, None] + 0.5).to(torch.int8), scale


@tw.operator(reference=_quantise_golden, where="N >= 1")
def quantise_rows(x: Float[Tensor, "M N"]) -> tuple[Int8[Tensor, "M N"], Float[Tensor, "M"]]:
    x = x if x.stride(1) == 1 else x.contiguous()
    M, N = x.shape
    q, scale = torch.empty((M, N), dtype=torch.int8), torch.empty(M)
    if M:
        _quantise_kernel[(M,)](x, q, scale, x.stride(0), q.stride(0), N, BLOCK=32)
    return q, scale


@triton.jit
def _transpose_kernel(
    x_ptr, y_ptr, stride_xm, stride_xn, stride_yn, stride_ym, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    rm = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (rm[:, None] < M) & (rn[None, :] < N)
    tile = tl.load(x_ptr + rm[:, None] * stride_xm + rn[None, :] * stride_xn, mask=mask)
    swapped = (rn[:, None] < N) & (rm[None, :] < M)
    tl.store(y_ptr + rn[:, None] * stride_yn + rm[None, :] * stride_ym, tl.trans(tile), mask=swapped)


@tw.operator(reference=lambda x: x.mT.contiguous(), dtypes=("fp32", "fp16"))
def transposition(x: Float[Tensor, "M N"]) -> Float[Tensor, "N M"]:
    M, N = x.shape
    y = torch.empty((N, M), dtype=x.dtype)
    if y.numel():
        _transpose_kernel[(triton.cdiv(M, 16), triton.cdiv(N, 32))](
            x, y, *x.stride(), *y.stride(), M, N, BLOCK_M=16, BLOCK_N=32
        )
    return y
