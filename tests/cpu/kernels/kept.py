"""Kernels to be tuned whose launches are caught by a test, and what decorates them alike in Triton and here."""

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

import tilewright as tw


@triton.jit
def copy_kernel(x, out, n, flag, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets, mask=offsets < n), mask=offsets < n)


@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def even_kernel(x, out, n, flag, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets))


def configs(hook=None):
    return [triton.Config({"BLOCK": block}, num_warps=block // 32, pre_hook=hook) for block in (32, 64, 128)]


tuned_copy = tw.autotune(configs(), key=["n"], on_miss="default")(copy_kernel)


@tw.operator(reference=lambda x: x.clone())
def copied(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    out = torch.empty_like(x)
    tuned_copy[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel(), True)
    return out


@triton.jit
def added_kernel(x, total, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total, tl.sum(tl.load(x + offsets, mask=offsets < n, other=0.0)))


def adding(kernel, name):
    def run(x):
        total = x.new_zeros(1)
        kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, total, x.numel())
        return total

    return tw.Operator(
        name=name, run=run, reference=lambda x: x.sum().reshape(1), inputs=lambda N=100: (torch.randn(N) + 1,)
    )


tuned_at_a_call = adding(tw.autotune(configs(), key=["n"])(added_kernel), "tuned_at_a_call")
tuned_ahead = adding(tw.autotune(configs(), key=["n"], on_miss="default")(added_kernel), "tuned_ahead")


@tw.autotune(
    [triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})],
    key=["n"],
    on_miss="default",
)
@triton.jit
def unmasked_kernel(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets))


@tw.operator(reference=lambda x: x.clone())
def unmasked(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    out = torch.empty_like(x)
    unmasked_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    return out
