"""Kernels that make 8-bit floats, and that read them."""

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

import tilewright as tw

KINDS = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)


@triton.jit
def convert_kernel(x_ptr, y_ptr, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(y_ptr + offsets, (x.to(tl.float32) * FACTOR).to(y_ptr.dtype.element_ty), mask=offsets < n)


def convert(x, dtype, factor):
    x, y = x.contiguous(), torch.empty(x.shape, dtype=dtype)
    convert_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), FACTOR=factor, BLOCK=64)
    return y


def quantising(kind):
    def quantise(x: Float[Tensor, "N"]):
        return convert(x, kind, 3)

    quantise.__name__ = f"to_{str(kind).removeprefix('torch.')}"
    return tw.operator(reference=lambda x: (x * 3).to(kind), dtypes=("fp32", "bf16"))(quantise)


def reading(kind):
    def read(x: Float[Tensor, "N"]):
        return convert(x, torch.float32, 2)

    name = str(kind).removeprefix("torch.")
    read.__name__ = f"from_{name}"
    return tw.operator(reference=lambda x: x.float() * 2, dtypes=name)(read)


globals().update({o.name: o for kind in KINDS for o in (quantising(kind), reading(kind))})


@tw.operator(reference=lambda x: (x * 3).to(torch.float8_e4m3fn))
def wrong_factor(x: Float[Tensor, "N"]):
    return convert(x, torch.float8_e4m3fn, 4)
