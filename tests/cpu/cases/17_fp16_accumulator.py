"""Fault kind: accumulation in the low-precision input type.

Loop-carried fp16 sum: stagnates once the running sum's ulp exceeds the addend and overflows at 65504.

A tool must say: accumulator at the line tagged BUG is float16; error grows with n (n=64 within
tolerance, n=6000 off by > 50 %, n=4096 of 40.0 overflows); compare against an fp32/fp64 golden.
"""

import torch
import triton
import triton.language as tl

NAIVE = [dict(n=64)]
ADVERSARIAL = [dict(n=6000), dict(n=4096, value=40.0)]
EXPECT = dict(kind="low_precision_accumulator", arg="out_ptr", stage=1)


@triton.jit
def _dotsum(x_ptr, out_ptr, n, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    acc = tl.zeros((BLOCK,), dtype=tl.float32 if WIDE else tl.float16)
    for s in range(0, n, BLOCK):
        o = s + tl.arange(0, BLOCK)
        v = tl.load(x_ptr + o, mask=o < n, other=0.0)
        acc += v.to(acc.dtype)  # BUG
    tl.store(out_ptr, tl.sum(acc, axis=0))


def _go(x, wide):
    out = torch.zeros(1)
    _dotsum[(1,)](x, out, x.numel(), BLOCK=2, WIDE=wide)
    return out


def inputs(n=64, value=1.0):
    return (torch.full((n,), value, dtype=torch.float16),)


def run(x):
    return _go(x, False)


def fixed_run(x):
    return _go(x, True)


def reference(x):
    return x.double().sum().float().reshape(1)
