"""Fault kind: padded lanes re-enter a reduction after an elementwise shift.

other=0 is right for the mean, but (x - mean) turns padded lanes into -mean, and
these are squared into the variance.

A tool must say: lanes masked off at the load (columns 33..63) contribute to the
tl.sum tagged BUG; wrong output for N=33 with non-zero mean; the fault scales with
mean^2 * (BLOCK - N), so zero-mean inputs may stay inside tolerance.
"""

import torch
import triton
import triton.language as tl

NAIVE = [dict(rows=4, N=64, shift=3.0)]
ADVERSARIAL = [dict(rows=4, N=33, shift=3.0), dict(rows=2, N=3, shift=1.0)]
EXPECT = dict(kind="masked_lanes_in_reduction", arg="x_ptr", stage=1)


@triton.jit
def _ln(x_ptr, y_ptr, N, eps, BLOCK: tl.constexpr, REMASK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    m = c < N
    x = tl.load(x_ptr + r * N + c, mask=m, other=0.0)
    mu = tl.sum(x, axis=0) / N
    d = x - mu
    if REMASK:
        d = tl.where(m, d, 0.0)
    var = tl.sum(d * d, axis=0) / N  # BUG
    tl.store(y_ptr + r * N + c, d / tl.sqrt(var + eps), mask=m)


def _go(x, remask):
    y = torch.empty_like(x)
    _ln[(x.shape[0],)](x, y, x.shape[1], 1e-5, BLOCK=triton.next_power_of_2(x.shape[1]), REMASK=remask)
    return y


def inputs(rows=4, N=64, shift=3.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    return (torch.randn(rows, N, generator=g) + shift,)


def run(x):
    return _go(x, False)


def fixed_run(x):
    return _go(x, True)


def reference(x):
    return torch.nn.functional.layer_norm(x, (x.shape[1],), eps=1e-5)
