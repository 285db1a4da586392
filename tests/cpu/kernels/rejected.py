"""Kernels that Triton rejects, each at its marked line."""

import triton
import triton.language as tl


@triton.jit
def unknown_name_kernel(x_ptr, N: tl.constexpr):
    offsets = tl.arange(0, N)
    tl.store(x_ptr + offsets, no_such_name)  # unknown name


@triton.heuristics({"EVEN": lambda named: True})
@triton.jit
def shapes_kernel(
    x_ptr,
    N: tl.constexpr,
    EVEN: tl.constexpr,
):
    """With decorators and a signature over several lines."""
    x = tl.load(x_ptr + tl.arange(0, N)[:, None] + tl.arange(0, 4)[None, :])
    y = x + tl.arange(0, 8)[None, :]  # shapes that do not fit
    tl.store(x_ptr + tl.arange(0, N), y)


@triton.jit
def helper(x):
    return x + tl.arange(0, 3)  # not a power of two


@triton.jit
def caller_kernel(x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(x_ptr + tl.arange(0, N), helper(x))


@triton.jit
def library_kernel(x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(x_ptr, tl.sum(x, axis=5))  # no such axis


@triton.jit
def asserting_kernel(x_ptr, N: tl.constexpr):
    tl.static_assert(N > 1000, "N is too small")  # static assertion
    tl.store(x_ptr, 1.0)
