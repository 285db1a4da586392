"""Fault kind: stride assumed from numel(); an expanded (stride-0) input is read as contiguous.

Backward scaling kernel: `grad_out` of loss.sum() is one element expanded to (R,).
The wrapper takes numel() > 1 to mean "unit stride".

A tool must say: OOB LOAD of `go` at the line tagged BUG, element offset 1..R-1 while the
storage holds 1 element, at programs (1,0,0).. ; the argument has stride 0, the kernel was
given stride 1.  Values are whatever lies after the allocation: silent in the stock
interpreter unless compared, and not deterministic.
"""

import torch
import triton
import triton.language as tl

NAIVE = [dict(R=8, N=16, expanded=False)]
ADVERSARIAL = [dict(R=8, N=16, expanded=True)]
EXPECT = dict(kind="oob_load_wrong_stride", arg="go_ptr", stage=1)


@triton.jit
def _scale_rows(g_ptr, go_ptr, go_stride, out_ptr, N, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    s = tl.load(go_ptr + r * go_stride)  # BUG
    v = tl.load(g_ptr + r * N + c, mask=c < N, other=0.0)
    tl.store(out_ptr + r * N + c, v * s, mask=c < N)


def _go(g, go, stride):
    out = torch.empty_like(g)
    _scale_rows[(g.shape[0],)](g, go, stride, out, g.shape[1], BLOCK=triton.next_power_of_2(g.shape[1]))
    return out


def inputs(R=8, N=16, expanded=False, seed=0):
    gen = torch.Generator().manual_seed(seed)
    g = torch.randn(R, N, generator=gen)
    go = torch.full((), 0.25).expand(R) if expanded else torch.full((R,), 0.25)
    return g, go


def run(g, go):
    return _go(g, go, 1 if go.numel() > 1 else 0)


def fixed_run(g, go):
    return _go(g, go, go.stride(0))


def reference(g, go):
    return g * go[:, None]
