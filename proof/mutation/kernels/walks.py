"""Along an axis: cumulative sums, a convolution with its halo, its backward pass, histograms."""

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int32
from torch import Tensor

import tilewright as tw


@triton.jit
def _cumsum_kernel(x_ptr, y_ptr, stride_xm, stride_ym, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    before = 0.0
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride_xm + cols, mask=cols < N, other=0.0).to(tl.float32)
        y = before + tl.cumsum(x, axis=0)
        tl.store(y_ptr + row * stride_ym + cols, y, mask=cols < N)
        before += tl.sum(x, axis=0)


@tw.operator(reference=lambda x: x.cumsum(-1))
def cumulative_sum(x: Float[Tensor, "M N"]) -> Float[Tensor, "M N"]:
    x = x if x.stride(1) == 1 else x.contiguous()
    y = torch.empty(tuple(x.shape))
    if y.numel():
        _cumsum_kernel[(x.shape[0],)](x, y, x.stride(0), y.stride(0), x.shape[1], BLOCK=16)
    return y


@triton.jit
def _conv1d_kernel(x_ptr, w_ptr, y_ptr, L, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    """Each channel with its own taps; outside there are zeros."""
    channel = tl.program_id(1).to(tl.int64)
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x_base = x_ptr + channel * L
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for tap in tl.static_range(TAPS):
        at = cols + tap - TAPS // 2
        x = tl.load(x_base + at, mask=(at >= 0) & (at < L), other=0.0).to(tl.float32)
        w = tl.load(w_ptr + channel * TAPS + tap).to(tl.float32)
        acc += x * w
    tl.store(y_ptr + channel * L + cols, acc.to(y_ptr.dtype.element_ty), mask=cols < L)


def _conv1d_golden(x, w):
    return torch.nn.functional.conv1d(x[None], w[:, None], padding=1, groups=x.shape[0])[0]


@tw.operator(reference=_conv1d_golden, dtypes=("fp32", "bf16"), where="C >= 1 and C <= 65535 and L >= 1")
def depthwise_conv1d(x: Float[Tensor, "C L"], w: Float[Tensor, "C 3"]) -> Float[Tensor, "C L"]:
    x, w = x.contiguous(), w.contiguous()
    y = torch.empty_like(x)
    _conv1d_kernel[(triton.cdiv(x.shape[1], 32), x.shape[0])](x, w, y, x.shape[1], TAPS=3, BLOCK=32)
    return y


@triton.jit
def _conv1d_backward_kernel(dy_ptr, x_ptr, w_ptr, dx_ptr, dw_ptr, L, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    """Scatters into neighbours, across the ends of the block too."""
    channel = tl.program_id(1).to(tl.int64)
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = cols < L
    dy = tl.load(dy_ptr + channel * L + cols, mask=inside, other=0.0)
    for tap in tl.static_range(TAPS):
        at = cols + tap - TAPS // 2
        live = inside & (at >= 0) & (at < L)
        w = tl.load(w_ptr + channel * TAPS + tap)
        tl.atomic_add(dx_ptr + channel * L + at, dy * w, mask=live)
        x = tl.load(x_ptr + channel * L + at, mask=live, other=0.0)
        tl.atomic_add(dw_ptr + channel * TAPS + tap, tl.sum(dy * x, axis=0))


def _conv1d_backward_golden(dy, x, w):
    padded, grad = torch.nn.functional.pad(x, (1, 1)), torch.nn.functional.pad(dy, (1, 1))
    L = x.shape[1]
    dx = sum(w[:, t : t + 1] * grad[:, 2 - t : 2 - t + L] for t in range(3))
    dw = torch.stack([(dy * padded[:, t : t + L]).sum(1) for t in range(3)], 1)
    return dx, dw


@tw.operator(reference=_conv1d_backward_golden, where="C >= 1 and C <= 65535 and L >= 1")
def depthwise_conv1d_backward(
    dy: Float[Tensor, "C L"], x: Float[Tensor, "C L"], w: Float[Tensor, "C 3"]
) -> tuple[Float[Tensor, "C L"], Float[Tensor, "C 3"]]:
    dy, x, w = dy.contiguous(), x.contiguous(), w.contiguous()
    C, L = x.shape
    dx, dw = torch.zeros((C, L)), torch.zeros((C, 3))
    _conv1d_backward_kernel[(triton.cdiv(L, 32), C)](dy, x, w, dx, dw, L, TAPS=3, BLOCK=32)
    return dx, dw


@triton.jit
def _histogram_kernel(x_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    bins = tl.load(x_ptr + offsets, mask=mask, other=0)
    tl.atomic_add(counts_ptr + bins, 1, mask=mask)


@tw.operator(reference=lambda x: torch.bincount(x.long(), minlength=16).int(), values={"x": tw.values.integers(0, 16)})
def histogram(x: Int32[Tensor, "N"]) -> Int32[Tensor, "16"]:
    x = x.contiguous()
    counts = torch.zeros(16, dtype=torch.int32)
    if x.numel():
        _histogram_kernel[(triton.cdiv(x.numel(), 64),)](x, counts, x.numel(), BLOCK=64)
    return counts
