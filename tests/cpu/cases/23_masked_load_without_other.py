"""Fault kind: undefined masked lanes (tl.load with mask, no `other`) used in a reduction.

The language leaves these lanes undefined; the interpreter (and most NVIDIA code) gives 0, so the sum of exp
below is right for sum but the kernel relies on it.

A tool must say: lanes n..BLOCK-1 of the load tagged BUG are undefined and flow into tl.sum (result depends on the
fill: fill=0 right, fill=NaN/1 wrong).  Silent in the stock interpreter on every shape.  A second masked load
without `other` (tagged OK) only reaches a store under the same mask: must NOT be reported as an error.
"""

import torch
import triton
import triton.language as tl

NAIVE = [dict(rows=3, n=64)]
ADVERSARIAL = [dict(rows=3, n=50)]
EXPECT = dict(kind="undefined_masked_lanes", arg="x_ptr", stage=1, no_report_on="z_ptr")


@triton.jit
def _sumsq(x_ptr, z_ptr, out_ptr, z2_ptr, n, BLOCK: tl.constexpr, FILL: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    m = c < n
    if FILL:
        x = tl.load(x_ptr + r * n + c, mask=m, other=0.0)
    else:
        x = tl.load(x_ptr + r * n + c, mask=m)  # BUG
    z = tl.load(z_ptr + r * n + c, mask=m)  # OK
    tl.store(out_ptr + r, tl.sum(x * x, axis=0))
    tl.store(z2_ptr + r * n + c, z + 1.0, mask=m)


def _go(x, fill):
    out = torch.empty(x.shape[0])
    z2 = torch.empty_like(x)
    _sumsq[(x.shape[0],)](x, x, out, z2, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), FILL=fill)
    return out, z2


def inputs(rows=3, n=64, seed=0):
    g = torch.Generator().manual_seed(seed)
    return (torch.randn(rows, n, generator=g),)


def run(x):
    return _go(x, False)


def fixed_run(x):
    return _go(x, True)


def reference(x):
    return (x * x).sum(1), x + 1.0
