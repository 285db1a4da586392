"""A small operator to tune, whose space may be narrowed from outside."""

import os

import torch
import triton
import triton.language as tl

import tilewright as tw


@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + offsets, tl.load(x + offsets, mask=offsets < n) * 2.0, mask=offsets < n)


def run(x, *, BLOCK=64, num_warps=4):
    y = torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), BLOCK=BLOCK, num_warps=num_warps)
    return y


def inputs(n=4096):
    return (torch.ones(n),)


def reference(x):
    return x * 2


BLOCKS = [int(block) for block in os.environ.get("SCALED_BLOCKS", "32,64").split(",")]

scaled = tw.Operator(
    name="scaled",
    run=run,
    inputs=inputs,
    reference=reference,
    space=tw.Space(BLOCK=BLOCKS, num_warps=[1, 2, 4]),
)
