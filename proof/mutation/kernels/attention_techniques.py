"""Operators over the kernels of tests/cpu/executor/kernels/attention.py."""

import itertools

import torch
import triton
from attention import _backward, _forward, _paged, _varlen
from jaxtyping import Float, Int32
from torch import Tensor

import tilewright as tw

SMALL = "H * M * 16 < 2**31 and H * N * 16 < 2**31 and N >= 1"  # offsets in 32 bits


def _scores(q, k, causal):
    scores = q @ k.mT * 0.25
    sees = torch.ones_like(scores[0], dtype=torch.bool)
    return scores.masked_fill(~sees.tril(), -torch.inf) if causal else scores


def _forward_golden(q, k, v, *, causal=False):
    scores = _scores(q, k, causal)
    return torch.softmax(scores, -1) @ v, torch.logsumexp(scores, -1) / 0.6931471805599453


@tw.operator(reference=_forward_golden, where=SMALL)
def attention_forward(
    q: Float[Tensor, "H M 16"], k: Float[Tensor, "H N 16"], v: Float[Tensor, "H N 16"], *, causal: bool = False
) -> tuple[Float[Tensor, "H M 16"], Float[Tensor, "H M"]]:
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    (H, M, D), N = q.shape, k.shape[1]
    out, lse = torch.empty((H, M, D)), torch.empty((H, M))
    if out.numel():
        _forward[(triton.cdiv(M, 16), H)](q, k, v, out, lse, 0.25, M, N, D=D, BM=16, BN=32, CAUSAL=causal)
    return out, lse


def _backward_golden(q, k, v, do, *, causal=False):
    p = torch.softmax(_scores(q, k, causal), -1)
    dp = do @ v.mT
    ds = p * (dp - (p * dp).sum(-1, keepdim=True)) * 0.25
    return ds @ k, ds.mT @ q, p.mT @ do


# Weights made anew from scores and their log-sum-exp lose what the scores are larger than 1: no values but common ones.
COMMON = {"q": "normal", "k": "normal"}


@tw.operator(reference=_backward_golden, where=SMALL, values=COMMON)
def attention_backward(
    q: Float[Tensor, "H M 16"], k: Float[Tensor, "H N 16"], v: Float[Tensor, "H N 16"], do: Float[Tensor, "H M 16"],
    *, causal: bool = False,
) -> tuple[Float[Tensor, "H M 16"], Float[Tensor, "H N 16"], Float[Tensor, "H N 16"]]:  # fmt: skip
    q, k, v, do = q.contiguous(), k.contiguous(), v.contiguous(), do.contiguous()
    (H, M, D), N = q.shape, k.shape[1]
    scores = _scores(q, k, causal)
    lse = torch.logsumexp(scores, -1) / 0.6931471805599453
    delta = (do * (torch.softmax(scores, -1) @ v)).sum(-1)
    dq, dk, dv = torch.zeros((H, M, D)), torch.empty((H, N, D)), torch.empty((H, N, D))
    if H:
        _backward[(triton.cdiv(N, 32), H)](
            q, k, v, do, lse, delta, dq, dk, dv, 0.25, M, N, D=D, BM=16, BN=32, CAUSAL=causal
        )
    return dq, dk, dv


def _varlen_golden(q, k, v, starts):
    ends = starts.long().tolist()
    parts = [slice(a, b) for a, b in itertools.pairwise(ends)]
    found = [torch.softmax(q[p] @ k[p].mT * 0.5, -1) @ v[p] for p in parts]
    return torch.cat(found) if found else torch.empty_like(q)


@tw.operator(
    reference=_varlen_golden, values={"starts": tw.values.offsets("T")}, where="T * 8 < 2**31 and S >= 1 and S <= 65535"
)
def variable_lengths(
    q: Float[Tensor, "T 8"], k: Float[Tensor, "T 8"], v: Float[Tensor, "T 8"], starts: Int32[Tensor, "S+1"]
) -> Float[Tensor, "T 8"]:
    q, k, v, starts = q.contiguous(), k.contiguous(), v.contiguous(), starts.contiguous()
    T, D = q.shape
    out = torch.empty((T, D))
    if T:
        _varlen[(triton.cdiv(T, 16), starts.numel() - 1)](q, k, v, out, starts, 0.5, D=D, BM=16, BN=16)
    return out


def _lengths(request):
    most = request.sizes["N"] * 4
    drawn = torch.randint(0, most + 1, request.shape, generator=request.generator)
    drawn[:1] = most
    drawn[1:2] = 0
    return drawn.to(request.dtype)


def _pages_golden(cache, table, lengths):
    rows = cache[table.long()].flatten(1, 2)
    live = torch.arange(rows.shape[1]) < lengths[:, None]
    return torch.where(live[:, :, None], rows, 0.0).sum(1)


@tw.operator(
    reference=_pages_golden,
    values={"table": tw.values.indices("P"), "lengths": _lengths},
    where="P >= 1 and B * N < 2**31",
)
def sum_of_pages(
    cache: Float[Tensor, "P 4 8"], table: Int32[Tensor, "B N"], lengths: Int32[Tensor, "B"]
) -> Float[Tensor, "B 8"]:
    cache, table, lengths = cache.contiguous(), table.contiguous(), lengths.contiguous()
    B, N = table.shape
    out = torch.empty((B, 8))
    if B:
        _paged[(B,)](out, cache, table, lengths, N, PAGE=4, D=8)
    return out
