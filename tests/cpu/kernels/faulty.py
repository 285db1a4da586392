"""Kernels with one fault each, and right ones beside them, for the debug stage's tests."""

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int32
from torch import Tensor

import tilewright as tw


@triton.jit
def scale_kernel(
    x_ptr, y_ptr, n, FACTOR: tl.constexpr, MASK_LOAD: tl.constexpr, MASK_STORE: tl.constexpr, BLOCK: tl.constexpr
):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if MASK_LOAD:
        x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    else:
        x = tl.load(x_ptr + offsets)  # the wild load
    y = (x.to(tl.float32) * FACTOR).to(y_ptr.dtype.element_ty)
    if MASK_STORE:
        tl.store(y_ptr + offsets, y, mask=offsets < n)
    else:
        tl.store(y_ptr + offsets, y)  # the wild store


def scale(x, factor=2.0, mask_load=True, mask_store=True, block=32, out=None, programs=None):
    y = torch.empty_like(x) if out is None else out
    grid = (triton.cdiv(x.numel(), block) if programs is None else programs,)
    scale_kernel[grid](x, y, x.numel(), factor, mask_load, mask_store, BLOCK=block)
    return y


def twice(x):
    return x * 2


@tw.operator(reference=twice, dtypes=("fp32", "fp16", "bf16"))
def right(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return scale(x)


@tw.operator(reference=twice)
def wild_load(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return scale(x, mask_load=False)


@tw.operator(reference=twice)
def wild_store(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    # The store leaves the view, not the storage: a pooled buffer hides it from everything but a fence.
    pool = torch.empty(x.numel() + 64)
    return scale(x, mask_store=False, out=pool[: x.numel()])


@tw.operator(reference=twice, dtypes=("fp32", "bf16"))
def wrong_factor(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return scale(x, factor=2.125)


@tw.operator(reference=twice)
def short_grid(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return scale(x, programs=1)


@tw.operator(reference=twice)
def changes_its_input(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    y = scale(x)
    scale(x, out=x)
    return y


@tw.operator(reference=lambda x: (x * 2).reshape(-1, 1))
def other_shape(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return scale(x)


@tw.operator(reference=lambda x: (x * 2).half())
def other_dtype(x: Float[Tensor, "N"]):
    return scale(x)


@tw.operator(reference=twice)
def raises_on_the_host(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    raise ValueError("this launcher refuses")  # the host's line


@triton.jit
def asserting_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    assert tl.max(x, 0) < -1e9, "never so"  # the kernel's line
    tl.store(y_ptr + offsets, x, mask=offsets < n)


@tw.operator(reference=lambda x: x)
def asserts(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    y = torch.empty_like(x)
    asserting_kernel[(1,)](x, y, x.numel(), BLOCK=256)
    return y


@triton.jit
def gather_kernel(x_ptr, index_ptr, y_ptr, n, stride, D: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.arange(0, D)
    index = tl.load(index_ptr + rows, mask=rows < n, other=0)
    x = tl.load(x_ptr + index[:, None] * stride + columns[None, :])
    tl.store(y_ptr + rows[:, None] * D + columns[None, :], x, mask=rows[:, None] < n)


@tw.operator(reference=lambda x, index: x[index.long()], values={"index": tw.values.indices("V")})
def gather(x: Float[Tensor, "V 16"], index: Int32[Tensor, "N"]) -> Float[Tensor, "N 16"]:
    y = torch.empty(index.numel(), 16)
    gather_kernel[(triton.cdiv(index.numel(), 32),)](x, index, y, index.numel(), x.stride(0), D=16, BLOCK=32)
    return y


@tw.operator(reference=twice, mutates=("x",))
def in_place(x: Float[Tensor, "N"]) -> None:
    scale(x, out=x)


@triton.autotune([triton.Config({"BLOCK": b}, num_warps=w) for b in (32, 64) for w in (4, 8)], key=["n"])
@triton.jit
def tuned_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n, other=0.0) * 2, mask=offsets < n)


def tuned_inputs(n=100):
    return (torch.randn(n),)


def run_tuned(x):
    y = torch.empty_like(x)
    tuned_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    return y


tuned = tw.Operator(name="tuned", run=run_tuned, reference=twice, inputs=tuned_inputs)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        y = torch.empty_like(x)
        square_kernel[(triton.cdiv(x.numel(), 32),)](x, x, y, x.numel(), 1.0, BLOCK=32)
        return y

    @staticmethod
    def backward(ctx, upstream):
        (x,) = ctx.saved_tensors
        dx = torch.empty_like(x)
        square_kernel[(triton.cdiv(x.numel(), 32),)](x, upstream.contiguous(), dx, x.numel(), Square.slope, BLOCK=32)
        return dx

    slope = 2.0


@triton.jit
def square_kernel(a_ptr, b_ptr, y_ptr, n, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + offsets, mask=offsets < n, other=0.0)
    b = tl.load(b_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(y_ptr + offsets, a * b * factor, mask=offsets < n)


@tw.operator(reference=lambda x: x * x, grad=("x",))
def square(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    Square.slope = 2.0
    return Square.apply(x)


@tw.operator(reference=lambda x: x * x, grad=("x",))
def square_with_a_wrong_gradient(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    Square.slope = 1.5
    return Square.apply(x)


@tw.operator(reference=twice, suppress=(tw.Suppression("mismatch", "known and accepted in this test"),))
def suppressed(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return scale(x, factor=2.125)
