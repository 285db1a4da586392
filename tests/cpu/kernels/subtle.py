"""Operators whose faults hide: in one configuration, behind an assertion, in a declaration, in a backward pass."""

import textwrap

import torch
import triton
import triton.language as tl
from faulty import Square, scale, square_kernel, twice
from jaxtyping import Float, Int
from torch import Tensor

import tilewright as tw

# --------------------------------------------------------------------------------------------- configurations


@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    if BLOCK >= 128:
        mask = offsets < n + 1
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * 2, mask=mask)  # the wild line


def copy(x, block):
    x, y = x.contiguous(), torch.empty(x.shape)
    copy_kernel[(triton.cdiv(x.numel(), block),)](x, y, x.numel(), BLOCK=block)
    return y


@tw.operator(reference=twice, space=tw.Space(BLOCK=[64, 128], num_warps=[2, 4]))
def wrong_at_128(x: Float[Tensor, "N"], *, BLOCK=64, num_warps=4) -> Float[Tensor, "N"]:
    return copy(x, BLOCK)


@tw.operator(reference=twice, space=tw.Space(num_warps=[1, 2, 4]))
def warps_alone(x: Float[Tensor, "N"], *, num_warps=4) -> Float[Tensor, "N"]:
    return copy(x, 64)


tuned_copy_kernel = triton.autotune(
    [triton.Config({"BLOCK": b}, num_warps=w) for b in (64, 128) for w in (2, 4)], ["n"]
)(copy_kernel)


def run_tuned_copy(x):
    y = torch.empty_like(x)
    tuned_copy_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    return y


tuned_wrong_at_128 = tw.Operator(
    name="tuned_wrong_at_128", run=run_tuned_copy, reference=twice, inputs=lambda n=65: (torch.randn(n),)
)


# ------------------------------------------------------------------------------------------------- assertions


@triton.jit
def asserting(x_ptr, y_ptr, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    if HOW == "device":
        tl.device_assert(offsets < n, "offsets leave the row")  # the device's line
    elif HOW == "masked":
        tl.device_assert(offsets < n, "never so", mask=mask)
    elif HOW == "plain":
        assert offsets < n, "a tile that is not all true"  # the plain line
    elif HOW == "overflow":
        x += (offsets * 2147483647 * 3) * 0
    tl.store(y_ptr + offsets, x * 2, mask=mask)


def assert_in(how):
    def launch(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
        y = torch.empty_like(x)
        asserting[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), HOW=how, BLOCK=32)
        return y

    launch.__name__ = f"asserts_{how}"
    return tw.operator(reference=twice)(launch)


asserts_device, asserts_masked, asserts_plain, asserts_overflow = map(
    assert_in, ("device", "masked", "plain", "overflow")
)


# ----------------------------------------------------------------------------------------- what was declared


@tw.operator()
def another_shape(x: Float[Tensor, "M N"]) -> Float[Tensor, "N M"]:
    return scale(x.contiguous())


@tw.operator(reference=twice)
def another_rank(x: Float[Tensor, "N"]) -> Float[Tensor, "N 1"]:
    return scale(x)


@tw.operator()
def another_kind(x: Float[Tensor, "N"]) -> Int[Tensor, "N"]:
    return scale(x)


@tw.operator()
def its_own_dim(x: Float[Tensor, "N"]) -> Float[Tensor, "K"]:
    return scale(x)


@tw.operator(reference=lambda x: x.mul_(2), mutates=("x",))
def returns_what_it_changed(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    scale(x, out=x)
    return x


@tw.operator(reference=lambda x: (x * 2, x * 2), mutates=("x",))
def returns_it_beside_it(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    scale(x, out=x)
    return x


@tw.operator(reference=lambda x: (x * 2, x), mutates=("x",))
def returns_too_little(x: Float[Tensor, "N"]) -> None:
    scale(x, out=torch.empty_like(x))


@tw.operator(reference=twice)
def launches_nothing(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x * 2


# -------------------------------------------------------------------------------------------------- gradients


class Careless(Square):
    @staticmethod
    def backward(ctx, upstream):
        (x,) = ctx.saved_tensors
        dx = torch.empty_like(x)
        square_kernel[(triton.cdiv(x.numel(), 32),)](x, upstream, dx, x.numel(), 2.0, BLOCK=32)
        return dx


@tw.operator(reference=lambda x: x * x, grad=("x",))
def careless_gradient(x: Float[Tensor, "M N"]) -> Float[Tensor, "M N"]:
    return Careless.apply(x.contiguous())


@tw.operator(reference=lambda x: x * x, grad=("x",))
def careful_gradient(x: Float[Tensor, "M N"]) -> Float[Tensor, "M N"]:
    Square.slope = 2.0
    return Square.apply(x.contiguous())


# ----------------------------------------------------------------------------------------------- what spins


@triton.jit
def spinning_kernel(x_ptr, n):
    i = 0
    while i < n:
        i += 0  # the line it spins on


@tw.operator(reference=twice)
def spins(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    spinning_kernel[(2,)](x, x.numel() + 1)
    return scale(x)


@triton.jit
def kernel_that_fails_elsewhere(x_ptr):
    textwrap.indent(None, " ")  # the line that calls what fails


@tw.operator(reference=twice)
def fails_in_the_standard_library(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    kernel_that_fails_elsewhere[(1,)](x)
    return scale(x)


@tw.operator(reference=lambda table, index: table[index.long()])
def out_of_its_table(table: Float[Tensor, "V D"], index: Int[Tensor, "N"]) -> Float[Tensor, "N D"]:
    return table[index]


@triton.jit
def breaking_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    breakpoint()
    tl.store(y_ptr + offsets, x * 2, mask=offsets < n)


@tw.operator(reference=twice, dtypes="bf16")
def breaks(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    y = torch.empty_like(x)
    breaking_kernel[(1,)](x, y, x.numel(), BLOCK=16)
    return y
