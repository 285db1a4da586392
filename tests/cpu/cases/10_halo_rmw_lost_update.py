"""Fault kind: cross-program read-modify-write without atomics (lost update).

Backward of a 3-tap conv scatters into dx[l-1], dx[l], dx[l+1] with load-add-store.  The
one-cell halo of a tile belongs to the neighbour tile as well.

A tool must say: race on `dx` between programs p and p+1 at the lines tagged BUG: cells 31,32 of
each boundary (tile 32) are loaded and stored by both; needs tl.atomic_add.  The sequential
interpreter gives the right answer on EVERY shape; a single tile (L <= 32) has no conflict
between programs.
"""

import torch
import triton
import triton.language as tl

NAIVE = [dict(L=32)]
ADVERSARIAL = [dict(L=64), dict(L=70)]
EXPECT = dict(kind="cross_program_rmw_race", arg="dx_ptr", stage=1)


@triton.jit
def _scatter(d_ptr, w_ptr, dx_ptr, L, BLOCK: tl.constexpr, ATOMIC: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = o < L
    d = tl.load(d_ptr + o, mask=live, other=0.0)
    for t in tl.static_range(3):
        q = o + (t - 1)
        m = live & (q >= 0) & (q < L)
        add = d * tl.load(w_ptr + t)
        if ATOMIC:
            tl.atomic_add(dx_ptr + q, add, mask=m)
        else:
            old = tl.load(dx_ptr + q, mask=m, other=0.0)  # BUG
            tl.store(dx_ptr + q, old + add, mask=m)  # BUG


def _go(d, w, atomic):
    dx = torch.zeros_like(d)
    _scatter[(triton.cdiv(d.numel(), 32),)](d, w, dx, d.numel(), BLOCK=32, ATOMIC=atomic)
    return dx


def inputs(L=32, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(L, generator=g), torch.tensor([0.5, 2.0, -1.0])


def run(d, w):
    return _go(d, w, False)


def fixed_run(d, w):
    return _go(d, w, True)


def reference(d, w):
    dx = w[1] * d
    dx[:-1] += w[0] * d[1:]
    dx[1:] += w[2] * d[:-1]
    return dx
