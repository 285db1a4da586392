"""Cross entropy by an online softmax, and its gradient."""

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int64
from torch import Tensor

import tilewright as tw


@triton.jit
def _cross_entropy_kernel(
    logits_ptr, target_ptr, loss_ptr, grad_ptr, stride_lm, stride_gm, V, ignore, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    logits_ptr += row * stride_lm
    grad_ptr += row * stride_gm
    target = tl.load(target_ptr + row)
    top = float("-inf")
    total = 0.0
    for start in range(0, V, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + cols, mask=cols < V, other=float("-inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new), axis=0)
        top = new
    counts = target != ignore
    chosen = tl.load(logits_ptr + target, mask=counts, other=0.0).to(tl.float32)
    loss = tl.where(counts, top + tl.log(total) - chosen, 0.0)
    tl.store(loss_ptr + row, loss)
    for start in range(0, V, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = cols < V
        x = tl.load(logits_ptr + cols, mask=inside, other=float("-inf")).to(tl.float32)
        p = tl.exp(x - top) / total
        g = tl.where(counts, tl.where(cols == target, p - 1, p), 0.0)
        tl.store(grad_ptr + cols, g.to(grad_ptr.dtype.element_ty), mask=inside)


def _targets(request):
    """Classes, some of them the one that is ignored."""
    drawn = torch.randint(0, max(request.sizes["V"], 1), request.shape, generator=request.generator)
    drawn[::3] = -100
    return drawn


def _cross_entropy_golden(logits, target):
    counts = target != -100
    p = torch.softmax(logits, -1)
    picked = torch.where(counts, target, 0)[:, None]
    loss = torch.where(counts, torch.logsumexp(logits, -1) - logits.gather(1, picked)[:, 0], 0.0)
    grad = p - torch.zeros_like(p).scatter(1, picked, 1.0)
    return loss.float(), torch.where(counts[:, None], grad, 0.0)


@tw.operator(reference=_cross_entropy_golden, dtypes=("fp32", "bf16"), where="V >= 1", values={"target": _targets})
def cross_entropy(logits: Float[Tensor, "M V"], target: Int64[Tensor, "M"]) -> tuple[Tensor, Float[Tensor, "M V"]]:
    logits, target = logits if logits.stride(1) == 1 else logits.contiguous(), target.contiguous()
    M, V = logits.shape
    loss, grad = torch.empty(M), torch.empty((M, V), dtype=logits.dtype)
    if M:
        _cross_entropy_kernel[(M,)](logits, target, loss, grad, logits.stride(0), grad.stride(0), V, -100, BLOCK=32)
    return loss, grad
