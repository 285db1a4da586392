"""Fault kind: C semantics of % on a negative operand (Python expects 0..n-1).

Ring-buffer roll: src = (i - shift) % n.  For shift > 0 the first lanes get a negative index.

A tool must say: OOB LOAD of `x` at the line tagged BUG, element offsets -shift..-1, program (0,0,0); % of a
negative int follows C (result has the sign of the dividend).
"""

import torch
import triton
import triton.language as tl

NAIVE = [dict(n=64, shift=-3), dict(n=64, shift=0)]
ADVERSARIAL = [dict(n=64, shift=3), dict(n=50, shift=7)]
EXPECT = dict(kind="oob_load_negative_mod", arg="x_ptr", stage=1)


@triton.jit
def _roll(x_ptr, out_ptr, n, shift, BLOCK: tl.constexpr, PYMOD: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    src = (i - shift) % n
    if PYMOD:
        src = (src + n) % n
    tl.store(out_ptr + i, tl.load(x_ptr + src, mask=i < n, other=0.0), mask=i < n)  # BUG


def _go(x, shift, py):
    out = torch.empty_like(x)
    _roll[(triton.cdiv(x.numel(), 32),)](x, out, x.numel(), shift, BLOCK=32, PYMOD=py)
    return out


def inputs(n=64, shift=0, seed=0):
    g = torch.Generator().manual_seed(seed)
    # the array sits in the middle of a larger buffer of NaN so that the stray reads are harmless here
    base = torch.full((n + 64,), float("nan"))
    x = base[32 : 32 + n]
    x.copy_(torch.randn(n, generator=g))
    return x, shift


def run(x, shift):
    return _go(x, shift, False)


def fixed_run(x, shift):
    return _go(x, shift, True)


def reference(x, shift):
    return torch.roll(x, shift)
