"""Kernels of a package, some wrong, which its operators import in several ways."""

import triton
import triton.language as tl

SCALE: tl.constexpr = tl.constexpr(2.0)
CONFIGS = [triton.Config({"BLOCK": b}, num_warps=w) for b in (64, 128) for w in (2, 4)]
CONFIGS.append(triton.Config({"BLOCK": 256}))


@triton.jit
def twice(x):
    return x * SCALE


@triton.autotune(CONFIGS, key=["n"])
@triton.jit
def tuned_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    if BLOCK == 128:
        mask = offsets < n + 1  # the wild line
    tl.store(y_ptr + offsets, twice(tl.load(x_ptr + offsets, mask=mask)), mask=mask)


@triton.jit
def square_kernel(a_ptr, b_ptr, y_ptr, n, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + offsets, mask=offsets < n, other=0.0)
    b = tl.load(b_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(y_ptr + offsets, a * b * factor, mask=offsets < n)


@triton.jit
def add_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n) + 1)


def check(x):
    return x  # another function than the one of that name in ops.py
