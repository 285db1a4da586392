"""A kernel whose configurations do to a GPU what bad configurations do."""

import torch
import triton
import triton.language as tl

import tilewright as tw

FAULTS = ["none", "illegal", "endless", "wrong", "memory", "raises"]


@triton.jit
def copy_kernel(x, y, n, BLOCK: tl.constexpr, ILLEGAL: tl.constexpr, ENDLESS: tl.constexpr, WRONG: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    values = tl.load(x + offsets, mask=inside)
    if ENDLESS:
        while tl.load(x, volatile=True) >= 0:  # inputs are above 0
            pass
    if WRONG:
        values += 1.0
    where = y + offsets
    if ILLEGAL:
        where += 1 << 40
    tl.store(where, values, mask=inside)


def copied(x, *, FAULT="none", BLOCK=1024, num_warps=4):
    if FAULT == "raises":
        raise ValueError("no such tile")
    if FAULT == "memory" and x.is_cuda:
        torch.empty(1 << 44, dtype=torch.uint8, device=x.device)
    y = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), BLOCK),)](
        x,
        y,
        x.numel(),
        BLOCK=BLOCK,
        ILLEGAL=FAULT == "illegal",
        ENDLESS=FAULT == "endless",
        WRONG=FAULT == "wrong",
        num_warps=num_warps,
    )
    return y


def inputs(n=1 << 24, seed=0):
    return (torch.rand(n) + 1,)


badly = tw.Operator(
    name="badly",
    run=copied,
    reference=torch.clone,
    inputs=inputs,
    space=tw.Space(FAULT=FAULTS, BLOCK=[1024, 2048], num_warps=[4]),
)


def reset(x, *, STEPS=1, num_warps=4):
    """In place: what it finds must be what the reference found."""
    copy_kernel[(triton.cdiv(x.numel(), 1024),)](
        x, x, x.numel(), BLOCK=1024, ILLEGAL=False, ENDLESS=False, WRONG=STEPS == 1, num_warps=num_warps
    )


def add_one(x):
    return x.add_(1)


in_place = tw.Operator(
    name="in_place",
    run=reset,
    reference=add_one,
    inputs=inputs,
    mutates=("x",),
    space=tw.Space(STEPS=[1, 2], num_warps=[4, 8]),
)
