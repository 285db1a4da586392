"""Fused attention, forward and backward, and what ragged and paged batches do to it."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

Pairs = list[tuple[Tensor, Tensor]]


@triton.jit
def _forward(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, M, N,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    start, head = tl.program_id(0) * BM, tl.program_id(1)
    rm, rd = start + tl.arange(0, BM), tl.arange(0, D)
    q_ptr += head * M * D
    k_ptr += head * N * D
    v_ptr += head * N * D
    q = tl.load(q_ptr + rm[:, None] * D + rd[None, :], mask=rm[:, None] < M, other=0.0)
    top = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    end = min(start + BM, N) if CAUSAL else N
    for n in range(0, end, BN):
        rn = n + tl.arange(0, BN)
        k = tl.load(k_ptr + rn[None, :] * D + rd[:, None], mask=rn[None, :] < N, other=0.0)
        s = tl.dot(q, k, input_precision="ieee") * (scale * 1.4426950408889634)
        keep = rn[None, :] < N
        if CAUSAL:
            keep = keep & (rm[:, None] >= rn[None, :])
        s = tl.where(keep, s, -float("inf"))
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        fade = tl.exp2(top - new)
        total = total * fade + tl.sum(p, 1)
        v = tl.load(v_ptr + rn[:, None] * D + rd[None, :], mask=rn[:, None] < N, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * fade[:, None], input_precision="ieee")
        top = new
    tl.store(o_ptr + head * M * D + rm[:, None] * D + rd[None, :], acc / total[:, None], mask=rm[:, None] < M)
    tl.store(lse_ptr + head * M + rm, top + tl.log2(total), mask=rm < M)


@triton.jit
def _backward(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr, dk_ptr, dv_ptr, scale, M, N,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """One program a block of keys; queries' gradients are added up by atomics."""
    first, head = tl.program_id(0) * BN, tl.program_id(1)
    rn, rd = first + tl.arange(0, BN), tl.arange(0, D)
    keys = head * N * D + rn[:, None] * D + rd[None, :]
    k = tl.load(k_ptr + keys, mask=rn[:, None] < N, other=0.0)
    v = tl.load(v_ptr + keys, mask=rn[:, None] < N, other=0.0)
    dk, dv = tl.zeros([BN, D], tl.float32), tl.zeros([BN, D], tl.float32)
    begin = first // BM * BM if CAUSAL else 0
    for m in range(begin, M, BM):
        rm = m + tl.arange(0, BM)
        queries = head * M * D + rm[:, None] * D + rd[None, :]
        q = tl.load(q_ptr + queries, mask=rm[:, None] < M, other=0.0)
        do = tl.load(do_ptr + queries, mask=rm[:, None] < M, other=0.0)
        lse = tl.load(lse_ptr + head * M + rm, mask=rm < M, other=0.0)
        delta = tl.load(delta_ptr + head * M + rm, mask=rm < M, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * (scale * 1.4426950408889634)
        keep = (rn[None, :] < N) & (rm[:, None] < M)
        if CAUSAL:
            keep = keep & (rm[:, None] >= rn[None, :])
        p = tl.where(keep, tl.exp2(s - lse[:, None]), 0.0)
        dv = tl.dot(tl.trans(p), do, dv, input_precision="ieee")
        dp = tl.dot(do, tl.trans(v), input_precision="ieee")
        ds = p * (dp - delta[:, None]) * scale
        dk = tl.dot(tl.trans(ds), q, dk, input_precision="ieee")
        tl.atomic_add(dq_ptr + queries, tl.dot(ds, k, input_precision="ieee"), mask=rm[:, None] < M, sem="relaxed")
    tl.store(dk_ptr + keys, dk, mask=rn[:, None] < N)
    tl.store(dv_ptr + keys, dv, mask=rn[:, None] < N)


def fused_attention() -> Pairs:
    pairs: Pairs = []
    for causal, m, n in ((False, 50, 70), (True, 50, 50)):
        q, k, v = (torch.randn(2, length, 16, requires_grad=True) for length in (m, n, n))
        do = torch.randn(2, m, 16)
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        expected.backward(do)
        with torch.no_grad():
            o, lse = torch.empty_like(q), torch.empty(2, m)
            _forward[(triton.cdiv(m, 16), 2)](q, k, v, o, lse, 0.25, m, n, D=16, BM=16, BN=32, CAUSAL=causal)
            dq, dk, dv = torch.zeros_like(q), torch.empty_like(k), torch.empty_like(v)
            delta = (do * o).sum(-1)
            _backward[(triton.cdiv(n, 32), 2)](
                q, k, v, do, lse, delta, dq, dk, dv, 0.25, m, n, D=16, BM=16, BN=32, CAUSAL=causal
            )
        pairs += [(o, expected.detach()), (dq, q.grad), (dk, k.grad), (dv, v.grad)]
    return pairs


@triton.jit
def _varlen(q_ptr, k_ptr, v_ptr, o_ptr, starts_ptr, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Sequences of different lengths, one behind the other: programs behind a sequence's end return early."""
    sequence = tl.program_id(1)
    begin, end = tl.load(starts_ptr + sequence), tl.load(starts_ptr + sequence + 1)
    first = tl.program_id(0) * BM
    if first >= end - begin:
        return
    rm, rd = begin + first + tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(q_ptr + rm[:, None] * D + rd[None, :], mask=rm[:, None] < end, other=0.0)
    top, total = tl.full([BM], -float("inf"), tl.float32), tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for n in range(begin, end, BN):
        rn = n + tl.arange(0, BN)
        inside = rn < end
        k = tl.load(k_ptr + rn[:, None] * D + rd[None, :], mask=inside[:, None], other=0.0)
        v = tl.load(v_ptr + rn[:, None] * D + rd[None, :], mask=inside[:, None], other=0.0)
        s = tl.where(inside[None, :], tl.sum(q[:, None, :] * k[None, :, :], 2) * scale, -float("inf"))
        new = tl.maximum(top, tl.max(s, 1))
        p, fade = tl.exp(s - new[:, None]), tl.exp(top - new)
        total = total * fade + tl.sum(p, 1)
        acc = acc * fade[:, None] + tl.sum(p[:, :, None] * v[None, :, :], 1)
        top = new
    tl.store(o_ptr + rm[:, None] * D + rd[None, :], acc / total[:, None], mask=rm[:, None] < end)


def variable_lengths() -> Pairs:
    lengths = [5, 0, 33, 17]
    starts = torch.tensor([0, 5, 5, 38, 55], dtype=torch.int32)
    q, k, v = (torch.randn(55, 8) for _ in range(3))
    o = torch.empty_like(q)
    _varlen[(3, 4)](q, k, v, o, starts, 0.5, D=8, BM=16, BN=16)
    parts = zip(*(t.split(lengths) for t in (q, k, v)), strict=True)
    expected = torch.cat([torch.softmax(a @ b.t() * 0.5, -1) @ c for a, b, c in parts])
    return [(o, expected)]


@triton.jit
def _paged(out_ptr, cache_ptr, table_ptr, lengths_ptr, pages, PAGE: tl.constexpr, D: tl.constexpr):
    """Adds up a sequence whose rows lie in pages named by a table."""
    sequence = tl.program_id(0)
    length = tl.load(lengths_ptr + sequence)
    rd, lanes = tl.arange(0, D), tl.arange(0, PAGE)
    total = tl.zeros([D], tl.float32)
    for page in range(tl.cdiv(length, PAGE)):
        block = tl.load(table_ptr + sequence * pages + page).to(tl.int64)
        rows = block * PAGE + lanes
        inside = page * PAGE + lanes < length
        x = tl.load(cache_ptr + rows[:, None] * D + rd[None, :], mask=inside[:, None], other=0.0)
        total += tl.sum(x, 0)
    tl.store(out_ptr + sequence * D + rd, total)


def paged_gather() -> Pairs:
    cache = torch.randn(10, 4, 8)
    table = torch.tensor([[7, 2, 9], [0, -1, -1], [-1, -1, -1]], dtype=torch.int32)
    lengths = torch.tensor([11, 4, 0], dtype=torch.int32)
    out = torch.empty(3, 8)
    _paged[(3,)](out, cache, table, lengths, 3, PAGE=4, D=8)
    expected = torch.stack([cache[[7, 2, 9]].reshape(12, 8)[:11].sum(0), cache[0].sum(0), torch.zeros(8)])
    return [(out, expected)]


@triton.jit
def _route(expert_ptr, count_ptr, start_ptr, slot_ptr, n, EXPERTS: tl.constexpr, BLOCK: tl.constexpr):
    """Each token takes a place among those of its expert."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = lanes < n
    expert = tl.load(expert_ptr + lanes, mask=mask, other=0)
    place = tl.atomic_add(count_ptr + expert, 1, mask=mask)
    start = tl.load(start_ptr + expert, mask=mask, other=0)
    tl.store(slot_ptr + start + place, lanes, mask=mask)


@triton.jit
def _permute(x_ptr, slot_ptr, out_ptr, n, D: tl.constexpr):
    row = tl.program_id(0)
    token = tl.load(slot_ptr + row)
    tl.store(out_ptr + row * D + tl.arange(0, D), tl.load(x_ptr + token * D + tl.arange(0, D)))


def expert_routing() -> Pairs:
    expert, x = torch.randint(0, 4, (50,), dtype=torch.int32), torch.randn(50, 8)
    counts = torch.bincount(expert, minlength=4)
    starts = (counts.cumsum(0) - counts).int()
    taken, slots, out = torch.zeros(4, dtype=torch.int32), torch.empty(50, dtype=torch.int32), torch.empty_like(x)
    _route[(4,)](expert, taken, starts, slots, 50, EXPERTS=4, BLOCK=16)
    _permute[(50,)](x, slots, out, 50, D=8)
    sums = torch.zeros(4, 8).index_add_(0, expert.sort().values, out)
    return [(taken, counts), (sums, torch.zeros(4, 8).index_add_(0, expert, x))]


TECHNIQUES = [fused_attention, variable_lengths, paged_gather, expert_routing]
