"""Fault kind: read-modify-write of an uninitialised output (atomic_add into torch.empty).

A tool must say: uninitialised READ of `dst` (1 element, from torch.empty in run, line tagged
BUG) by tl.atomic_add at program (0,0,0).  Often invisible: a fresh page is zero.  To make it
visible poison torch.empty.
"""

import torch
import triton
import triton.language as tl

NAIVE = [dict(n=256, dirty=False)]  # the block is written by the host before use: no fault to report
ADVERSARIAL = [dict(n=256, dirty=None), dict(n=257, dirty=None)]
EXPECT = dict(kind="uninitialised_rmw", arg="dst_ptr", stage=1)


@triton.jit
def _sum(x_ptr, dst_ptr, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(dst_ptr, tl.sum(tl.load(x_ptr + o, mask=o < n, other=0.0), axis=0))


_scratch = torch.zeros(1)


def _alloc(dirty):
    # stands for torch.empty([1]) on a caching allocator: a clean block, or one just freed
    # by other work.  A tool that poisons torch.empty sees the fault without `dirty`.
    out = torch.empty(1)  # BUG
    out.copy_(torch.tensor([1000.0]) if dirty else _scratch) if dirty is not None else None
    return out


def inputs(n=256, dirty=False, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.rand(n, generator=g), dirty


def run(x, dirty):
    dst = _alloc(dirty)
    _sum[(triton.cdiv(x.numel(), 64),)](x, dst, x.numel(), BLOCK=64)
    return dst


def fixed_run(x, dirty):
    dst = torch.zeros(1)
    _sum[(triton.cdiv(x.numel(), 64),)](x, dst, x.numel(), BLOCK=64)
    return dst


def reference(x, dirty):
    return x.sum().reshape(1)
